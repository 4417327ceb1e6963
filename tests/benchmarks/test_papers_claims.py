"""What came out of the papers' claims: tuned losses, intervals and verdicts."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers" / "page"


@pytest.fixture
def claims(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    import claims

    yield claims
    sys.modules.pop("claims")


@pytest.fixture
def results():
    """Dual focal with gamma 2 is best on the test set, not on the validation set."""
    rows = [
        {"loss": loss, "seed": seed, "ece": ece + 0.1 * seed, "valid_ece": valid[seed]}
        for loss, ece, valid in (
            ("cross-entropy", 10.0, (9.0, 9.0, 9.0)),
            ("dual-focal-2", 1.0, (4.0, 4.0, 4.0)),
            ("dual-focal-3", 5.0, (3.0, 3.0, 5.0)),
            ("dual-focal", 6.0, (5.0, 5.0, 2.0)),
        )
        for seed in range(3)
    ]
    table = pd.DataFrame(rows).assign(data="cifar10")
    scaled = table.assign(map="temperature", ece=table["ece"] / 2)
    return pd.concat([table.assign(map="none"), scaled], ignore_index=True)


def test_parameters_are_chosen_on_the_validation_set(claims, results):
    tuned, chosen = claims.add_tuned(results)
    best = ["dual-focal-3", "dual-focal-3", "dual-focal"]
    assert list(chosen) == ["dual-focal"]
    assert chosen["dual-focal"].to_dict() == dict(enumerate(best))
    rows = tuned[tuned["loss"] == "dual-focal, tuned"].set_index(["map", "seed"])["ece"]
    np.testing.assert_allclose(rows["none"], [5, 5.1, 6.2])
    np.testing.assert_allclose(rows["temperature"], [2.5, 2.55, 3.1])
    decisive = claims.only_tuned(tuned, chosen)
    assert set(decisive["loss"]) == {"cross-entropy", "dual-focal"}


def test_a_parameter_with_a_missing_candidate_is_not_chosen(claims, results):
    part = results[results["loss"] != "dual-focal-3"]
    tuned, chosen = claims.add_tuned(part)
    assert not chosen
    assert set(tuned["loss"]) == set(part["loss"])


def test_the_interval_is_that_of_a_t_test(claims):
    ratios = np.array([0.5, 0.7, 0.6])
    # t(0.975, 2) = 4.3027, as tables of the t-distribution have it.
    logs = np.log(ratios)
    width = 4.3027 * logs.std(ddof=1) / np.sqrt(3)
    expected = np.exp(logs.mean() + np.array([0, -width, width]))
    np.testing.assert_allclose(claims.interval(ratios), expected, rtol=1e-4)
    assert claims.interval(ratios[:1])[2] == np.inf


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((0.2, 0.9), "holds"),
        ((0.9, 1.1), "cannot tell"),
        ((1.1, 1.5), "does not hold"),
        ((0.0, np.inf), "cannot tell"),
    ],
)
def test_verdicts_follow_the_interval(claims, ends, verdict):
    assert claims.judge(*ends) == verdict


def test_the_first_size_with_both_losses_decides(claims, results):
    """The medium size, with the tuned loss; the small one for what it lacks."""
    decisive = claims.only_tuned(*claims.add_tuned(results))
    small = results.assign(ece=1.0)
    flsd = small[small["loss"] == "cross-entropy"].assign(loss="flsd-53", ece=2.0)
    sources = {"medium": decisive, "small": pd.concat([small, flsd])}
    settled = claims.settle(sources, claims.read_published()).set_index("says")
    row = settled.loc["Dual focal is better calibrated than cross-entropy"]
    assert (row["size"], row["verdict"], row["seeds"]) == ("medium", "holds", 3)
    ratios = np.array([5, 5.1, 6.2]) / np.array([10, 10.1, 10.2])
    assert row["ours"] == pytest.approx(np.exp(np.log(ratios).mean()))
    # Tao et al., table 1: 0.46 and 4.35 for ResNet-50 on CIFAR-10.
    assert row["theirs"] == pytest.approx(0.46 / 4.35)
    row = settled.loc["Dual focal is better calibrated than FLSD-53"]
    assert (row["size"], row["verdict"]) == ("small", "holds")
    assert row["ours"] == pytest.approx(0.5)
