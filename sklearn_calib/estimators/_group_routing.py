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

from sklearn_calib._core.arrays import shown
from sklearn_calib._core.groups import group_frame, select_columns
from sklearn_calib._core.routing import RoutingMixin
from sklearn_calib._core.training_data import MatrixLike
from sklearn_calib.calibrators import GroupCalibrator


class GroupRoutingMixin(RoutingMixin):
    """Mixin for a classifier with the parameters `calibrator` and `groups`."""

    calibrator: Any
    groups: Any
    predict: Any

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.groups is not None and not self._uses_groups:
            raise ValueError(
                "groups must be None for a calibrator that does not use groups, got "
                f"groups={shown(self.groups)} and calibrator={shown(self.calibrator)}. "
                "Use calibrator=PerGroupCalibrator(), for example."
            )

    @property
    def _uses_groups(self) -> bool:
        return isinstance(self.calibrator, GroupCalibrator)

    @property
    def _takes_groups(self) -> bool:
        """Whether groups must be passed to the methods."""
        return self._uses_groups and self.groups is None

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing to the classifier, calibrator and splitter.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        router = super().get_metadata_routing()
        if self._takes_groups:
            methods = MethodMapping().add(caller="fit", callee="fit")
            for caller in ("predict", "predict_proba", "score"):
                methods.add(caller=caller, callee="predict_proba")
            router.add(calibrator=self.calibrator, method_mapping=methods)
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
            own = routed.calibrator[method] if self._takes_groups else {}
            return own.get("groups"), params
        if "groups" not in params or not self._takes_groups:
            return None, params
        others = {name: value for name, value in params.items() if name != "groups"}
        return params["groups"], others

    def _groups_of(self, X: Any, params: dict[str, Any]) -> Any:
        """Return the groups of new samples, or None if the calibrator uses none."""
        passed, others = self._find_groups("predict_proba", params)
        if others and not get_config()["enable_metadata_routing"]:
            raise TypeError(
                "predict_proba must be called with X, and with groups if they were "
                f"passed to fit, got also {sorted(others)} for "
                f"groups={shown(self.groups)} and calibrator={shown(self.calibrator)}. "
                "Omit them, or use PerGroupCalibrator() with groups=None."
            )
        return self._group_frame(X, None, passed)

    def _group_frame(self, X: Any, n_samples: int | None, passed: Any) -> Any:
        """Return the groups, or None if the calibrator uses none.

        Groups that are passed are checked here if `n_samples` is given, and otherwise
        by the calibrator.
        """
        if not self._uses_groups:
            return None
        if self.groups is not None:
            return select_columns(X, self.groups)
        if passed is None:
            raise ValueError(
                f"groups must be given for calibrator={shown(self.calibrator)}, got "
                "None. Set groups to columns of X, CalibratedClassifier(..., "
                "groups=...), or pass groups to fit and to predict_proba."
            )
        return passed if n_samples is None else group_frame(passed, n_samples)
