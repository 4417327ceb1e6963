"""The runner of the papers' experiments: its files, networks and a small run."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax

from sklearn_calib.losses import get_loss
from sklearn_calib.metrics import expected_calibration_error

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"
INPUTS = PAPERS / "inputs"

path = Path(__file__).with_name("train_papers.py")
spec = importlib.util.spec_from_file_location(path.stem, path)
train_papers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(train_papers)


@pytest.fixture(scope="module", autouse=True)
def _importable():
    """Let the scripts import one another, as they do when they are run."""
    sys.path.insert(0, str(PAPERS))
    yield
    sys.path.remove(str(PAPERS))
    for path in PAPERS.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def networks():
    import networks

    return networks


@pytest.fixture
def run(tmp_path, monkeypatch):
    import run

    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run.score, "GRID", np.arange(1, 11))
    monkeypatch.setitem(run.data.READERS, "cifar10", train_papers.read_noise)
    return run


def check_channels(images, mean, var, weight, bias, *_):
    """Check the shapes of a batch normalisation, and return the images."""
    channels = images.shape[1:2]
    assert mean.shape == var.shape == weight.shape == bias.shape == channels
    return images


# He et al. (2016), Zagoruyko and Komodakis (2016) and Huang et al. (2017) print them
# in millions for CIFAR-10 (1.7, 0.85, 36.5, 1.0). Those of 3 x 3 first convolutions
# differ from ImageNet's (25.6 and 8.0 with 1000 classes) by that layer and the last.
@pytest.mark.parametrize(
    ("name", "n_millions"),
    [
        ("ResNet50", 25.557 - 2.049 + 0.0205 - 0.0094 + 0.0017),
        ("ResNet110", 1.73),
        ("ResNet110Bottleneck", 45.86),
        ("PreResNet56", 0.856),
        ("WideResNet28x10", 36.48),
        ("WideResNet26x10", 36.48),
        ("DenseNet40", 1.02),
        ("DenseNet121", 7.979 - 1.025 + 0.01025 - 0.0094 + 0.0017),
    ],
)
def test_networks_have_the_published_size(networks, name, n_millions, monkeypatch):
    # On the device "meta", torch would import its compiler to normalise a batch.
    monkeypatch.setattr(torch.nn.functional, "batch_norm", check_channels)
    with torch.device("meta"):
        network = getattr(networks, name)(3, 10)
    assert network(torch.zeros(2, 3, 32, 32, device="meta")).shape == (2, 10)
    n_parameters = sum(weights.numel() for weights in network.parameters())
    assert n_parameters / 1e6 == pytest.approx(n_millions, abs=0.006)


@pytest.mark.parametrize("name", ["EfficientViTM1", "ResNet18"])
def test_timm_networks_take_small_images(networks, name):
    pytest.importorskip("timm")
    assert getattr(networks, name)(3, 7).eval()(torch.zeros(2, 3, 32, 32)).shape == (
        2,
        7,
    )


def test_each_loss_exists():
    losses = tomllib.loads((INPUTS / "losses.toml").read_text("utf-8"))
    for path in [
        *INPUTS.glob("*20*.toml"),
        INPUTS / "small.toml",
        INPUTS / "medium.toml",
    ]:
        assert set(tomllib.loads(path.read_text("utf-8"))["losses"]) <= set(losses)
    for params in losses.values():
        own = {k[6:]: v for k, v in params.items() if k.startswith("loss__")}
        get_loss(params["loss"])(**own)


def test_seeds_are_the_papers(run):
    options = run.read_options(["--paper", "zhou2025", "--size", "paper"])
    assert {job["seed"] for job in run.plan(options)} == set(range(5))
    assert {job["seed"] for job in run.plan(run.read_options([]))} == set(range(3))


def test_published_numbers_are_ours_to_compare():
    table = pd.read_csv(INPUTS / "published.csv")
    assert not table.isna().any(axis=None)
    assert not table.duplicated(
        ["paper", "table", "data", "network", "loss", "map", "metric"]
    ).any()


@pytest.fixture
def small(run, monkeypatch):
    read_toml = run.read_toml
    monkeypatch.setattr(
        run,
        "read_toml",
        lambda name: (
            {**read_toml(name), "experiments": {"cifar10": train_papers.SMALL}}
            if name in run.SIZES
            else read_toml(name)
        ),
    )


@pytest.mark.usefixtures("small")
def test_a_finished_run_is_not_trained_again(run, monkeypatch):
    options = run.read_options(
        ["--seeds", "1", "--losses", "cross-entropy", "adafocal"]
    )
    folder = run.RESULTS / "small"
    run.do_missing(options, folder)
    results = pd.read_csv(folder.with_suffix(".csv"))
    assert list(results["loss"].unique()) == ["cross-entropy", "adafocal"]
    assert results["map"].nunique() == 8
    assert results.notna().all()[["error", "ece", "nll", "revision"]].all()
    monkeypatch.setattr(run.train, "train", None)  # it would fail
    run.do_missing(options, folder)
    run.rescore(options, folder)
    again = pd.read_csv(folder.with_suffix(".csv"))
    numbers = ["error", "ece", "aurc", "nll"]
    np.testing.assert_allclose(again[numbers], results[numbers], atol=0.02)
    assert again["seconds"].equals(results["seconds"])


@pytest.mark.usefixtures("small")
def test_the_medium_size_is_one_command(run, monkeypatch):
    """It keeps what parameters are chosen by."""
    medium = run.read_toml("medium")
    assert len(run.plan(run.read_options(["--size", "medium"]))) == (
        medium["seeds"] * len(medium["losses"])
    )
    few = ["--seeds", "1", "--losses", "cross-entropy", "dual-focal-2"]
    monkeypatch.setattr(sys, "argv", ["run.py", "--size", "medium", *few])
    monkeypatch.setattr(run.data, "DATA", PAPERS)
    run.main()
    results = pd.read_csv(run.RESULTS / "medium.csv")
    valid = run.score.read_logits(
        run.RESULTS / "logits_output" / "medium" / "cifar10-dual-focal-2-0.npz"
    )
    error = expected_calibration_error(valid["y_valid"], softmax(valid["valid"], 1))
    chosen = results.loc[results["loss"] == "dual-focal-2", "valid_ece"]
    np.testing.assert_allclose(chosen, error, atol=1e-3)


def test_the_focal_papers_sum_and_clip(run):
    """So does their code; a row does so at every size, --size paper in all of them."""
    splits = run.data.read_splits("cifar10", n_train=40, n_valid=20, n_calibration=20)
    settings = {**train_papers.SMALL, "epochs": 1}
    clipped = {"loss__reduction": "sum", "callbacks__clip__gradient_clip_value": 2.0}
    for name in ("ghosh2022", "tao2023", "liang2025"):
        for experiment in run.read_toml(name)["experiments"].values():
            assert experiment["params"] == clipped
    norms = {}
    for loss in ("cross-entropy", "cross-entropy-sum"):
        params = run.find_loss({"loss": loss, "data": "cifar10", "settings": settings})
        model = run.train.build(settings, params, 0, splits, "cpu")
        model.fit(*splits["train"])
        gradients = [weights.grad for weights in model.module_.parameters()]
        norms[loss] = float(torch.nn.utils.get_total_norm(gradients))
    assert norms["cross-entropy-sum"] == pytest.approx(2, rel=1e-3)
    assert norms["cross-entropy"] != pytest.approx(2, rel=1e-3)


@pytest.mark.usefixtures("small")
def test_rescoring_leaves_other_rows_alone(run):
    options = run.read_options(["--seeds", "1", "--losses", "brier"])
    folder = run.RESULTS / "small"
    path = folder.with_suffix(".csv")
    run.append(ROWS, path)
    before = path.read_text("utf-8")
    with pytest.raises(SystemExit, match="no logits"):
        run.rescore(options, folder)
    assert path.read_text("utf-8") == before
    run.do_missing(options, folder)
    run.rescore(options, folder)
    table = pd.read_csv(path, dtype={"revision": str})
    pd.testing.assert_frame_equal(table.loc[:1, list(ROWS[0])], pd.DataFrame(ROWS))
    assert list(table["data"].unique()) == ["d", "cifar10"]


ROWS = [
    {"data": "d", "loss": "brier", "seed": 0, "map": m, "ece": 0.1, "revision": "0123"}
    for m in ("none", "temperature")
]


def test_rows_are_appended_once(run):
    path = run.RESULTS / "small.csv"
    path.touch()  # an interruption before the first row
    for _ in range(2):
        run.append(ROWS, path)
    run.append([{**row, "seed": 1} for row in ROWS], path)
    run.append([{**row, "seed": 2, "new": 1.0} for row in ROWS], path)
    table = pd.read_csv(path, dtype={"revision": str})
    assert list(table["seed"]) == [0, 0, 1, 1, 2, 2]
    assert list(table["new"].notna()) == [False] * 4 + [True] * 2
    assert set(table["revision"]) == {"0123"}


def test_an_interruption_leaves_no_half_of_a_file(run, tmp_path, monkeypatch):
    path = tmp_path / "logits.npz"
    logits = {"test": np.zeros((2, 3)), "y_test": np.arange(2)}
    run.score.write_logits(path, logits)
    before = path.read_bytes()

    def fail(file, **_):
        file.write(b"PK")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(KeyboardInterrupt):
        run.score.write_logits(path, logits)
    assert path.read_bytes() == before
    assert [*tmp_path.glob("*.npz")] == [path]


@pytest.mark.parametrize("rows", [ROWS, [{**row, "new": 1.0} for row in ROWS]])
def test_an_interruption_leaves_no_half_of_a_row(run, monkeypatch, rows):
    path = run.RESULTS / "small.csv"
    run.append(ROWS, path)
    before = path.read_bytes()
    write = Path.write_text

    def fail(file, text, **kwargs):
        write(file, text[:-10], **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(KeyboardInterrupt):
        run.append([{**row, "seed": 1} for row in rows], path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "no runs"),
        (["--data", "cifar-10"], "cifar-10"),
        (["--losses", "focal"], "invalid choice: 'focal'"),
        (["--paper", "zhou2025", "--size", "paper", "--data", "newsgroups"], "no runs"),
        (
            ["--paper", "zhou2025", "--size", "paper", "--network", "Net"],
            "networks.py",
        ),
        (["--network", "ResNet50"], "--size paper"),
        (["--size", "paper"], "--paper"),
    ],
)
def test_options_that_mean_nothing_are_refused(run, capsys, arguments, message):
    with pytest.raises(SystemExit):
        run.read_options(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a CUDA device")
def test_a_missing_device_is_refused(run, capsys):
    with pytest.raises(SystemExit):
        run.read_options(["--device", "cuda"])
    assert "torch sees" in capsys.readouterr().err


def test_missing_data_are_named(run, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["run.py"])
    monkeypatch.setattr(run.data, "DATA", tmp_path / "nowhere")
    with pytest.raises(SystemExit, match="SKLEARN_CALIB_DATA"):
        run.main()


def test_many_images_are_standardised(run):
    """A sum over the images in single precision would be wrong in the third digit."""
    images = np.full((2000, 3, 32, 32), 250, dtype=np.uint8)
    images[::2] = 240
    ((X, _),) = run.data.standardise([(images, None)])
    assert X.dtype == np.float32
    assert X.mean(dtype=np.float64) == pytest.approx(0, abs=1e-4)
    assert X.std(dtype=np.float64) == pytest.approx(1, abs=1e-4)


def test_half_precision_is_for_training(networks):
    torch.manual_seed(0)
    images = torch.randn(8, 3, 32, 32)
    half = networks.Prepared(3, "SmallNet", n_channels=3, half=True)
    single = networks.Prepared(3, "SmallNet", n_channels=3)
    single.load_state_dict(half.state_dict())
    trained = half(images), single(images)
    assert trained[0].dtype == torch.float32
    assert not torch.equal(*trained)
    torch.testing.assert_close(*trained, atol=0.1, rtol=0)
    half.load_state_dict(single.state_dict())
    assert torch.equal(half.eval()(images), single.eval()(images))


@pytest.mark.parametrize(
    "paper", ["ghosh2022", pytest.param("zhou2025", marks=pytest.mark.slow)]
)
def test_full_size_takes_a_step(run, paper):
    """ResNet-50 with augmentation and the papers' schedule, cut to a small batch."""
    options = run.read_options(["--paper", paper, "--size", "paper", "--seeds", "1"])
    plan = run.plan(options)
    settings = next(r["settings"] for r in plan if r["data"] == "cifar10")
    splits = {"n_train": 3, "n_valid": 1, "n_calibration": 1, "n_test": 1}
    parts = run.data.read_splits("cifar10", **splits)
    parts = {name: (X[..., ::2, ::2], y) for name, (X, y) in parts.items()}
    loss = {"loss": "cross_entropy"}
    model = run.train.build(settings, loss, 0, parts, "cpu")
    model.set_params(max_epochs=1).fit(*parts["train"])
    assert settings["network"] == "ResNet50"
    assert settings["augment"]
    assert model.decision_function(parts["test"][0]).shape[0] == 1


def test_two_stages_train_by_their_own_schedules(run):
    """As in hebbalaguppe2026.toml, by the small network for an epoch or two."""
    settings = run.read_toml("hebbalaguppe2026")["experiments"]["cifar10"]
    settings["network"] = "SmallNet"
    settings["refine"]["epochs"], settings["head"]["epochs"] = 1, 2
    splits = run.data.read_splits("cifar10", n_train=40, n_valid=2, n_calibration=2)
    params = run.find_loss({"loss": "refcal, mbls", "data": "", "settings": settings})
    model = run.train.build(settings, params, 0, splits, "cpu").fit(*splits["train"])
    assert model.decision_function(splits["test"][0]).shape == (40, 3)
    assert model.refiner_.batch_size == 1024
    assert model.refiner_.history_[:, "event_lr"] == [0.5]
    assert (model.head_.batch_size, len(model.history_)) == (512, 2)
    assert model.head_.optimizer_.param_groups[0]["weight_decay"] == 0
    assert model.refiner_.optimizer_.param_groups[0]["weight_decay"] == 1e-4
