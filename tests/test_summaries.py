"""Summaries contain the common name, and some phrases do not occur."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent

CHECKED_PACKAGES = ["calibrators", "displays", "losses", "metrics"]
CHECKED_PATHS = ["sklearn_calib", "doc", "examples", "README.md"]

PACKAGES = ["calibrators", "displays", "losses", "metrics"]

# Words of public names that say what kind of object it is.
KINDS = {"calibrator", "display", "error", "get", "loss", "score"}

# Names whose words are not the common name: the summary contains one of the phrases
# instead. The class of a loss has the summary of its function, and no row.
COMMON_NAMES = {
    # losses
    "ada_dual_focal_loss": ["AdaDualFocal", "adaptive dual focal"],
    "max_sup_loss": ["MaxSup"],
    "regularized_aurc_loss": ["regularised AURC"],
    # metrics
    "CalibrationAccumulator": ["calibration error"],
    "classwise_calibration_error": ["class-wise calibration error"],
    "coverage_at_risk": ["coverage"],
    "difference_test": ["difference"],
    "ece_consistency_bound": ["expected calibration error", "ECE"],
    "ece_interval": ["expected calibration error", "ECE"],
    "excess_aurc_loss": ["E-AURC", "excess AURC"],
    "failure_auroc_score": ["AUROC"],
    "fpr_at_tpr": ["false positive rate", "FPR"],
    "ks_calibration_error": ["Kolmogorov-Smirnov", "KS"],
    "lowest_error_within_one_se": ["one-standard-error"],
    "ood_aupr_score": ["AUPR"],
    "ood_auroc_score": ["AUROC"],
    "ood_detection_error": ["detection error"],
    "per_group": ["group"],
    "per_label": ["label"],
    "risk_at_coverage": ["risk"],
    "tcal_test": ["T-Cal"],
    "worst_group": ["group"],
    # calibrators
    "BBQ": ["BBQ", "Bayesian binning into quantiles"],
    "ENIR": ["ENIR", "near-isotonic"],
    "FocalPosterior": ["focal"],
    "IsotonicCalibration": ["isotonic calibration", "isotonic regression"],
    "JointIsotonicCalibration": ["isotonic calibration", "isotonic regression"],
    "MetaCal": ["Meta-Cal"],
    "PerLabelCalibrator": ["label"],
    "TemperatureAccumulator": ["temperature scaling"],
    # displays
    "ClasswiseReliabilityDisplay": ["class-wise reliability", "reliability diagram"],
    "ConfidenceDynamicsDisplay": ["confidence"],
    "ConfidenceHistogramDisplay": ["confidence", "histogram"],
    "CorpReliabilityDisplay": ["CORP"],
    "GammaDynamicsDisplay": ["gamma"],
    "GroupReliabilityDisplay": ["reliability diagram"],
    "ReliabilityDisplay": ["reliability diagram"],
}

# Phrases as regular expressions, matched in any case and across line breaks.
BANNED = [
    r"\b(small|low|high|large) is good",
    r"\bthe (smaller|larger|lower|higher) the better",
    r"\bwhoever\b",
    r"\bnever guessed\b",
    r"\bsurer\b",
    r"\bsurest\b",
    r"\bsureness\b",
    r"\b(how|too) sure\b",
    r"\bsurprise at\b",
    r"\bwhat a (classifier|network) said\b",
    r"\bhow often (it|a classifier) is right\b",
    r"\b(one|class|each) against the rest\b",
    r"\bhits and misses\b",
    r"\bat home\b",
    r"\bfrom elsewhere\b",
    r"\bruns (off|away)\b",
    r"\bhow much is chance\b",
    r"\bvalidation share\b",
    r"\bprobabilities as (labels|target)\b",
    r"\bfor the asking\b",
    r"\bgive up the others\b",
    r"\b(is|are) no (tensors?|numbers?|integers?|floats?|floating|strings?|arrays?)\b",
    r"\b(is|are) no (bools?|tuples?|lists?|parameters?|metrics?|labels?|class ind)",
]
# Much faster than one search for each, as nearly all texts contain none of them.
ANY_BANNED = re.compile("|".join(BANNED))


def public_names(package):
    """Return the public objects of a package by name."""
    module = import_module(f"sklearn_calib.{package}")
    return {name: getattr(module, name) for name in module.__all__}


def summaries(package):
    """Return the first line of the docstring of each public name."""
    docstrings = {n: inspect.getdoc(each) for n, each in public_names(package).items()}
    return {name: text.splitlines()[0] for name, text in docstrings.items()}


def words(name):
    """Return the words of a name, without those for the kind of object."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z\d]+", name)
    return [word for word in map(str.lower, parts) if word not in KINDS]


def contains(text, phrase):
    """Return whether a text contains a phrase, with hyphens, spaces or neither."""
    pattern = r"[\s-]?".join(map(re.escape, re.split(r"[\s-]", phrase)))
    return re.search(rf"\b{pattern}", text, re.IGNORECASE) is not None


def has_common_name(name, text):
    """Return whether a summary contains the common name of what it describes."""
    if name in COMMON_NAMES:
        return any(contains(text, phrase) for phrase in COMMON_NAMES[name])
    return all(contains(text, word) for word in words(name))


def twins():
    """Return the function of each loss and its class, by the name of the function."""
    losses = public_names("losses")
    classes = {name.lower(): name for name in losses if name[0].isupper()}
    squeezed = {name: name.replace("_", "") for name in losses}
    return {name: classes[key] for name, key in squeezed.items() if key in classes}


@pytest.mark.parametrize("package", CHECKED_PACKAGES)
def test_summary_contains_the_common_name(package):
    skipped = twins().values() if package == "losses" else ()
    missing = [
        f"{name}: {text}"
        for name, text in summaries(package).items()
        if name not in skipped and not has_common_name(name, text)
    ]
    hint = "Name it in the summary, or add its common name to COMMON_NAMES:"
    if missing:
        pytest.fail("\n".join([hint, *missing]), pytrace=False)


def test_a_loss_and_its_module_have_the_same_summary():
    lines, pairs = summaries("losses"), twins()
    assert len(pairs) > 30
    different = [f for f, c in pairs.items() if lines[f] != lines[c]]
    assert not different


def test_rows_are_of_public_names():
    public = {name for package in PACKAGES for name in public_names(package)}
    assert COMMON_NAMES.keys() <= public


def files():
    """Return the checked files."""
    for each in CHECKED_PATHS:
        path = CHECKOUT / each
        yield from [path] if path.is_file() else sorted(path.rglob("*.*"))


def plain_text(path):
    """Return the text of a file in one line, without the marks of comments."""
    text = re.sub(r"\n\s*#+:? ", " ", path.read_text(encoding="utf-8"))
    return re.sub(r"[\s`*]+", " ", text)


def banned_phrases(text):
    """Return the banned phrases that a text contains."""
    if not ANY_BANNED.search(text.lower()):
        return []
    found = (re.search(phrase, text, re.IGNORECASE) for phrase in BANNED)
    return [match.group() for match in found if match]


def test_no_banned_phrase():
    written = [path for path in files() if "generated" not in path.parts]
    texts = {p: plain_text(p) for p in written if p.suffix in {".md", ".py"}}
    found = [
        f"{path.relative_to(CHECKOUT)}: {phrase!r}"
        for path, text in texts.items()
        for phrase in banned_phrases(text)
    ]
    assert texts
    if found:
        pytest.fail("\n".join(["Say it in standard terms:", *found]), pytrace=False)
