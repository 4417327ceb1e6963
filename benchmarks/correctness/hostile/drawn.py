"""Tries drawn by hypothesis: small problems with ties, and several hostile values."""

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from hostile.subjects import subjects
from hostile.values import ANY, INVALID, OPEN, SAME, VALID

# Ordinary and extreme weights and logits.
EXPONENTS = st.integers(-300, 300) | st.integers(-2, 2)
ENDS = st.sampled_from([0.0, 1.0, -1.0, 1e-320, 1e-300, 1e-16, 1e8, 1e16, 1e100, 30.0])


def collect(strategy, n_examples, key):
    """Return a number of examples of a strategy, always the same."""
    found = []

    @seed(key)
    @settings(
        max_examples=n_examples, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def keep(example):
        found.append(example)

    keep()
    return found


@st.composite
def probabilities(draw, n_samples, n_classes):
    """Draw rows of probabilities on a grid, with ties, zeros and ones."""
    cells = st.lists(st.integers(0, 4), min_size=n_classes, max_size=n_classes)
    counts = np.array([draw(cells) for _ in range(n_samples)], dtype=float)
    counts[:, 0] += counts.sum(axis=1) == 0
    return counts / counts.sum(axis=1, keepdims=True)


@st.composite
def some_logits(draw, n_samples, n_classes):
    cells = st.floats(-20, 20) | ENDS
    row = st.lists(cells, min_size=n_classes, max_size=n_classes)
    return np.array([draw(row) for _ in range(n_samples)])


@st.composite
def weights(draw, n_samples):
    """Draw None, counts, or weights of one magnitude."""
    kind = draw(st.sampled_from(["none", "counts", "scaled"]))
    if kind == "none":
        return None
    counts = st.lists(st.integers(0, 3), min_size=n_samples, max_size=n_samples)
    weight = np.array(draw(counts), dtype=float)
    weight[0] += weight.sum() == 0
    return weight if kind == "counts" else weight * 10.0 ** draw(EXPONENTS)


@st.composite
def small_problems(draw, subject):
    """Draw the data of a subject; a class may be absent if there is a `labels`."""
    n_samples = draw(st.integers(1, 20))
    n_classes = 2 if subject.setting == "two" else draw(st.integers(2, 5))
    code = st.integers(0, n_classes - 1)
    y = np.array(draw(st.lists(code, min_size=n_samples, max_size=n_samples)))
    kind = some_logits if subject.setting in ("logits", "tensors") else probabilities
    made = {}
    for name in ("y_proba", "y_proba_a", "y_proba_b", "X", "logits"):
        if name in subject.arguments:
            values = draw(kind(n_samples, n_classes))
            made[name] = values[:, 1] if subject.setting == "two" else values
    if "X_new" in subject.arguments:
        made["X_new"] = made["X"]
    made |= {name: y for name in ("y", "y_true", "target") if name in subject.arguments}
    if "sample_weight" in subject.tables:
        made["sample_weight"] = draw(weights(n_samples))
    if "labels" in subject.tables:
        made["labels"] = np.arange(n_classes)
    if subject.setting == "tensors":
        return {k: v if v is None else torch.as_tensor(v) for k, v in made.items()}
    return made


HAS_PROBLEM = {"three", "two", "logits", "tensors"}
OWN_SHAPES = {"edges", "bin_confidence", "groups", "values", "embeddings"}


def problems(n_tries):
    """Return tries of drawn problems, for the subjects that accept them."""
    chosen = [
        subject
        for subject in subjects().values()
        if subject.setting in HAS_PROBLEM and not OWN_SHAPES & subject.arguments.keys()
    ]
    each = -(-n_tries // len(chosen))
    return [
        (subject.name, changes, OPEN)
        for key, subject in enumerate(chosen)
        for changes in collect(small_problems(subject), each, key)
    ][:n_tries]


def verdict_of(verdicts):
    """Return the verdict for several hostile values together."""
    if INVALID in verdicts:
        return INVALID
    return OPEN if {*verdicts} <= {OPEN, SAME, VALID} else ANY


@st.composite
def several(draw, subject):
    """Draw two or three arguments of a subject, with a value from each table."""
    # Whether values are probabilities depends on from_logits.
    tables = {k: table for k, table in subject.tables.items() if table}
    tables.pop("from_logits", None)
    names = st.lists(
        st.sampled_from(sorted(tables)), min_size=2, max_size=3, unique=True
    )
    keys = {name: draw(st.sampled_from(sorted(tables[name]))) for name in draw(names)}
    # One column each is a data set of one feature.
    is_narrow = keys.get("X") == keys.get("X_new") == "one column"
    verdicts = [
        subject.settled.get(item, tables[item[0]][item[1]].verdict)
        for item in keys.items()
        # They are those of labels that are strings too.
        if not (item == ("labels", "strings") and {"y", "y_true"} & {*keys})
        and not (is_narrow and item[0] in ("X", "X_new"))
    ]
    return subject.name, keys, verdict_of(verdicts)


def combinations(n_tries):
    """Return tries with several hostile values."""
    chosen = [s for s in subjects().values() if sum(map(bool, s.tables.values())) > 2]
    return collect(st.sampled_from(chosen).flatmap(several), n_tries, 0)
