"""ONNX graphs that expressions add nodes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


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
