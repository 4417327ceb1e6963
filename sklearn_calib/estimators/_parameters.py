"""Names and ranges of the parameters of `NeuralClassifier`."""

import inspect
from numbers import Integral, Real

from sklearn_calib._core.validation import Interval, Options, StrOptions, did_you_mean

CONSTRAINTS = {
    "module": [callable, None],
    "optimizer": [callable],
    "callbacks": [list, StrOptions({"disable"}), None],
    "lr": [Interval(Real, 0, None, closed="neither")],
    "batch_size": [Interval(Integral, 1, None, closed="left"), Options(int, {-1})],
    "max_epochs": [Interval(Integral, 1, None, closed="left")],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
    "early_stopping": ["boolean"],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "batch_transform": [callable, None],
    "refit": ["boolean"],
    "posterior": ["boolean"],
    "random_state": ["random_state"],
    "dtype": [StrOptions({"float32", "float64"})],
    "train_split": [callable, None],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
}

# Parameters of skorch that have another spelling here, with the way out.
REFUSED = {
    "classes": "partial_fit(X, y, classes=...)",
    "criterion": "loss, and loss__... for its parameters",
    "predict_nonlinearity": "nothing: predict_proba is the softmax of the logits",
}


def check_not_refused(names):
    """Raise TypeError for parameters of skorch that are spelled otherwise here."""
    for name in names:
        prefix = name.split("__")[0]
        if prefix in REFUSED:
            raise TypeError(
                f"{name!r} is no parameter of NeuralClassifier. Use {REFUSED[prefix]}."
            )


def check_known(estimator, names):
    """Raise TypeError for misspelt names, which a constructor with **kwargs takes."""
    classes = [each for each in type(estimator).mro() if "__init__" in vars(each)]
    known = {name for each in classes for name in inspect.signature(each).parameters}
    known -= {*REFUSED, "args", "kwargs"}
    for name in names:
        if "__" not in name and name not in known:
            raise TypeError(
                f"{name!r} is no parameter of {type(estimator).__name__}."
                f"{did_you_mean(name, known)} Its parameters: {sorted(known)}."
            )
