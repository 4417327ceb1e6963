"""The groups of `CalibratedClassifier`: columns of X, or passed to its methods."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.metrics import accuracy_score
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)

from sklearn_calib._sklearn.metadata_routing import RoutingMixin
from sklearn_calib._sklearn.training_data import MatrixLike
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.groups import select_columns
from sklearn_calib.calibrators import GroupCalibrator


class GroupRoutingMixin(RoutingMixin):
    """Mixin for a classifier with the parameters `calibrator` and `groups`."""

    calibrator: Any
    groups: Any
    calibrated_classifiers_: list[Any]
    predict: Any
    _fitted_groups: Any  # the parameter `groups` in fit

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.groups is not None and not uses_groups(self.calibrator):
            raise ValueError(
                "groups must be None for a calibrator that does not use groups, got "
                f"groups={shown(self.groups)} and calibrator={shown(self.calibrator)}. "
                "Use calibrator=PerGroupCalibrator(), for example."
            )

    def _settings_of(self, method: str) -> tuple[Any, Any]:
        """Return the calibrator and the columns of groups that a method uses.

        After `fit`, predictions use those of `fit`, whatever the parameters are now.
        """
        if method == "fit" or "calibrated_classifiers_" not in vars(self):
            return self.calibrator, self.groups
        return self.calibrated_classifiers_[0].calibrator, self._fitted_groups

    def _takes_groups(self, method: str) -> bool:
        """Whether groups must be passed to a method."""
        calibrator, groups = self._settings_of(method)
        return uses_groups(calibrator) and groups is None

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing to the classifier, calibrator and splitter.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        router = super().get_metadata_routing()
        callers = "fit", "predict", "predict_proba", "score"
        if taking := [caller for caller in callers if self._takes_groups(caller)]:
            methods = MethodMapping()
            for caller in taking:
                callee = "fit" if caller == "fit" else "predict_proba"
                methods.add(caller=caller, callee=callee)
            calibrator, _ = self._settings_of(taking[0])
            router.add(calibrator=calibrator, method_mapping=methods)
        return router

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> float:
        """Return the accuracy on given data and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data in the form that the classifier accepts.

        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        **params : dict
            `groups` of the samples, if they were passed to `fit`.

        Returns
        -------
        score : float
            Accuracy of `predict`. A multilabel prediction is correct if all its labels
            are.
        """
        y_pred = self.predict(X, **params)
        return float(accuracy_score(y, y_pred, sample_weight=sample_weight))

    def _find_groups(self, method: str, params: dict[str, Any]) -> tuple[Any, Any]:
        """Return the groups among the parameters of a method, and the parameters.

        Without metadata routing, the groups are removed from the parameters.
        """
        if get_config()["enable_metadata_routing"]:
            # The groups may also be those of the splitter, or have another name.
            routed = process_routing(self, method, **params)
            own = routed.calibrator[method] if self._takes_groups(method) else {}
            return own.get("groups"), params
        if "groups" not in params or not self._takes_groups(method):
            return None, params
        others = {name: value for name, value in params.items() if name != "groups"}
        return params["groups"], others

    def _groups_of(self, X: Any, params: dict[str, Any]) -> Any:
        """Return the groups of new samples, or None if the calibrator uses none."""
        passed, others = self._find_groups("predict_proba", params)
        if others and not get_config()["enable_metadata_routing"]:
            calibrator, groups = self._settings_of("predict_proba")
            raise TypeError(
                "predict_proba must be called with X, and with groups if they were "
                f"passed to fit, got also {sorted(others)} for groups={shown(groups)} "
                f"and calibrator={shown(calibrator)}. Omit them, or use "
                "PerGroupCalibrator() with groups=None."
            )
        return find_groups(*self._settings_of("predict_proba"), X, passed)


def uses_groups(calibrator: Any) -> bool:
    return isinstance(calibrator, GroupCalibrator)


def find_groups(calibrator: Any, groups: Any, X: Any, passed: Any) -> Any:
    """Return the groups, or None if the calibrator uses none."""
    if not uses_groups(calibrator):
        return None
    if groups is not None:
        return select_columns(X, groups)
    if passed is None:
        raise ValueError(
            f"groups must be given for calibrator={shown(calibrator)}, got None. Set "
            "groups to columns of X, CalibratedClassifier(..., groups=...), or pass "
            "groups to fit and to predict_proba."
        )
    return passed
