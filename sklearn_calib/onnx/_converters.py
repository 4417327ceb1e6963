"""Converters of the package's estimators for skl2onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np

from sklearn_calib._expressions.rows import (
    focal_posterior,
    log_of_tiny,
    pool,
    softmax,
)
from sklearn_calib._expressions.symbol import Symbol, hstack, maximum, node, where
from sklearn_calib._sklearn.response import codes_among
from sklearn_calib._validation.arrays import shown
from sklearn_calib.calibrators import (
    Calibrator,
    GroupCalibrator,
    PerLabelCalibrator,
)
from sklearn_calib.onnx._onnx_graph import (
    ConversionError,
    Graph,
    GraphInput,
    network,
    part,
    table,
    typed,
)

# Graph, fitted model, data and dtype of the result, to probabilities.
Proba: TypeAlias = Callable[[Graph, Any, Sequence[GraphInput], Any], Symbol]


def calibrator_proba(
    graph: Graph, model: Any, sources: Sequence[GraphInput], dtype: Any
) -> Symbol:
    return model._in_graph(table(graph, sources, dtype))


def calibrated_proba(
    graph: Graph, model: Any, sources: Sequence[GraphInput], dtype: Any
) -> Symbol:
    pairs = model.calibrated_classifiers_
    members = [pair_proba(graph, model, pair, sources, dtype) for pair in pairs]
    return pool(members, model.pool_temperature_, model.pool_offset_)


def pair_proba(
    graph: Graph, model: Any, pair: Any, sources: Sequence[GraphInput], dtype: Any
) -> Symbol:
    """Return the calibrated probabilities of the classifier of one fold."""
    if pair.from_logits and pair.response_method == "predict_logits":
        raise ConversionError(
            "response_method='predict_logits' cannot be converted to ONNX, which has "
            f"no such output of {shown(pair.estimator)}. Fit CalibratedClassifier with "
            'response_method="predict_proba".'
        )
    output = part(graph, pair.estimator, sources, raw_scores=pair.from_logits)
    scores = all_columns(pair, output.cast(dtype))
    calibrator = pair.calibrator
    if calibrator is None:
        return softmax(scores) if pair.from_logits else scores
    if isinstance(calibrator, GroupCalibrator):
        raise ConversionError(
            "A model that uses groups cannot be converted to ONNX, as the graph has "
            f"no input for them, got calibrator={shown(calibrator)}. Use a calibrator "
            "without groups."
        )
    if not isinstance(calibrator, Calibrator | PerLabelCalibrator):
        return margin_proba(graph, calibrator, scores)
    if isinstance(model.calibrator, str | Calibrator | PerLabelCalibrator):
        return part_proba(graph, calibrator, scores)
    logits = calibrator._as_logits(calibrator._all_columns(scores))
    proba = part_proba(graph, calibrator.classifier_, logits)
    codes = np.arange(len(model.classes_))
    proba = aligned(proba, calibrator.classifier_.classes_, codes, False)
    return maximum(proba, np.finfo(dtype).tiny)


def all_columns(pair: Any, scores: Symbol) -> Symbol:
    """Return scores with a column for each class, as `predict_scores`."""
    present = pair.estimator.classes_
    if isinstance(present, list):
        raise ConversionError(
            "model must predict one array of probabilities to be converted to ONNX, "
            f"got a list of arrays, one for each label, from {shown(pair.estimator)}."
        )
    if isinstance(pair.classes, list):
        return scores
    if pair.from_logits and len(present) == 2:
        # The last column is the value of the decision function.
        scores = last_column(scores)
        first, second = codes_among(present, pair.classes)
        if first > second:
            present, scores = present[::-1], -scores
        scores = hstack([0 * scores, scores])
    return aligned(scores, present, pair.classes, pair.from_logits)


def aligned(scores: Symbol, present: Any, classes: Any, from_logits: bool) -> Symbol:
    """Return scores with a column for each of `classes`, as `align_columns`."""
    codes = codes_among(present, classes)
    if codes == [*range(len(classes))]:
        return scores
    column_of = {code: column for column, code in enumerate(codes)}
    columns = [column_of.get(code, len(codes)) for code in range(len(classes))]
    if len(codes) == len(classes):
        return scores[:, columns]
    smallest = -largest_score(-scores)
    if not from_logits:
        between = (scores > 0.0) & (scores < largest_score(scores))
        positive = -largest_score(-where(between, scores, np.inf))
        smallest = where(positive < np.inf, positive, smallest)
    filled = hstack([scores, smallest])[:, columns]
    return filled if from_logits else filled / filled.sum(axis=1, keepdims=True)


def largest_score(scores: Symbol) -> Symbol:
    return scores.max(axis=1, keepdims=True)


def last_column(scores: Symbol) -> Symbol:
    return scores[:, [-1]]


def part_proba(graph: Graph, model: Any, scores: Symbol) -> Symbol:
    """Return the probabilities of a calibrator or classifier of scores."""
    kind = typed(scores.dtype, [None, model.n_features_in_])
    if model.n_features_in_ == 1:
        scores = last_column(scores)
    return part(graph, model, [GraphInput("scores", scores.value, kind)]).cast(
        scores.dtype
    )


def margin_proba(graph: Graph, calibrator: Any, margins: Symbol) -> Symbol:
    """Return the probabilities of a calibrator of margins, one for each target."""
    per_label, scaled = calibrator.per_label_, margins / calibrator.scale_
    if isinstance(calibrator.classes_, list):
        return part_proba(graph, per_label, scaled)
    if len(calibrator.classes_) == 2:
        return part_proba(graph, per_label.calibrators_[0], scaled)
    proba = part_proba(graph, per_label, scaled)
    return proba / proba.sum(axis=1, keepdims=True)


def prior_shift_proba(
    graph: Graph, model: Any, sources: Sequence[GraphInput], dtype: Any
) -> Symbol:
    classifier = model.estimator_
    proba = part(graph, classifier, sources).cast(dtype)
    proba = aligned(proba, classifier.classes_, model.classes_, False)
    with np.errstate(divide="ignore"):  # a class may be absent from new data
        log_ratio = np.log(model.priors_) - np.log(model.train_priors_)
    return softmax(log_of_tiny(proba) + log_ratio)


def neural_logits(graph: Graph, model: Any, sources: Sequence[GraphInput]) -> Symbol:
    X = table(graph, sources, model._data_dtype or model.dtype)
    return network(graph, model.module_, X, input_shape(model, sources))


def refcal_logits(graph: Graph, model: Any, sources: Sequence[GraphInput]) -> Symbol:
    X = table(graph, sources, model._data_dtype or model.dtype)
    encoder, head = model.encoder_, model.head_
    embeddings = network(graph, encoder, X, input_shape(model, sources))
    width = (head.n_features_in_,)
    return network(graph, head.module_, embeddings.astype(X.dtype), width)


def posterior(model: Any, proba: Symbol) -> Symbol:
    """Return the class posterior if a NeuralClassifier has `posterior=True`."""
    from sklearn_calib.losses import FocalLoss

    if not model.posterior:
        return proba
    if type(model._loss) is FocalLoss:
        return focal_posterior(proba, model._loss.gamma)
    raise ConversionError(
        "model must have posterior=False, unless its loss is FocalLoss, got "
        f"posterior=True with {type(model._loss).__name__}. Export "
        "model.set_params(posterior=False)."
    )


def input_shape(model: Any, sources: Sequence[GraphInput]) -> tuple[int, ...]:
    """Return the shape of one sample."""
    if len(sources) == 1 and len(sources[0].type.shape) > 2:
        return tuple(sources[0].type.shape[1:])
    return (model.n_features_in_,)


# Registration -------------------------------------------------------------------------


def output_dtype(variables: Sequence[Any]) -> Any:
    """Return float32 if some data are float32 and no others are numbers."""
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    is_single = [isinstance(each.type, FloatTensorType) for each in variables]
    is_text = [isinstance(each.type, StringTensorType) for each in variables]
    is_plain = any(is_single) and sum(is_single) + sum(is_text) == len(variables)
    return np.float32 if is_plain else np.float64


def label_constant(classes: Any) -> tuple[Any, Any]:
    """Return the labels in a dtype of ONNX, and their type."""
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        Int64TensorType,
        StringTensorType,
    )

    if classes.dtype.kind in "iub":
        return classes.astype(np.int64), Int64TensorType
    if classes.dtype.kind == "f":
        return classes.astype(np.float64), DoubleTensorType
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object), StringTensorType
    raise ConversionError(
        "The classes of model must be numbers or strings to be converted to ONNX, got "
        f"{shown(classes.tolist())}."
    )


def set_types(operator: Any) -> None:
    """Set the types of the outputs, as skl2onnx's shape calculators do."""
    from skl2onnx.common.data_types import Int64TensorType

    model = operator.raw_operator
    n_classes, dtype = len(model.classes_), output_dtype(operator.inputs)
    operator.outputs[1].type = typed(dtype, [None, n_classes])
    if isinstance(model.classes_, list):
        operator.outputs[0].type = Int64TensorType([None, n_classes])
    else:
        operator.outputs[0].type = label_constant(model.classes_)[1]([None])


def converter(proba: Proba) -> Any:
    """Return a converter of skl2onnx that adds labels and probabilities."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        graph, model, sources, dtype = open_graph(scope, operator, container)
        values = proba(graph, model, sources, dtype)
        add_outputs(graph, operator, values, values.astype(dtype))

    return convert


def network_converter(logits: Any, last: Callable[[Any], Any]) -> Any:
    """Return a converter for a network; `last` returns its NeuralClassifier.

    With the option `raw_scores`, it adds the decision function in place of the
    probabilities.
    """

    def convert(scope: Any, operator: Any, container: Any) -> None:
        graph, model, sources, dtype = open_graph(scope, operator, container)
        values = logits(graph, model, sources)
        proba = softmax(values)
        if not container.get_options(model, {"raw_scores": False})["raw_scores"]:
            output = posterior(last(model), proba)
        elif len(model.classes_) == 2:
            margin = values[:, [1]] - values[:, [0]]
            output = hstack([-margin, margin])
        else:
            output = values
        add_outputs(graph, operator, proba, output.astype(dtype))

    return convert


def open_graph(
    scope: Any, operator: Any, container: Any
) -> tuple[Graph, Any, list[GraphInput], Any]:
    """Return the graph, the model, its data and the dtype of its probabilities."""
    sources = [
        GraphInput(each.raw_name, each.full_name, each.type) for each in operator.inputs
    ]
    dtype = output_dtype(operator.inputs)
    return Graph(scope, container), operator.raw_operator, sources, dtype


def add_outputs(graph: Graph, operator: Any, proba: Symbol, output: Symbol) -> None:
    """Name the outputs: the labels with the largest probabilities, and `output`."""
    label, values = (each.full_name for each in operator.outputs)
    graph.add("Identity", [output.value], values)
    if isinstance(operator.raw_operator.classes_, list):
        graph.add("Identity", [(proba > 0.5).astype(np.int64).value], label)
        return
    codes = node("ArgMax", proba, dtype=np.int64, axis=1, keepdims=0)
    classes = graph.constant(label_constant(operator.raw_operator.classes_)[0])
    graph.add("Gather", [classes, codes.value], label)


@cache
def register(*, with_networks: bool) -> None:
    """Register the converters of the package with skl2onnx, once."""
    from sklearn_calib.deployment import PriorShiftClassifier
    from sklearn_calib.estimators import CalibratedClassifier

    register_one(PerLabelCalibrator, converter(calibrator_proba))
    register_one(CalibratedClassifier, converter(calibrated_proba))
    register_one(PriorShiftClassifier, converter(prior_shift_proba))
    if with_networks:
        from sklearn_calib.estimators import NeuralClassifier, RefCalClassifier

        neural = network_converter(neural_logits, lambda model: model)
        refcal = network_converter(refcal_logits, lambda model: model.head_)
        register_one(NeuralClassifier, neural, raw_scores=[True, False])
        register_one(RefCalClassifier, refcal, raw_scores=[True, False])


@contextmanager
def corrected_trees() -> Iterator[None]:
    """Let skl2onnx convert classifiers with histogram-based trees.

    A split between missing and other values has an infinite threshold, where the search
    for the threshold of float64 data that is equivalent to that of scikit-learn never
    ends. The direction of missing values is a boolean, which onnx does not accept.
    """
    from skl2onnx.common import tree_ensemble

    search, add = tree_ensemble.sklearn_threshold, tree_ensemble.add_node

    def threshold(value: Any, *args: Any) -> Any:
        return value if np.isinf(value) else search(value, *args)

    def add_node(
        *args: Any, nodes_missing_value_tracks_true: Any = 0, **options: Any
    ) -> None:
        options["nodes_missing_value_tracks_true"] = int(
            nodes_missing_value_tracks_true
        )
        add(*args, **options)

    with (
        patch.object(tree_ensemble, "sklearn_threshold", threshold),
        patch.object(tree_ensemble, "add_node", add_node),
    ):
        yield


def register_calibrators(base: type[Calibrator] = Calibrator) -> None:
    """Register the calibrators that have been imported, unless someone else has."""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    for kind in base.__subclasses__():
        register_calibrators(kind)
        if kind not in sklearn_operator_name_map:
            register_one(kind, converter(calibrator_proba))


def register_one(model: type, convert: Any, **options: Any) -> None:
    from skl2onnx import update_registered_converter

    options["zipmap"] = [True, False, "columns"]
    name = f"SklearnCalib{model.__name__}"
    update_registered_converter(model, name, set_types, convert, options=options)
