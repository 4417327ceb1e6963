"""What `sklearn_calib.save` writes of a `CalibratedClassifier`, and how it is read."""

from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator

from sklearn_calib._core.doc_links import DocumentedEstimator
from sklearn_calib._core.json_values import check_object, refuse
from sklearn_calib._core.predicted_scores import find_response
from sklearn_calib._core.state import Labels, ListOf, Object, Spec, StateMixin, Tuple
from sklearn_calib._core.training_data import copy_features
from sklearn_calib._core.typing import Array
from sklearn_calib.calibrators import Calibrator, GroupCalibrator
from sklearn_calib.estimators._calibrated_pair import CalibratedPair

_SAVED = {"calibrator", "cv", "ensemble", "estimator", "groups", "response_method"}


class SavableEnsemble(StateMixin, MetaEstimatorMixin, DocumentedEstimator):
    """Calibrated classifiers with a state that `sklearn_calib.save` can write."""

    estimator: Any
    response_method: str
    calibrated_classifiers_: list[Any]

    @property
    def _state_schema(self) -> dict[str, Spec]:
        pair = Tuple(Object(), Object(or_none=True))
        return {"classes_": Labels(), "calibrated_classifiers_": ListOf(pair)}

    def _get_saved_params(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        saved = {name: params[name] for name in sorted(_SAVED)}
        # A splitter is only used in training.
        saved["cv"] = self.cv if isinstance(self.cv, int) else None
        saved["is_frozen"] = isinstance(self.estimator, FrozenEstimator)
        saved["estimator"] = _thawed(self.estimator)
        return saved

    def _get_passed_params(self) -> dict[str, Any]:
        return _thawed(self.estimator)._get_passed_params()

    @classmethod
    def _from_saved_params(
        cls,
        params: dict[str, Any],
        key: str,
        passed: dict[str, Any],  # noqa: ARG003 - for networks
    ) -> Self:
        check_object(params, key, {"estimator"}, {*_SAVED, "is_frozen"})
        if not isinstance(params["estimator"], StateMixin):
            refuse(f"{key}.estimator", "an object", params["estimator"])
        is_frozen = params.pop("is_frozen", False)
        if not isinstance(is_frozen, bool):
            refuse(f"{key}.is_frozen", "true or false", is_frozen)
        if is_frozen:
            params["estimator"] = FrozenEstimator(params["estimator"])
        new = cls(**params)
        new._validate_params()
        given = params.get("calibrator")
        if given != "auto" and not isinstance(
            given, Calibrator | GroupCalibrator | None
        ):
            refuse(f"{key}.calibrator", 'a calibrator, "auto" or null', given)
        return new

    def _get_state(self) -> dict[str, Any]:
        pairs = self.calibrated_classifiers_
        parts = [(_thawed(pair.estimator), pair.calibrator) for pair in pairs]
        return {"classes_": self.classes_, "calibrated_classifiers_": parts}

    def _set_state(self, state: dict[str, Any]) -> None:
        classes, pairs = state["classes_"], []
        for classifier, calibrator in state["calibrated_classifiers_"]:
            _check_classes(classifier.classes_, classes)
            response = find_response(classifier, self.response_method)
            from_logits = response != "probabilities"
            if calibrator is not None:
                _check_classes(calibrator.classes_, classes, may_lack=False)
                _check_calibrator(calibrator, from_logits)
            pairs.append(CalibratedPair(classifier, calibrator, from_logits, classes))
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator = FrozenEstimator(pairs[0].estimator)
        self.classes_, self.calibrated_classifiers_ = classes, pairs
        copy_features(pairs[0].estimator, self)


def _thawed(estimator: Any) -> Any:
    """Return the classifier in a `FrozenEstimator`, or the estimator itself."""
    is_frozen = isinstance(estimator, FrozenEstimator)
    return estimator.estimator if is_frozen else estimator


def _check_classes(own: Array, classes: Array, *, may_lack: bool = True) -> None:
    """Raise ValueError for other classes; a classifier of a fold may lack some."""
    known = classes[np.isin(classes, own)] if may_lack else classes
    if not np.array_equal(own, known):
        refuse("classes_", f"{own}, as in the nested object", classes)


def _check_calibrator(calibrator: Any, from_logits: bool) -> None:
    """Raise ValueError unless a calibrator fits the predictions of the classifier."""
    if not isinstance(calibrator, Calibrator | GroupCalibrator):
        refuse("calibrated_classifiers_", "pairs with a calibrator", calibrator)
    wanted = from_logits, len(calibrator.classes_)
    found = calibrator.from_logits, calibrator.n_features_in_
    if wanted != found:
        refuse("from_logits and n_features_in_ of the calibrator", wanted, found)
