"""What a classifier around another one passes on: weights, other metadata and tags."""

import warnings
from typing import Any

from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import has_fit_parameter


class RoutingMixin:
    """For a classifier with the parameters `estimator` and `cv`."""

    estimator: Any
    cv: Any
    _weighted_part = "held-out part"  # what uses the weights beside the classifier

    def _route(self, sample_weight, fit_params):
        """Return what the classifier's fit and the splitter are given."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(
                self, "fit", sample_weight=sample_weight, **fit_params
            )
            return routed.estimator.fit, routed.splitter.split
        if sample_weight is None or isinstance(self.estimator, FrozenEstimator):
            return fit_params, {}
        if has_fit_parameter(self.estimator, "sample_weight"):
            return {**fit_params, "sample_weight": sample_weight}, {}
        warnings.warn(
            f"The weights reach the {self._weighted_part} only: "
            f"{type(self.estimator).__name__} takes no sample_weight. Pass them to a "
            "step of a pipeline, such as logisticregression__sample_weight, or enable "
            "metadata routing.",
            UserWarning,
        )
        return fit_params, {}

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata are passed on to the classifier and the splitter.

        Returns
        -------
        routing : MetadataRouter
            See scikit-learn's user guide on metadata routing.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=to_fit)
            .add(splitter=self.cv, method_mapping=to_split)
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags
