"""Calls of every public name with valid arguments, and the tables of hostile values.

The names come from ``__all__`` and their arguments from the signatures. So new
functions and classes are tried without a change here, unless they have an argument with
a new name. Then an error says so.
"""

from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from hostile import arguments, calls, options, tensors, uses, values
from hostile.values import ANY, INVALID, OPEN, VALID

TOPICS = [
    *("metrics", "losses", "calibrators", "estimators"),
    *("displays", "evaluation", "datasets", "callbacks"),
    *("deployment", "persistence"),
]
# Base classes without behaviour.
ABSTRACT = {
    "calibrators.Calibrator",
    "calibrators.GroupCalibrator",
    "losses.CalibrationLoss",
}
NEEDED = {"calibrators.BoostingCalibrator": "lightgbm"}
NOT_TRIED = ABSTRACT | {name for name in NEEDED if not find_spec(NEEDED[name])}

# Words that messages may use in place of the name of an argument.
ALIASES = {"X", "y", "y_true", "logits", "target", "labels", "sample_weight", "loss"}

MATRIX = {**values.PROBABILITIES, **values.MATRIX}
COLUMN = {
    **values.PROBABILITIES,
    "column": values.Hostile(lambda a: a.reshape(-1, 1), VALID),
}
SHARED = {
    # They have tests of their own.
    **{key: {} for key in ["y_set", "y_pvalue"]},
    "sample_weight": values.WEIGHTS,
    "labels": arguments.LABEL_LISTS,
    "groups": arguments.GROUPS,
    **dict.fromkeys(["y_true", "y"], values.LABELS),
    **dict.fromkeys(["scores_in", "scores_out"], arguments.SCORES),
    **dict.fromkeys(["train_priors", "priors"], uses.PRIORS),
}
RARE = {"one class", "boolean inside", "short", "nothing", "empty", "empty list"}
# scikit-learn's classifiers check their data.
HANDED_ON = {key: {} for key in ["X", "X_new", "X_in", "X_out"]}
# The classes are those of a fitted classifier.
OF_KNOWN_CLASSES = {
    key: values.Hostile(each.make, INVALID if each.verdict == INVALID else OPEN)
    for key, each in values.LABELS.items()
} | {"one class": values.Hostile(values.LABELS["one class"].make, VALID)}
# Labels of any type, possibly of one class.
OF_ANY_CLASSES = {
    key: values.Hostile(each.make, OPEN if key in RARE else each.verdict)
    for key, each in values.LABELS.items()
}
# A 0 or a 1 for each label of each sample.
INDICATORS = {
    key: values.Hostile(each.make, INVALID if each.verdict == INVALID else OPEN)
    for key, each in values.LABELS.items()
    if key not in ("one class", "two columns", "boolean inside")
}
BATCH = {
    **dict.fromkeys(["logits", "embeddings"], tensors.TENSORS),
    "target": tensors.CLASS_INDICES,
    "sample_weight": tensors.TENSOR_WEIGHTS,
}


def opened(table):
    """Return a table whose valid values may also be refused."""
    return {
        key: each._replace(verdict=OPEN) if each.verdict == VALID else each
        for key, each in table.items()
    }


def of_predictions(table):
    """Return the tables of a setting whose predictions have this one."""
    names = ["y_proba", "y_proba_a", "y_proba_b", "posterior", "X", "X_new"]
    new = {"y_proba_new": opened(table)}
    return {**SHARED, **dict.fromkeys(names, table), **new}


# The tables of the arguments in each setting; other arguments have `options`.
TABLES = {
    "three": of_predictions(MATRIX),
    "two": of_predictions(COLUMN),
    "logits": of_predictions(values.LOGITS),
    "several labels": {
        **of_predictions(values.PROBABILITIES),
        **dict.fromkeys(["y", "y_true"], INDICATORS),
    },
    "tensors": BATCH,
    "embeddings": {**BATCH, "target": tensors.LABELS},
    "label tensors": {**BATCH, "target": tensors.INDICATORS},
    "fit": {**SHARED, **dict.fromkeys(["X", "X_new"], arguments.DATA)},
    # Groups are columns of X there, and have tests of their own.
    "around": {**SHARED, **HANDED_ON, "groups": {}},
    "fitted": {**SHARED, **HANDED_ON, "y": OF_KNOWN_CLASSES},
    "validation": {**SHARED, "y": {}},
    "chunks": {**of_predictions(MATRIX), "y_true": OF_KNOWN_CLASSES},
    "plain": of_predictions(MATRIX),
    "accumulated": SHARED,
    "marked": {"correct": arguments.CORRECT, "confidence": arguments.CONFIDENCES},
    "listed": {"batches": uses.LISTED},
    "stream": {**SHARED, "batches": uses.BATCHES},
    # Their weights must not be extreme, nor the temperature of the accumulator.
    "online": {
        **of_predictions(MATRIX),
        "y": OF_KNOWN_CLASSES,
        "classes": arguments.LABEL_LISTS,
        "sample_weight": opened(values.WEIGHTS),
    },
    "narrow": {
        "X": opened(MATRIX),
        "y": opened(OF_KNOWN_CLASSES),
        "labels": arguments.LABEL_LISTS,
        "sample_weight": opened(values.WEIGHTS),
    },
    "online data": {
        **SHARED,
        "X": arguments.DATA,
        "y": OF_KNOWN_CLASSES,
        "classes": arguments.LABEL_LISTS,
    },
    "files": {"model": uses.MODELS, "path": uses.PATHS, "document": uses.DOCUMENTS},
    "paths": {"path": uses.PATHS_TO_LOAD},
    "content": {"content": uses.CONTENTS},
    "data": {**HANDED_ON, "y": OF_ANY_CLASSES},
    **{
        key: {"X": tensors.NO_INPUTS, "target": tensors.NO_INPUTS, "sample_weight": {}}
        for key in ["views", "table"]
    },
}

SMALL_WEIGHTS = "times 1e-308", "times 1e-300", "times 1e-100", "denormal", "wide"

# Exceptions, in which a value has another meaning.
SETTLED = {
    # True is 1, where the other label is 0.
    ("two", "y_true", "boolean inside"): OPEN,
    ("two", "y", "boolean inside"): OPEN,
    # One chunk does not determine the labels.
    **{
        (setting, "labels", "nothing"): INVALID
        for setting in ("chunks", "stream", "narrow")
    },
    **{
        (setting, "classes", "nothing"): INVALID
        for setting in ("online", "online data")
    },
    # A chunk may lack a class.
    ("online data", "classes", "longer"): VALID,
    # A chunk without weight adds nothing.
    ("chunks", "sample_weight", "zeros"): VALID,
    ("narrow", "sample_weight", "zeros"): OPEN,
    # Groups are optional there.
    ("metrics.CalibrationAccumulator", "groups", "nothing"): VALID,
    # Weights of a monitor are at most one.
    **{
        ("deployment.CalibrationMonitor", "sample_weight", key): verdict
        for key, verdict in (
            *((f"times {factor:g}", OPEN) for factor in (7.0, 1e100, 1e300, 1e307)),
            *(("integers", INVALID), ("wide", OPEN)),
        )
    },
    # Nothing else has the number of samples.
    **{
        (f"deployment.{name}", "y_proba", "short"): VALID
        for name in ("adjust_priors", "estimate_performance", "estimate_priors")
    },
    ("deployment.label_shift_calibration_error", "y_proba_new", "short"): VALID,
    **{
        ("deployment.estimate_performance", name, key): VALID
        for name, key in (
            *(("y_proba", "one column"), ("y_proba", "column more")),
            *(("labels", "others"), ("labels", "strings")),
        )
    },
    # All samples are accepted.
    ("marked", "confidence", "minus infinity"): ANY,
    # Shapes of results are inferred so.
    ("tensors", "logits", "meta"): ANY,
    ("embeddings", "embeddings", "meta"): ANY,
    ("label tensors", "logits", "meta"): ANY,
    # To scikit-learn an iterable, which is not used without a calibrator.
    ("estimators.CalibratedClassifier", "cv", "bytes"): OPEN,
    # No labels determine the number of samples and classes.
    **{
        ("metrics.ece_consistency_bound", "y_proba", key): VALID
        for key in ("short", "one column", "column more")
    },
    # Sequences to choose from, though the default is a number.
    **{
        (f"calibrators.Structured{kind}Scaling", "lambd", key): VALID
        for kind in ("Matrix", "Vector")
        for key in ("array", "tuple")
    },
    # A number cannot be the label for abstaining if the labels are strings.
    **{
        ("estimators.SelectiveClassifier", "y", key): OPEN
        for key in ("strings", "string objects", "categories")
    },
    # Networks in single precision have weights in single precision.
    **{
        ("fit", "sample_weight", key): OPEN
        for key in (*SMALL_WEIGHTS, "times 1e+100", "times 1e+300", "times 1e+307")
    },
    # The columns are those of fit.
    ("fit", "X_new", "one column"): INVALID,
    # One column has the probabilities of the positive class.
    ("metrics.ece_consistency_bound", "y_proba", "one column"): VALID,
    # Both may have one column, that of the positive class.
    **{
        (f"metrics.{name}", argument, "one column"): OPEN
        for name in ("overconfidence", "underconfidence")
        for argument in ("y_proba", "posterior")
    },
    # Squares exceed the largest number of float32.
    **{
        (name, "logits", f"float32 right by {scale}"): OPEN
        for name in ("losses.ACLSLoss", "losses.acls_loss")
        for scale in ("1e+30", "3e+38")
    },
    # Predictions have the columns of the data in fit.
    **{("fit", key, "one column"): INVALID for key in ("X", "X_new")},
    ("online data", "X", "one column"): INVALID,
    # All samples are of one group.
    ("evaluation.calibration_report", "groups", "nothing"): VALID,
    # Predictions have one column of groups; there is no row for all samples.
    **{
        (f"calibrators.{name}", "groups", key): verdict
        for name in ("PerGroupCalibrator", "MulticalibrationBoosting")
        for key, verdict in (("two columns", INVALID), ("overall", VALID))
    },
    # The belt needs a logistic regression with an estimate.
    **{
        ("displays.CalibrationBeltDisplay", name, key): ANY
        for name, table in (
            *(("y_proba", MATRIX), ("y_proba", COLUMN)),
            *((name, SHARED[name]) for name in ("y_true", "sample_weight")),
        )
        for key, each in table.items()
        if each.verdict == VALID
    },
    # No draws, no intervals.
    ("evaluation.compare", "n_resamples", "zero"): ANY,
    # Classifiers have classes of their own.
    ("evaluation.compare", "labels", "longer"): ANY,
    # scikit-learn's scorer of the log loss does not get the classes.
    ("evaluation.compare", "y", "one class"): OPEN,
    **{
        (name, "embeddings", f"float32 right by {scale}"): OPEN
        for name in ("losses.RefinementLoss", "losses.refinement_loss")
        for scale in ("2e+19", "5e+19", "1e+30", "3e+38")
    },
    # Vectors may have one component.
    ("embeddings", "embeddings", "one column"): OPEN,
    # The number of samples to predict may differ from that in fit.
    **{
        (setting, "X_new", "short"): VALID
        for setting in ("three", "two", "logits", "fit", "several labels", "online")
    },
    # The groups are those of the samples to predict.
    **{
        (f"calibrators.{name}.predict_proba", *key): verdict
        for name in ("PerGroupCalibrator", "MulticalibrationBoosting")
        for key, verdict in (
            (("X_new", "short"), INVALID),
            (("groups", "two columns"), INVALID),
            (("groups", "overall"), VALID),
        )
    },
    # Numbers of repetitions are at least one.
    **{
        (name, "sample_weight", key): OPEN
        for name in (
            *("metrics.excess_aurc_loss", "metrics.aurc_loss"),
            # Which has one of them among its values.
            "displays.RiskCoverageDisplay",
        )
        for key in SMALL_WEIGHTS
    },
    # The cell of one of them contains NaN then, and a warning says so.
    **{("evaluation.compare", "sample_weight", key): ANY for key in SMALL_WEIGHTS},
    # As do cells of metrics of scikit-learn, which refuse such labels.
    ("evaluation.compare", "y", "decimals"): ANY,
}


@dataclass
class Subject:
    """Public name in one setting, with valid arguments."""

    name: str
    setting: str
    call: object
    arguments: dict
    tables: dict
    settled: dict = field(default_factory=dict)
    results: dict = field(default_factory=dict)

    def tries(self):
        """Yield the argument, the name of the value and its verdict."""
        for argument, table in self.tables.items():
            for key, hostile in table.items():
                yield argument, key, self.settled.get((argument, key), hostile.verdict)

    def arguments_with(self, changes):
        """Return all arguments, with changes that are names in tables or values."""
        made = {
            name: self.tables[name][key].make(self.base(name))
            if isinstance(key, str)
            else key
            for name, key in changes.items()
        }
        return {**self.arguments, **made}

    def expected(self, changes):
        """Return the result of the valid values that the hostile ones are made from."""
        # Arguments that are always given have the same value then.
        key = frozenset(changes).difference(self.arguments)
        if key not in self.results:
            made = {name: self.base(name) for name in key}
            self.results[key] = self.call(**{**self.arguments, **made})
        return self.results[key]

    def base(self, argument):
        """Return the valid value that hostile ones are made from."""
        if argument in self.arguments:
            return self.arguments[argument]
        return arguments.valid(self.setting).get(argument)

    @property
    def names(self):
        """Return the names of the arguments that a message may use."""
        return {*self.arguments, *self.tables, *ALIASES}


def public_names():
    """Return every public object of the topics by its name, "topic.name"."""
    found = {}
    for topic in TOPICS:
        module = import_module(f"sklearn_calib.{topic}")
        found |= {f"{topic}.{n}": getattr(module, n) for n in module.__all__}
    return {name: thing for name, thing in found.items() if name not in NOT_TRIED}


@cache
def subjects():
    """Return all subjects by name, in each setting that they have."""
    return {
        subject.name: subject
        for name, thing in {**public_names(), **calls.methods()}.items()
        for subject in subjects_of(name, thing)
    }


def subjects_of(name, thing):
    """Yield the subjects of a public name, one for each setting."""
    for setting, call, keywords in calls.recipes(name, thing):
        special = arguments.SPECIAL.get(name, {})
        known = {**arguments.valid(setting), **special}
        given = {
            key: find(known, key, name)
            for key, parameter in keywords.items()
            if parameter.default is parameter.empty
            or key in {*arguments.ALWAYS_GIVEN, *special}
        } | {key: value for key, value in special.items() if calls.is_nested(key)}
        tables = TABLES.get(setting, SHARED)
        yield Subject(
            f"{name}[{setting}]",
            setting,
            call,
            given,
            {
                key: tables[key]
                if key in tables
                else options.hostile_options(key, type(parameter.default))
                for key, parameter in keywords.items()
            },
            {
                key[1:]: verdict
                for key, verdict in SETTLED.items()
                if key[0] in (setting, name)
            },
        )


def find(known, key, name):
    """Return a valid value of an argument, or raise an error if there is none."""
    if key in known:
        return known[key]
    raise LookupError(
        f"{name} wants an argument {key!r} that no table knows. Add a valid value to "
        "benchmarks/correctness/hostile/arguments.py, and if it holds data, its table "
        "to TABLES in benchmarks/correctness/hostile/subjects.py."
    )
