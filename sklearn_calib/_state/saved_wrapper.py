"""What `sklearn_calib.save` writes of an estimator around a classifier."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, is_classifier
from sklearn.frozen import FrozenEstimator

from sklearn_calib._state.json_values import check_object, refuse
from sklearn_calib._state.schema import StateMixin
from sklearn_calib._validation.types import Array


class SavedWrapper(StateMixin, MetaEstimatorMixin):
    """Mixin for an estimator around a classifier that can be saved, possibly frozen."""

    estimator: Any
    # The names of the parameters in a file.
    _saved_params: ClassVar[set[str]]

    def _get_saved_params(self) -> dict[str, Any]:
        params = super()._get_saved_params()
        saved = {name: params[name] for name in sorted(self._saved_params)}
        saved["is_frozen"] = isinstance(self.estimator, FrozenEstimator)
        saved["estimator"] = unfrozen(self.estimator)
        return saved

    def _get_passed_params(self) -> dict[str, Any]:
        return unfrozen(self.estimator)._get_passed_params()

    @classmethod
    def _from_saved_params(
        cls, params: dict[str, Any], key: str, passed: dict[str, Any]
    ) -> Self:
        check_object(params, key, {"estimator"}, {*cls._saved_params, "is_frozen"})
        if not isinstance(params["estimator"], StateMixin):
            refuse(f"{key}.estimator", "an object", params["estimator"])
        is_frozen = params.pop("is_frozen", False)
        if not isinstance(is_frozen, bool):
            refuse(f"{key}.is_frozen", "true or false", is_frozen)
        if is_frozen:
            params["estimator"] = FrozenEstimator(params["estimator"])
        return super()._from_saved_params(params, key, passed)


def unfrozen(estimator: Any) -> Any:
    """Return the classifier in a `FrozenEstimator`, or the estimator itself."""
    is_frozen = isinstance(estimator, FrozenEstimator)
    return estimator.estimator if is_frozen else estimator


def check_classes(classifier: Any, classes: Array, *, may_lack: bool = True) -> None:
    """Raise ValueError unless an object is a classifier with these classes.

    A classifier may have them in another order, and lack those that were absent from
    its training data.
    """
    if not is_classifier(classifier):
        refuse("the nested object", "a classifier", classifier)
    own = classifier.classes_
    fits = np.isin(own, classes).all() if may_lack else np.array_equal(own, classes)
    if not fits:
        refuse("classes_", f"{own}, as in the nested object", classes)
