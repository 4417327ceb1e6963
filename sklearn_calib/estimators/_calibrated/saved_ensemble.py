"""What `sklearn_calib.save` writes of a `CalibratedClassifier`, and how it is read."""

from typing import Any, Self

from sklearn.frozen import FrozenEstimator

from sklearn_calib._sklearn.doc_links import DocumentedEstimator
from sklearn_calib._sklearn.response import find_response
from sklearn_calib._sklearn.training_data import copy_features
from sklearn_calib._state.json_values import refuse
from sklearn_calib._state.saved_wrapper import SavedWrapper, check_classes, thawed
from sklearn_calib._state.schema import Labels, ListOf, Object, Spec, Tuple
from sklearn_calib.calibrators import Calibrator, GroupCalibrator
from sklearn_calib.estimators._calibrated.calibrated_pair import CalibratedPair


class SavableEnsemble(SavedWrapper, DocumentedEstimator):
    """Calibrated classifiers with a state that `sklearn_calib.save` can write."""

    groups: Any
    response_method: str
    calibrated_classifiers_: list[Any]
    _saved_params = {
        *("calibrator", "cv", "ensemble", "estimator", "groups", "response_method")
    }

    @property
    def _state_schema(self) -> dict[str, Spec]:
        pair = Tuple(Object(), Object(or_none=True))
        return {"classes_": Labels(), "calibrated_classifiers_": ListOf(pair)}

    def _get_saved_params(self) -> dict[str, Any]:
        saved = super()._get_saved_params()
        # A splitter is only used in training.
        saved["cv"] = self.cv if isinstance(self.cv, int) else None
        return saved

    @classmethod
    def _from_saved_params(
        cls, params: dict[str, Any], key: str, passed: dict[str, Any]
    ) -> Self:
        new = super()._from_saved_params(params, key, passed)
        given = params.get("calibrator")
        if given != "auto" and not isinstance(
            given, Calibrator | GroupCalibrator | None
        ):
            refuse(f"{key}.calibrator", 'a calibrator, "auto" or null', given)
        return new

    def _get_state(self) -> dict[str, Any]:
        pairs = self.calibrated_classifiers_
        parts = [(thawed(pair.estimator), pair.calibrator) for pair in pairs]
        return {"classes_": self.classes_, "calibrated_classifiers_": parts}

    def _set_state(self, state: dict[str, Any]) -> None:
        classes, pairs = state["classes_"], []
        for classifier, calibrator in state["calibrated_classifiers_"]:
            check_classes(classifier, classes)
            response = find_response(classifier, self.response_method)
            from_logits = response != "probabilities"
            if calibrator is not None:
                check_classes(calibrator, classes, may_lack=False)
                _check_calibrator(calibrator, from_logits)
            pairs.append(CalibratedPair(classifier, calibrator, from_logits, classes))
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator = FrozenEstimator(pairs[0].estimator)
        self.classes_, self.calibrated_classifiers_ = classes, pairs
        self._fitted_groups = self.groups
        copy_features(pairs[0].estimator, self)


def _check_calibrator(calibrator: Any, from_logits: bool) -> None:
    """Raise ValueError unless a calibrator fits the predictions of the classifier."""
    if not isinstance(calibrator, Calibrator | GroupCalibrator):
        refuse("calibrated_classifiers_", "pairs with a calibrator", calibrator)
    wanted = from_logits, len(calibrator.classes_)
    found = calibrator.from_logits, calibrator.n_features_in_
    if wanted != found:
        refuse("from_logits and n_features_in_ of the calibrator", wanted, found)
