"""Metadata routing and tags of a classifier that wraps another one."""

import warnings
from numbers import Integral
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.validation import has_fit_parameter

from sklearn_calib._sklearn.response import (
    check_classifier,
    final_step,
    has_threshold,
)


class RoutingMixin(BaseEstimator):
    """Mixin for a classifier with the parameter `estimator`, and possibly `cv`."""

    estimator: Any
    cv: Any = None  # a classifier without this parameter does not split its data
    _abstains = False  # at low confidence
    _weighted_part = "held-out part"  # uses the weights in addition to the classifier
    _threshold_hint = (
        "Pass the classifier without a threshold. For unequal costs of errors, train "
        "the classifier with class weights."
    )

    def _validate_params(self) -> None:
        """Validate the parameters, and refuse what is not a plain classifier."""
        check_classifier(self.estimator)
        if isinstance(self.cv, str) and self.cv == "prefit":
            raise ValueError(
                "cv must be a number of folds or a splitter, got 'prefit'. Pass a "
                "fitted classifier as FrozenEstimator(estimator), from sklearn.frozen."
            )
        super()._validate_params()
        self._refuse_threshold(self.estimator)

    def _refuse_threshold(self, classifier: Any) -> None:
        """Raise ValueError for a classifier, fitted or not, with a threshold."""
        inner, outer = type(final_step(classifier)).__name__, type(self).__name__
        if has_threshold(classifier):
            raise ValueError(
                f"estimator must not have a decision threshold, got {inner}: {outer} "
                f"would ignore the threshold. {self._threshold_hint}"
            )
        if abstains(classifier):
            way_out = f"Abstain outside: {inner}({outer}(classifier, ...), ...)."
            raise ValueError(
                f"estimator must not abstain, got {inner}: {outer} would ignore the "
                "abstentions. "
                + ("Pass the classifier that it wraps." if self._abstains else way_out)
            )

    def _route(self, sample_weight: Any, fit_params: Any) -> tuple[Any, Any]:
        """Return the arguments for the classifier's fit and for the splitter."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(
                self, "fit", sample_weight=sample_weight, **fit_params
            )
            return routed.estimator.fit, routed.splitter.split
        split_params = {}
        if self._draws_group_folds() and "groups" in fit_params:
            fit_params = dict(fit_params)
            groups = fit_params.pop("groups")
            if groups is not None:
                _refuse_groups_of_both(self.estimator)
                split_params = {"groups": groups}
        if sample_weight is None or isinstance(self.estimator, FrozenEstimator):
            return fit_params, split_params
        if has_fit_parameter(self.estimator, "sample_weight"):
            return {**fit_params, "sample_weight": sample_weight}, split_params
        warnings.warn(
            f"sample_weight is only used by the {self._weighted_part}: "
            f"{type(self.estimator).__name__} does not support sample weights. For a "
            "step of a pipeline, pass the weights by its name, such as "
            "logisticregression__sample_weight, or enable metadata routing.",
            UserWarning,
        )
        return fit_params, split_params

    def _draws_group_folds(self) -> bool:
        """Return whether `groups` of `fit` are those that folds do not divide."""
        return isinstance(self.cv, Integral | None)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing to the classifier and the splitter.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        splitter = StratifiedGroupKFold() if self._draws_group_folds() else self.cv
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=to_fit)
            .add(splitter=splitter, method_mapping=to_split)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _refuse_groups_of_both(classifier: Any) -> None:
    """Raise ValueError if `fit` of the classifier takes groups, too."""
    takes = has_fit_parameter(classifier, "groups")
    try:
        routing = get_routing_for_object(classifier)
        takes = takes or bool(routing.consumes("fit", ["groups"]))
    except NotImplementedError:  # of meta-estimators without routing
        pass
    if takes:
        raise ValueError(
            "groups must be requested by metadata routing if both the folds and the "
            f"classifier take them, got {type(classifier).__name__} and an integer cv. "
            "Call sklearn.set_config(enable_metadata_routing=True), or pass a splitter "
            "as cv: then only the classifier gets the groups."
        )


def abstains(classifier: Any) -> bool:
    """Return whether a classifier abstains at low confidence."""
    final = final_step(classifier)
    return isinstance(final, RoutingMixin) and final._abstains
