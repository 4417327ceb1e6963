"""Converters of the package's estimators for skl2onnx."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from sklearn_calib.calibrators import Calibrator, PerLabelCalibrator
from sklearn_calib.onnx._graph import Graph, Tensor, hstack, node
from sklearn_calib.onnx._links import focal_posterior, softmax
from sklearn_calib.onnx._maps import MAPS, as_logits, calibrate


class ConversionError(ValueError):
    """A model cannot be converted, for a reason that names the parameter."""


class Source(NamedTuple):
    """Data that a model is applied to: names outside of and in the graph, and type."""

    raw_name: str
    name: str
    type: Any


# Models -------------------------------------------------------------------------------


def unwrapped(model: Any) -> Any:
    """Return the fitted model inside frozen estimators and searches."""
    if isinstance(model, FrozenEstimator):
        return unwrapped(model.estimator)
    if isinstance(model, GridSearchCV | RandomizedSearchCV):
        return unwrapped(model.best_estimator_)
    if isinstance(model, Pipeline):
        return Pipeline([(name, unwrapped(step)) for name, step in model.steps])
    return model


def last_step(model: Any) -> Any:
    return last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def to_proto(
    model: Any, initial_types: list[Any], target_opset: int, *, raw_scores: bool = False
) -> Any:
    """Return the ONNX model of an unwrapped model, with skl2onnx."""
    from skl2onnx import to_onnx

    register()
    options: dict[int, dict[str, bool]] = {}
    if is_classifier(model):
        # The options of a Pipeline do not reach its last step.
        options = {id(each): {"zipmap": False} for each in (model, last_step(model))}
        if raw_scores:
            options[id(last_step(model))]["raw_scores"] = True
    name = type(last_step(model)).__name__
    try:
        with warnings.catch_warnings():
            # skl2onnx and torch use deprecated names of other packages.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            return to_onnx(
                model,
                initial_types=initial_types,
                target_opset=target_opset,
                options=options,
            )
    except ConversionError:
        raise
    except NameError as error:
        if not raw_scores:
            raise
        raise ConversionError(
            f"model must not calibrate the decision function of {name}, which skl2onnx "
            'cannot convert. Fit CalibratedClassifier with response_method="'
            'predict_proba".'
        ) from error
    except Exception as error:
        raise ConversionError(
            "model must consist of estimators that skl2onnx can convert, got "
            f"{name}: {first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def part(
    graph: Graph, model: Any, sources: Sequence[Source], *, raw_scores: bool = False
) -> str:
    """Add a fitted classifier to the graph; return the name of its probabilities.

    With `raw_scores`, these are the values of its decision function.
    """
    types = [(source.raw_name, source.type) for source in sources]
    proto = to_proto(unwrapped(model), types, graph.opset, raw_scores=raw_scores)
    inputs = [value.name for value in proto.graph.input]
    names = [source.name for source in sources]
    return graph.inline(proto, dict(zip(inputs, names, strict=True)))[-1]


def table(graph: Graph, sources: Sequence[Source], dtype: Any) -> Tensor:
    """Return all columns as one array."""
    from skl2onnx.common.data_types import guess_numpy_type

    return hstack(
        [
            Tensor(graph, source.name, guess_numpy_type(source.type)).astype(dtype)
            for source in sources
        ]
    )


def typed(dtype: Any, shape: Sequence[Any]) -> Any:
    """Return the type of skl2onnx for a floating dtype."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kind = DoubleTensorType if dtype == np.float64 else FloatTensorType
    return kind([*shape])


# Converters: graph, fitted model, data and dtype, to probabilities --------------------


def calibrator_proba(
    graph: Graph, model: Any, sources: Sequence[Source], dtype: Any
) -> Tensor:
    return calibrate(model, table(graph, sources, dtype))


def per_label_proba(
    graph: Graph, model: Any, sources: Sequence[Source], dtype: Any
) -> Tensor:
    X = table(graph, sources, dtype)
    return hstack(
        [
            calibrate(each, X.columns([k])).columns([1])
            for k, each in enumerate(model.calibrators_)
        ]
    )


def calibrated_proba(
    graph: Graph, model: Any, sources: Sequence[Source], dtype: Any
) -> Tensor:
    pairs = model.calibrated_classifiers_
    total: Any = sum(pair_proba(graph, model, pair, sources, dtype) for pair in pairs)
    return total / len(pairs)


def pair_proba(
    graph: Graph, model: Any, pair: Any, sources: Sequence[Source], dtype: Any
) -> Tensor:
    """Return the calibrated probabilities of the classifier of one fold."""
    name = part(graph, pair.estimator, sources, raw_scores=pair.from_logits)
    # skl2onnx computes some classifiers in float32 only.
    scores = node("Cast", Tensor(graph, name, dtype), to=onnx_type(dtype))
    if pair.from_logits and len(model.classes_) == 2:
        # The last column is the value of the decision function.
        scores = scores.columns([-1])
        scores = hstack([0 * scores, scores])
    if pair.calibrator is None:
        return softmax(scores) if pair.from_logits else scores
    if isinstance(model.calibrator, Calibrator):
        check_known(pair.calibrator)
        return calibrate(pair.calibrator, scores)
    logits = as_logits(pair.calibrator, scores)
    logit_type = typed(dtype, [None, len(model.classes_)])
    source = Source("logits", logits.name, logit_type)
    name = part(graph, pair.calibrator.classifier_, [source])
    proba = node("Cast", Tensor(graph, name, dtype), to=onnx_type(dtype))
    return node("Max", proba, np.finfo(dtype).tiny)


def neural_logits(graph: Graph, model: Any, sources: Sequence[Source]) -> Tensor:
    X = table(graph, sources, model._data_dtype or model.dtype)
    return network(graph, model.module_, X, input_shape(model, sources))


def refcal_logits(graph: Graph, model: Any, sources: Sequence[Source]) -> Tensor:
    X = table(graph, sources, model._data_dtype or model.dtype)
    encoder, head = model.encoder_, model.head_
    embeddings = network(graph, encoder, X, input_shape(model, sources))
    width = (head.n_features_in_,)
    return network(graph, head.module_, embeddings.astype(X.dtype), width)


def posterior(model: Any, proba: Tensor) -> Tensor:
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


def onnx_type(dtype: Any) -> int:
    from onnx.helper import np_dtype_to_tensor_dtype

    return np_dtype_to_tensor_dtype(np.dtype(dtype))


def input_shape(model: Any, sources: Sequence[Source]) -> tuple[int, ...]:
    """Return the shape of one sample."""
    if len(sources) == 1 and len(sources[0].type.shape) > 2:
        return tuple(sources[0].type.shape[1:])
    return (model.n_features_in_,)


def network(graph: Graph, module: Any, X: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Add a torch module to the graph; return its first output in float64."""
    import torch

    # torch would take a batch size of 1 for a constant.
    example = torch.zeros(2, *shape, dtype=getattr(torch, X.dtype.name))
    try:
        program: Any = torch.onnx.export(
            deepcopy(module).cpu().eval(),
            (example,),
            dynamo=True,
            opset_version=graph.opset,
            dynamic_shapes=({0: torch.export.Dim.AUTO},),
            verbose=False,
        )
    except Exception as error:
        raise ConversionError(
            "module must be a network that torch.onnx.export can convert, got "
            f"{type(module).__name__}: {first_line(error)}"
        ) from error
    proto = program.model_proto
    output = graph.inline(proto, {proto.graph.input[0].name: X.name})[0]
    return Tensor(graph, output, X.dtype).astype(np.float64)


def check_exportable(model: Any) -> None:
    """Raise an error for objects that are not classifiers with an ONNX form."""
    from sklearn_calib.estimators import SelectiveClassifier

    is_instance = isinstance(model, BaseEstimator)
    if not (is_instance and is_classifier(model) and hasattr(model, "predict_proba")):
        raise TypeError(
            "model must be a fitted classifier or calibrator with predict_proba, got "
            f"{model!r}."
        )
    if isinstance(model, SelectiveClassifier):
        raise ConversionError(
            "model must not be a SelectiveClassifier, as ONNX has no label for "
            "abstention. Export model.estimator_, and compare the confidence with "
            "model.threshold_."
        )
    if isinstance(model, Calibrator):
        check_known(model)


# Registration -------------------------------------------------------------------------

Proba = Callable[[Graph, Any, Sequence[Source], Any], Tensor]


def check_known(calibrator: Any) -> None:
    """Raise ConversionError for a calibrator without a map."""
    if type(calibrator) not in MAPS:
        raise ConversionError(
            "model must be calibrated by a calibrator of sklearn_calib.calibrators, "
            f"got {type(calibrator).__name__}. Register a converter for it with "
            "skl2onnx.update_registered_converter."
        )


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
        f"{classes.tolist()[:10]}."
    )


def set_types(operator: Any) -> None:
    """Set the types of the outputs, as skl2onnx's shape calculators do."""
    from skl2onnx.common.data_types import Int64TensorType

    model = operator.raw_operator
    n_classes, dtype = len(model.classes_), output_dtype(operator.inputs)
    operator.outputs[1].type = typed(dtype, [None, n_classes])
    if isinstance(model, PerLabelCalibrator):
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
            margin = values.columns([1]) - values.columns([0])
            output = hstack([-margin, margin])
        else:
            output = values
        add_outputs(graph, operator, proba, output.astype(dtype))

    return convert


def open_graph(
    scope: Any, operator: Any, container: Any
) -> tuple[Graph, Any, list[Source], Any]:
    """Return the graph, the model, its data and the dtype of its probabilities."""
    sources = [
        Source(each.raw_name, each.full_name, each.type) for each in operator.inputs
    ]
    dtype = output_dtype(operator.inputs)
    return Graph(scope, container), operator.raw_operator, sources, dtype


def add_outputs(graph: Graph, operator: Any, proba: Tensor, output: Tensor) -> None:
    """Name the outputs: the labels with the largest probabilities, and `output`."""
    label, values = (each.full_name for each in operator.outputs)
    graph.add("Identity", [output.name], values)
    if isinstance(operator.raw_operator, PerLabelCalibrator):
        graph.add("Identity", [(proba > 0.5).astype(np.int64).name], label)
        return
    codes = node("ArgMax", proba, dtype=np.int64, axis=1, keepdims=0)
    classes = graph.constant(label_constant(operator.raw_operator.classes_)[0])
    graph.add("Gather", [classes, codes.name], label)


@cache
def register() -> None:
    """Register the converters of the package with skl2onnx, once."""
    from skl2onnx import update_registered_converter

    from sklearn_calib.estimators import (
        CalibratedClassifier,
        NeuralClassifier,
        RefCalClassifier,
    )

    converters: dict[type, Any] = {
        **dict.fromkeys(MAPS, converter(calibrator_proba)),
        PerLabelCalibrator: converter(per_label_proba),
        CalibratedClassifier: converter(calibrated_proba),
    }
    networks: dict[type, Any] = {
        NeuralClassifier: network_converter(neural_logits, lambda model: model),
        RefCalClassifier: network_converter(refcal_logits, lambda model: model.head_),
    }
    for model, convert in (converters | networks).items():
        options = {"zipmap": [True, False, "columns"]}
        if model in networks:
            options["raw_scores"] = [True, False]
        name = f"SklearnCalib{model.__name__}"
        update_registered_converter(model, name, set_types, convert, options=options)
