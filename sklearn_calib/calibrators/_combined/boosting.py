"""Gradient boosting that starts from temperature-scaled predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.base import MetaEstimatorMixin, clone

from sklearn_calib._numerics.sample_blocks import Blocks, array_blocks
from sklearn_calib._numerics.softmax import log_softmax, softmax
from sklearn_calib._sklearn.training_data import warn_of_absent_classes
from sklearn_calib._solvers.temperature_fit import fit_temperature
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._temperature.temperature import TemperatureScaling


class _Learner(NamedTuple):
    """How a class of boosters receives offsets, and returns the scores of its trees."""

    offset: str  # parameter of `fit`
    loss: str  # parameter of the constructor
    default_loss: str | None  # log loss of any number of classes
    tree_scores: Callable[[Any, Floats], Array]


def _lightgbm_scores(booster: Any, X: Floats) -> Array:
    return booster.predict(X, raw_score=True)


def _xgboost_scores(booster: Any, X: Floats) -> Array:
    n_outputs = 1 if booster.n_classes_ == 2 else booster.n_classes_
    # Without base_margin, XGBoost adds an intercept.
    zeros = np.zeros((len(X), n_outputs))
    return booster.predict(X, output_margin=True, base_margin=zeros)


def _catboost_scores(booster: Any, X: Floats) -> Array:
    return booster.predict(X, prediction_type="RawFormulaVal")


# The packages are not imported, so a class is known by its package and its name.
LEARNERS = {
    "lightgbm.LGBMClassifier": _Learner(
        "init_score", "objective", None, _lightgbm_scores
    ),
    "xgboost.XGBClassifier": _Learner(
        "base_margin", "objective", "binary:logistic", _xgboost_scores
    ),
    "catboost.CatBoostClassifier": _Learner(
        "baseline", "loss_function", None, _catboost_scores
    ),
}

# Parameters that weight the classes, with the values for equal weights besides None.
CLASS_WEIGHTS: dict[str, Any] = {
    "auto_class_weights": None,
    "class_weight": None,
    "class_weights": None,
    "is_unbalance": False,
    "scale_pos_weight": 1,
}


class BoostingCalibrator(MetaEstimatorMixin, Calibrator):
    """Boosting calibration: gradient boosting of temperature-scaled predictions.

    The first step is temperature scaling. Its log-probabilities are then both the
    features and the starting scores (offsets) of a gradient boosting classifier, whose
    trees correct what a temperature cannot.

    Parameters
    ----------
    estimator : LGBMClassifier, XGBClassifier or CatBoostClassifier
        Classifier of LightGBM, XGBoost or CatBoost that minimises the log loss. It is
        cloned. It must not weight the classes. Use few, shallow and strongly
        regularised trees, as in the example.

    from_logits : bool, default=False
        Whether `X` contains logits instead of probabilities. It is not inferred from
        the values.

    Attributes
    ----------
    temperature_ : float
        Temperature by which the logits are divided.

    estimator_ : object
        The fitted classifier. Its classes are the column indices of the classes that
        have samples, numbered without gaps.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in the data of `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        False: the predicted class may change.

    See Also
    --------
    CalibratedClassifier : Its `calibrator` may be any other classifier, which has the
        logits as features and does not start from them.

    Notes
    -----
    The offsets are passed to `fit` of the classifier as `init_score` of LightGBM,
    `base_margin` of XGBoost or `baseline` of CatBoost. For two classes, the only
    feature is the log-odds of the second class, so a monotone constraint on it, such as
    `monotone_constraints=[1]` of LightGBM, preserves the order of the predictions.

    If the trees are not regularised, a leaf of confident predictions with one error may
    get a very large score, since the second derivative of the loss is almost zero
    there. LightGBM has no penalty by default; `fit` then issues a `UserWarning`. Early
    stopping needs a validation set, which `fit` does not pass; set a fixed number of
    trees.

    The probability of a class without samples in `y` is that of temperature scaling.

    The parameter `batches` of `fit`, :func:`sklearn_calib.save` and the export to ONNX
    and torch are not supported. Use skops or joblib to store the calibrator.

    Examples
    --------
    >>> import numpy as np
    >>> from lightgbm import LGBMClassifier
    >>> from sklearn_calib.calibrators import BoostingCalibrator, TemperatureScaling
    >>> from sklearn.metrics import log_loss
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(scale=3, size=4000)
    >>> y = rng.random(4000) < np.where(logits > 1, 0.9, 0.3)
    >>> trees = LGBMClassifier(
    ...     n_estimators=50,
    ...     learning_rate=0.05,
    ...     max_depth=2,
    ...     num_leaves=4,
    ...     reg_lambda=30,
    ...     n_jobs=1,
    ...     verbosity=-1,
    ... )
    >>> for calibrator in [
    ...     TemperatureScaling(from_logits=True),
    ...     BoostingCalibrator(trees, from_logits=True),
    ... ]:
    ...     proba = calibrator.fit(logits[:2000], y[:2000]).predict_proba(logits[2000:])
    ...     print(f"{log_loss(y[2000:], proba):.2f}")
    0.59
    0.53
    """

    # Those of the first step; what the trees need depends on their parameters.
    _errors_needed = TemperatureScaling._errors_needed

    def __init__(self, estimator: Any, *, from_logits: bool = False) -> None:
        self.estimator = estimator
        self.from_logits = from_logits

    def _validate_params(self) -> None:
        super()._validate_params()
        _check_loss(self.estimator)

    def _fit(self, data: Blocks) -> None:
        logits, codes, weight = data.arrays()
        weights = {}
        if (weight != 1).any():
            used = weight > 0
            logits, codes = logits[used], codes[used]
            weights["sample_weight"] = weight[used]
        self._present, numbers = np.unique(codes, return_inverse=True)
        if len(self._present) == 1:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes, got "
                f"only {shown(self.classes_[self._present].tolist())} in y."
            )
        warn_of_absent_classes(
            np.delete(self.classes_, self._present),
            f"{type(self).__name__} gives these classes the probabilities of "
            "temperature scaling",
        )
        if self.estimator.get_params().get("reg_lambda") == 0:
            warn(
                "estimator has the penalty reg_lambda=0: a leaf of confident "
                "predictions with one error may get a very large score. Set "
                "reg_lambda=30, for example.",
                UserWarning,
            )
        data = array_blocks(logits, codes, weights.get("sample_weight"))
        self.temperature_ = fit_temperature(data)
        features = self._features(log_softmax(logits / self.temperature_))
        offsets = features[:, 0] if len(self._present) == 2 else features
        learner = _learner_of(self.estimator)
        booster = clone(self.estimator)
        if "class_names" in booster.get_params():  # the order of CatBoost's scores
            booster.set_params(class_names=[*range(len(self._present))])
        self.estimator_ = booster.fit(
            features, numbers, **{learner.offset: offsets}, **weights
        )

    def _calibrate(self, logits: Any) -> Any:
        start = log_softmax(logits / self.temperature_)
        features = np.asarray(self._features(start))
        scores = _learner_of(self.estimator_).tree_scores(self.estimator_, features)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        # The classes without samples keep their probabilities.
        before = start[:, self._present]
        after = log_softmax(before + scores)
        start[:, self._present] = after + logsumexp(before, axis=1, keepdims=True)
        return softmax(start)

    def _features(self, start: Floats) -> Floats:
        """Return the log-probabilities, or the log-odds of two classes."""
        features = start[:, self._present]
        is_binary = len(self._present) == 2
        return features[:, 1:] - features[:, :1] if is_binary else features


def _learner_of(estimator: Any) -> _Learner:
    """Return the row of the estimator's class, or of a class that it inherits from."""
    for kind in type(estimator).__mro__:
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if name in LEARNERS:
            return LEARNERS[name]
    raise TypeError(
        f"estimator must be an instance of {', '.join(LEARNERS)}, got "
        f"{shown(estimator)}. Other classifiers can be passed as "
        "CalibratedClassifier(calibrator=...): they get the logits as features, but "
        "do not start from them."
    )


def _check_loss(estimator: Any) -> None:
    """Raise an error for a booster that does not minimise the log loss."""
    learner, params = _learner_of(estimator), estimator.get_params()
    for name, equal in CLASS_WEIGHTS.items():
        value = params.get(name)
        if value is not None and not np.array_equal(value, equal):
            raise ValueError(
                f"estimator must not weight the classes, got {name}={shown(value)}. "
                "Omit this parameter: probabilities of weighted classes are not "
                "calibrated."
            )
    value = params.get(learner.loss)
    if value not in (None, learner.default_loss):
        raise ValueError(
            f"estimator must minimise the log loss, got {learner.loss}={shown(value)}. "
            "Omit this parameter: the default is the log loss for any number of "
            "classes."
        )
