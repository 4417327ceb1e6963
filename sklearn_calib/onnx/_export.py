"""`to_onnx`: export a fitted classifier to ONNX, and check the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._missing_packages import explain_missing
from sklearn_calib._validation.arrays import as_array, first_line, is_instance, shown
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib._version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

# The first version in which the axes of all reductions are inputs.
OLDEST_OPSET = 18


@explain_missing("to_onnx")
def to_onnx(
    model: Any, X: ArrayLike, *, target_opset: int | None = None, atol: float = 1e-4
) -> ModelProto:
    """Export a fitted classifier or calibrator to ONNX, and check its probabilities.

    The result is run by onnxruntime on `X` and compared with `model.predict_proba(X)`.
    An export that differs is an error, so that a wrong model is not deployed.

    Parameters
    ----------
    model : estimator
        A fitted calibrator, :class:`~sklearn_calib.NeuralClassifier`,
        :class:`~sklearn_calib.RefCalClassifier`,
        :class:`~sklearn_calib.CalibratedClassifier` or
        :class:`~sklearn_calib.deployment.PriorShiftClassifier`, or a classifier of
        scikit-learn that contains them, such as a `Pipeline`.

    X : array-like of shape (n_samples, n_features) or (n_samples, ...)
        Data for which `model` can predict, such as a few hundred test samples. The
        input of the exported model has the dtype and the number of columns of `X`, and
        any number of rows. A DataFrame gives one input for each column.

    target_opset : int, default=None
        Version of the ONNX operators, at least 18. None is the newest version that
        skl2onnx is tested with.

    atol : float, default=1e-4
        Largest allowed difference of the probabilities. Use `numpy.inf` to skip the
        comparison.

    Returns
    -------
    proto : onnx.ModelProto
        The exported model. Its input is "X", or the columns of the DataFrame. Its
        outputs are "label" and "probabilities", the results of `predict` and
        `predict_proba`. Its metadata are "sklearn_calib.version",
        "sklearn_calib.classes" (the order of the columns, as JSON) and
        "sklearn_calib.calibrator" (the name of the class, if there is one).

    Raises
    ------
    ImportError
        If a package of the extra `onnx` is not installed.

    ValueError
        If `model` or a part of it cannot be converted, if `target_opset` is not
        supported, or if the probabilities differ by more than `atol`.

    sklearn.exceptions.NotFittedError
        If `model` is not fitted.

    Notes
    -----
    The exported model does not validate its input. With float64 data, the result is
    that of `predict_proba` up to rounding errors, if skl2onnx supports float64 for all
    parts. With float32 data, a sample near a step of the map, such as the edge of a
    bin, can be on the other side of it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib import TemperatureScaling
    >>> from sklearn_calib.onnx import to_onnx
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = TemperatureScaling(from_logits=True).fit(3 * logits, y)
    >>> proto = to_onnx(calibrator, 3 * logits)
    >>> [output.name for output in proto.graph.output]
    ['label', 'probabilities']
    """
    from sklearn_calib.onnx._converters import (
        corrected_trees,
        register,
        register_calibrators,
    )
    from sklearn_calib.onnx._onnx_graph import inner_model, to_proto

    _check_model(model)
    check_is_fitted(model)
    opset = _check_opset(target_opset)
    if isinstance(atol, bool) or not isinstance(atol, Real) or not atol >= 0:
        raise ValueError(f"atol must be a non-negative number, got {shown(atol)}.")
    columns = _as_columns(X)
    expected = model.predict_proba(X)  # first, as it validates X
    # Otherwise, no network can have been fitted, and importing torch takes seconds.
    register(with_networks="torch" in sys.modules)
    register_calibrators()
    with corrected_trees():
        proto = to_proto(inner_model(model), _initial_types(columns), opset)
    _add_metadata(proto, model)
    if atol < np.inf:
        labels, proba = _run(proto, columns)
        _check_proba(proba, expected, atol)
        _check_labels(labels, model.predict(X), expected, atol)
    return proto


def _check_model(model: Any) -> None:
    from sklearn_calib.calibrators import GroupCalibrator
    from sklearn_calib.estimators import PredictionSetClassifier, SelectiveClassifier

    is_estimator = isinstance(model, BaseEstimator)
    if not (is_estimator and is_classifier(model) and hasattr(model, "predict_proba")):
        raise TypeError(
            "model must be a fitted classifier or calibrator with predict_proba, got "
            f"{shown(model)}."
        )
    if isinstance(model, SelectiveClassifier):
        raise ValueError(
            "A SelectiveClassifier cannot be converted to ONNX, as the label for "
            "abstention may have another type than the classes. Export "
            "model.estimator_, and compare the confidence with model.threshold_."
        )
    if isinstance(model, PredictionSetClassifier):
        raise ValueError(
            "A PredictionSetClassifier cannot be converted to ONNX, as the graph has "
            "no output for sets. Export model.estimators_[0] if it is the only one, "
            "and compare the scores with those of held-out samples."
        )
    if isinstance(model, GroupCalibrator):
        raise ValueError(
            "A calibrator of groups cannot be converted to ONNX, as the graph has no "
            f"input for them, got {shown(model)}. Export model.calibrator_, the map of "
            "all samples."
        )


def _check_opset(target_opset: Any) -> int:
    from skl2onnx import get_latest_tested_opset_version

    newest = get_latest_tested_opset_version()
    if target_opset is None:
        return newest
    is_int = isinstance(target_opset, Integral) and not isinstance(target_opset, bool)
    if not is_int or not OLDEST_OPSET <= target_opset <= newest:
        raise ValueError(
            f"target_opset must be an integer from {OLDEST_OPSET} to {newest}, got "
            f"{shown(target_opset)}. Use None for the newest version."
        )
    return int(target_opset)


def _as_columns(X: Any) -> Any:
    """Return a DataFrame unchanged, and other data as an array with columns."""
    if issparse(X):
        raise TypeError("X must not be sparse, got a sparse matrix. Use X.toarray().")
    if isinstance(X, Mapping):
        raise TypeError(
            f"X must be an array or a DataFrame, got a dict of {shown([*X])}. Networks "
            "with several inputs cannot be exported."
        )
    if not is_instance(X, "pandas", "DataFrame"):
        X = as_array(X, "X")
        X = X.reshape(-1, 1) if X.ndim == 1 else X
    elif not all(isinstance(name, str) for name in X.columns):
        raise ValueError(
            f"The columns of X must have names of type str, got {shown([*X.columns])}. "
            "Rename them, or pass X.to_numpy()."
        )
    if X.ndim == 0 or len(X) == 0:
        raise ValueError(
            f"X must have at least one sample, got shape {X.shape}. Pass data for "
            "which the model can predict."
        )
    return X


def _initial_types(X: Any) -> list[Any]:
    """Return the names and the types of skl2onnx of all inputs."""
    from skl2onnx.algebra.type_helper import guess_initial_types
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    allowed = DoubleTensorType | FloatTensorType | Int64TensorType | StringTensorType
    try:
        types = guess_initial_types(X)
        unknown = [kind for _, kind in types if not isinstance(kind, allowed)]
    except NotImplementedError as error:
        types, unknown = [], [error]
    if unknown:
        raise ValueError(
            "X must have columns of float32, float64, int64 or strings, got "
            f"{unknown[0]}. Convert them with X.astype."
        )
    return types


def _run(proto: ModelProto, X: Any) -> list[Any]:
    """Return the labels and the probabilities of the exported model."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.log_severity_level = 3  # skl2onnx leaves constants that are not used
    try:
        session = InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(["label", "probabilities"], _feed(session, X))
    except Exception as error:
        raise ValueError(
            "onnxruntime cannot run the exported model for this X: "
            f"{first_line(error)}.{_hint_at_float32(X)}"
        ) from error


def _add_metadata(proto: ModelProto, model: Any) -> None:
    """Write what the file contains into its metadata."""
    from onnx.helper import set_model_props

    classes = model.classes_
    is_multilabel = isinstance(classes, list)
    order = [each.tolist() for each in classes] if is_multilabel else classes.tolist()
    found = {
        "sklearn_calib.version": __version__,
        "sklearn_calib.classes": json.dumps(order),
        "sklearn_calib.calibrator": _name_of_calibrator(model),
    }
    set_model_props(proto, {key: value for key, value in found.items() if value})


def _name_of_calibrator(model: Any) -> str:
    """Return the name of the class of the calibrator, or an empty string."""
    from sklearn_calib.calibrators import (
        Calibrator,
        PerLabelCalibrator,
        get_calibrator,
    )
    from sklearn_calib.deployment import PriorShiftClassifier
    from sklearn_calib.estimators import CalibratedClassifier
    from sklearn_calib.onnx._onnx_graph import inner_model, last_step

    last = last_step(inner_model(model))
    if isinstance(last, PriorShiftClassifier):
        return _name_of_calibrator(last.estimator_)
    if isinstance(last, CalibratedClassifier):
        last = last.calibrator
        if isinstance(last, str):
            return get_calibrator(last).__name__
        return "" if last is None else type(last).__name__
    is_calibrator = isinstance(last, Calibrator | PerLabelCalibrator)
    return type(last).__name__ if is_calibrator else ""


def _hint_at_float32(X: Any) -> str:
    """Return what to do with float64 values, for which some operators are missing."""
    is_frame = is_instance(X, "pandas", "DataFrame")
    columns = dict(X.dtypes) if is_frame else {"X": X.dtype}
    double = [name for name, dtype in columns.items() if dtype == np.float64]
    if not double:
        return ""
    whose = f"the columns {shown(double)}" if is_frame else "X"
    return (
        f" Convert {whose} to float32 with X.astype: onnxruntime has no float64 "
        "version of some steps, such as SimpleImputer."
    )


def _check_proba(proba: Floats, expected: Floats, atol: float) -> None:
    """Raise ValueError if the exported model has other probabilities."""
    difference = np.abs(proba - expected).max(axis=1)
    is_wrong = ~(difference <= atol)
    if is_wrong.any():
        raise ValueError(
            "The exported model must return the probabilities of predict_proba, got a "
            f"difference of {difference.max():.2g} > atol={atol:g}, in "
            f"{is_wrong.sum()} of {len(difference)} samples. If only a few samples "
            "differ, their probabilities may be near a step of the calibration map: "
            "use float64 data, or a larger atol. Otherwise, skl2onnx does not convert "
            "a part of the model correctly."
        )


def _check_labels(labels: Array, y_pred: Array, expected: Floats, atol: float) -> None:
    """Raise ValueError if other labels are predicted, except for tied probabilities."""
    if y_pred.ndim == 2:
        is_tied = np.abs(expected - 0.5) <= 2 * atol
    else:
        largest = np.sort(expected, axis=1)
        is_tied = largest[:, -1] - largest[:, -2] <= 2 * atol
    is_wrong = (labels != y_pred) & ~is_tied
    if is_wrong.any():
        raise ValueError(
            "The exported model must return the labels of predict, got "
            f"{is_wrong.sum()} different labels for {len(labels)} samples. The model "
            "does not predict the most probable class; export one that does."
        )


def _feed(session: Any, X: Any) -> dict[str, Any]:
    """Return the data of each input of the exported model."""
    names = [value.name for value in session.get_inputs()]
    if is_instance(X, "pandas", "DataFrame"):
        columns = [X[name].to_numpy() for name in X.columns]
        arrays = [column.reshape(-1, 1) for column in columns]
    else:
        arrays = [X]
    return {
        name: array.astype(object) if array.dtype.kind in "OSTU" else array
        for name, array in zip(names, arrays, strict=True)
    }
