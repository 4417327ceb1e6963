"""Predictions of calibrators for tensors, and for arrays on other devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn import get_config
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_calib._expressions.eager import evaluate
from sklearn_calib._missing_packages import explain_missing
from sklearn_calib._validation.arrays import (
    as_real,
    convert_to_numpy,
    device,
    get_namespace,
    is_array_api,
    is_cpu_tensor,
)
from sklearn_calib._validation.probabilities import (
    check_proba_on_device,
    warn_of_predicted_labels,
)
from sklearn_calib._validation.types import Array

if TYPE_CHECKING:
    from sklearn_calib._torch.calibrator_module import CalibratorModule

LOGITS_HINT = "If X contains logits, set from_logits=True."

_Method = TypeVar("_Method", bound=Callable[..., Any])


def returns_array_of_input(predict_proba: _Method) -> _Method:
    """Return probabilities in the library and on the device of `X`, as scikit-learn.

    This is done with `array_api_dispatch=True`. The memory of tensors on the CPU is
    read by numpy; arrays on other devices stay there, unless `_runs_on_devices` is
    False.
    """

    @wraps(predict_proba)
    def wrapper(self: Any, X: Any) -> Any:
        is_of_other_library = is_array_api(X)
        if self._runs_on_devices and is_of_other_library:
            return _proba_on_device(self, X)
        proba = predict_proba(self, X)
        if get_config()["array_api_dispatch"] and (
            is_of_other_library or is_cpu_tensor(X)
        ):
            return get_namespace(X)[0].asarray(proba, device=device(X))
        return proba

    return cast("_Method", wrapper)


def labels_of(classes: Array, proba: Any) -> Any:
    """Return the labels of the largest probabilities.

    Numbers are returned in the library and on the device of the probabilities, and
    strings as a numpy array.
    """
    if isinstance(proba, np.ndarray):
        return classes[proba.argmax(axis=1)]
    xp, _ = get_namespace(proba)
    labels = classes[convert_to_numpy(xp.argmax(proba, axis=1), xp)]
    is_number = labels.dtype.kind in "biuf"
    return xp.asarray(labels, device=device(proba)) if is_number else labels


def overflow_error(largest: float) -> ValueError:
    """Return the error for logits that overflow when they are calibrated."""
    return ValueError(
        "X must contain logits that do not overflow when they are calibrated, got "
        f"values up to {largest:.3g}. Fit with logits of this size, or divide all "
        "logits by one number in fit and predict_proba."
    )


def _proba_on_device(calibrator: Any, X: Any) -> Any:
    """Return the calibrated probabilities of an array on its device."""
    check_is_fitted(calibrator)
    xp, X, eps = as_real(X, "X")
    if eps == 0:  # integers
        warn_of_predicted_labels(X, "X")
    X = xp.reshape(X, (-1, 1)) if X.ndim == 1 else X
    if calibrator._takes_log_odds and X.shape[1] == 1:
        X = xp.concat([0 * X, X], axis=1)
    X = validate_data(calibrator, X, reset=False, dtype=[xp.float64, xp.float32])
    if not calibrator.from_logits:
        try:
            X = check_proba_on_device(xp, X, "X", eps)
        except ValueError as error:
            raise ValueError(f"{error} {LOGITS_HINT}") from None
    elif X.shape[0] > 1 and float(xp.min(X)) >= 0:  # logits are rarely all positive
        calibrator._warn_of_proba(convert_to_numpy(X, xp))
    proba = evaluate(calibrator._in_graph, X)
    if bool(xp.any(xp.isnan(proba))):
        raise overflow_error(float(xp.max(xp.abs(X))))
    return proba


class ArrayClassifierMixin(ClassifierMixin):
    """Classifier whose fitted map is applied to arrays of other libraries, too.

    `_in_graph(X)` returns the probabilities of an array in a graph.
    """

    _runs_on_devices = True

    @property
    def _takes_log_odds(self) -> bool:
        """Whether a fitted calibrator of two logits also takes their difference."""
        return False

    def to_torch(self) -> CalibratorModule:
        """Return the fitted map as a torch module.

        A network and its calibrator are then one module, for `torch.compile`,
        `torch.export` and `torch.onnx.export`:
        `torch.nn.Sequential(network, calibrator.to_torch())`.

        Returns
        -------
        module : torch.nn.Module
            Module without parameters to train. Its input has the shape
            (n_samples, n_classes), or (n_samples, 1) or (n_samples,) if the calibrator
            was fitted to one column or to the logits of two classes, and contains
            logits or probabilities as in `predict_proba`.
            The output has the dtype and the device of the input. Gradients flow to the
            input, unless the map is piecewise constant, as that of histogram binning.

        Notes
        -----
        The module computes in float64, for inputs of any precision. The result then
        differs from `predict_proba` by rounding errors. Use `module.to(torch.float32)`
        for less precision, for example on devices without float64. Only the shape of
        the input is validated.

        Examples
        --------
        >>> import numpy as np
        >>> import torch
        >>> from sklearn_calib import TemperatureScaling
        >>> rng = np.random.default_rng(0)
        >>> logits = rng.normal(size=(1000, 3))
        >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
        >>> calibrator = TemperatureScaling(from_logits=True).fit(3 * logits, y)
        >>> network = torch.nn.Linear(5, 3)
        >>> model = torch.nn.Sequential(network, calibrator.to_torch())
        >>> model(torch.zeros(2, 5)).shape
        torch.Size([2, 3])
        """
        check_is_fitted(self)
        with explain_missing("to_torch"):
            from sklearn_calib._torch.calibrator_module import CalibratorModule

        return CalibratorModule(
            self._in_graph,
            type(self).__name__,
            self.n_features_in_,
            takes_log_odds=self._takes_log_odds,
        )
