"""ONNX graphs, and the parts of a model that other packages convert."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from sklearn_calib._expressions.symbol import Symbol, hstack
from sklearn_calib._validation.arrays import first_line

# Steps of a Pipeline that return the data.
OMITTED = (None, "passthrough")


class Graph:
    """ONNX graph that a converter of skl2onnx extends.

    Parameters
    ----------
    scope : skl2onnx.common._topology.Scope
        Makes unique names.

    container : skl2onnx.common._container.ModelComponentContainer
        Collects nodes and constants.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope = scope
        self.container = container
        self.opset = container.target_opset
        container.node_domain_version_pair_sets.add(("", self.opset))

    def constant(self, values: Any) -> str:
        """Add a constant and return its name."""
        from onnx.numpy_helper import from_array

        name = self.scope.get_unique_variable_name("constant")
        self.container.initializers.append(from_array(np.asarray(values), name))
        return name

    def add(
        self, op_type: str, inputs: Sequence[str], output: str = "", **options: Any
    ) -> str:
        """Add a node and return the name of its output."""
        from onnx.helper import make_node, np_dtype_to_tensor_dtype

        if "axes" in options:
            inputs = [*inputs, self.constant(np.array(options.pop("axes")))]
        if "to" in options:
            options["to"] = np_dtype_to_tensor_dtype(options["to"])
        output = output or self.scope.get_unique_variable_name(op_type)
        self.container.nodes.append(
            make_node(
                op_type,
                [*inputs],
                [output],
                name=self.scope.get_unique_operator_name(op_type),
                **options,
            )
        )
        return output

    def inline(self, model: Any, inputs: dict[str, str]) -> list[str]:
        """Add the nodes of a model, applied to the given inputs; return its outputs."""
        from onnx.compose import add_prefix

        prefix = self.scope.get_unique_variable_name("part") + "_"
        model = add_prefix(model, prefix)
        for name, value in inputs.items():
            self.add("Identity", [value], prefix + name)
        self.container.initializers.extend(model.graph.initializer)
        self.container.nodes.extend(model.graph.node)
        self.container.node_domain_version_pair_sets.update(
            (each.domain, each.version) for each in model.opset_import if each.domain
        )
        return [value.name for value in model.graph.output]


class ConversionError(ValueError):
    """A model cannot be converted, for a reason that names the parameter."""


class GraphInput(NamedTuple):
    """Data that a model is applied to: names outside of and in the graph, and type."""

    raw_name: str
    name: str
    type: Any


def inner_model(model: Any) -> Any:
    """Return the fitted model inside frozen estimators and searches."""
    if isinstance(model, FrozenEstimator):
        return inner_model(model.estimator)
    if isinstance(model, GridSearchCV | RandomizedSearchCV):
        return inner_model(model.best_estimator_)
    if isinstance(model, Pipeline):
        steps = [(name, inner_model(step)) for name, step in model.steps]
        return Pipeline([(n, step) for n, step in steps if step not in OMITTED])
    return model


def last_step(model: Any) -> Any:
    return last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def to_proto(
    model: Any, initial_types: list[Any], target_opset: int, *, raw_scores: bool = False
) -> Any:
    """Return the ONNX model of an unwrapped model, with skl2onnx."""
    from skl2onnx import to_onnx

    last = last_step(model)
    name, options = type(last).__name__, {}
    if is_classifier(model):
        # The options of a Pipeline do not reach its last step.
        options = {id(last): {"raw_scores": True} if raw_scores else {}}
        # The only classifier that has always an array of scores, and not this option.
        if not isinstance(last, LinearSVC):
            options[id(last)]["zipmap"] = False
    try:
        with warnings.catch_warnings():
            # skl2onnx and torch use deprecated names of other packages.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            return to_onnx(
                model,
                initial_types=initial_types,
                target_opset=target_opset,
                options=options or None,  # for an empty dict, it searches the model
            )
    except (ConversionError, ImportError):
        raise
    except Exception as error:
        if "Option 'raw_scores'" in str(error):
            raise ConversionError(
                f"skl2onnx cannot convert the decision function of {name}. Fit "
                'CalibratedClassifier with response_method="predict_proba".'
            ) from error
        hint = " If all columns of X are numbers, try X.to_numpy()."
        raise ConversionError(
            "model must consist of estimators that skl2onnx can convert, got "
            f"{name}: {first_line(error)}.{hint if len(initial_types) > 1 else ''}"
        ) from error


def part(
    graph: Graph, model: Any, sources: Sequence[GraphInput], *, raw_scores: bool = False
) -> Symbol:
    """Add a fitted classifier to the graph; return its probabilities.

    With `raw_scores`, return the values of its decision function. skl2onnx computes
    some classifiers in float32 for any data, so the dtype is not known.
    """
    types = [(source.raw_name, source.type) for source in sources]
    proto = to_proto(inner_model(model), types, graph.opset, raw_scores=raw_scores)
    inputs = [value.name for value in proto.graph.input]
    names = [source.name for source in sources]
    output = graph.inline(proto, dict(zip(inputs, names, strict=True)))[-1]
    return Symbol(graph, output, np.float64)


def table(graph: Graph, sources: Sequence[GraphInput], dtype: Any) -> Symbol:
    """Return all columns as one array."""
    from skl2onnx.common.data_types import guess_numpy_type

    return hstack(
        [
            Symbol(graph, source.name, guess_numpy_type(source.type)).astype(dtype)
            for source in sources
        ]
    )


def typed(dtype: Any, shape: Sequence[Any]) -> Any:
    """Return the type of skl2onnx for a floating dtype."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kind = DoubleTensorType if dtype == np.float64 else FloatTensorType
    return kind([*shape])


def network(graph: Graph, module: Any, X: Symbol, shape: tuple[int, ...]) -> Symbol:
    """Add a torch module to the graph; return its first output in float64."""
    import onnxscript  # noqa: F401 - without it, torch raises an error of its own
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
            f"{type(module).__name__}: {first_line(error)}."
        ) from error
    proto = program.model_proto
    output = graph.inline(proto, {proto.graph.input[0].name: X.value})[0]
    return Symbol(graph, output, X.dtype).astype(np.float64)
