"""Crafted files of networks: the error names the parameter or the tensor."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from sklearn_calib import CalibratedClassifier, TemperatureScaling
from sklearn_calib.persistence import from_dict, load, save, to_dict

NETWORKS = {
    "layer": (("module__hidden_sizes",), [10**15], "must contain the weights of the"),
    "layers": (("module__hidden_sizes",), [4] * 500, "must contain the weights of the"),
    "hours of layers": (
        ("module__hidden_sizes",),
        [1] * 10**5,
        r"hidden_sizes must be sizes of 4 tensors, got \[1, .* \(100000 in total\)",
    ),
    "text": (("module__hidden_sizes",), "4", "The 'hidden_sizes' parameter of MLP"),
    "features": (("module__n_features",), 10**15, "must contain the weights of the"),
    "name": (("module__n_units",), 4, "MLP has no parameter 'n_units'"),
    "module": (("module",), "os.system", "module must be passed to load this file"),
    "kind": (("module",), "ConvNet", "ConvNet has no parameter 'hidden_sizes'"),
    "loss": (("loss",), "os.system", "loss must be passed to load this file"),
    "number": (("loss",), 3, "loss must be a name or null, got 3"),
    "callbacks": (("callbacks",), [], r"object\.params must be .* \['callbacks'\]"),
    "workers": (("iterator_valid__num_workers",), 9, r"params must be .*num_workers"),
    "dtype": (("dtype",), "float64", "'0.bias' must be .*float64.* got .*float32"),
    "word": (("class_weight",), "even", "'class_weight' parameter of NeuralClassifier"),
    "pairs": (("class_weight",), [[[0], 1]], r"class_weight must be pairs .*\[0\], 1"),
    "weight": (("class_weight",), [[0, -1]], "class_weight must map .* got -1 for 0"),
    "size": (("batch_size",), 0, "'batch_size' parameter of NeuralClassifier must"),
}


@pytest.mark.parametrize(("path", "value", "message"), NETWORKS.values(), ids=NETWORKS)
def test_the_parameter_of_a_network_is_named(path, value, message, net):
    document = to_dict(net)
    document["object"]["params"][path[0]] = value
    with pytest.raises(ValueError, match=message):
        from_dict(document)


def test_many_stages_are_refused(net):
    document = to_dict(net)
    document["object"]["params"] |= {"module": "ConvNet", "module__n_stages": 10**12}
    document["object"]["params"].pop("module__hidden_sizes")
    document["object"]["state"]["input_shape"] = [6, 10**6, 10**6]
    with pytest.raises(ValueError, match="'n_stages' parameter of ConvNet"):
        from_dict(document)


def rewrite(file, change):
    """Write a file again with changed tensors and metadata."""
    with safe_open(file, framework="numpy") as opened:
        tensors = {name: opened.get_tensor(name) for name in [*opened.keys()]}
        metadata = opened.metadata()
    change(tensors)
    save_file(tensors, file, metadata)


NAN = np.array([0.0, np.nan, 0.0, 0.0], dtype=np.float32)
TENSORS = {
    "nan": ("0.bias", NAN, r"module_\.0\.bias must be finite"),
    "shape": ("0.bias", NAN[:1], r"'0\.bias' must be \(\(4,\), .* got \(\(1,\)"),
    "dtype": ("0.bias", np.zeros(4), r"'0\.bias' must be .*float32.* got .*float64"),
    "more": (
        "9.bias",
        np.zeros(4),
        r"tensors must be used in the document, got \['obj",
    ),
}


@pytest.mark.parametrize(("name", "value", "message"), TENSORS.values(), ids=TENSORS)
def test_the_tensor_is_named(name, value, message, net, tmp_path):
    file = tmp_path / "net"
    save(net, file)
    key = f"object.state.module_.{name}"
    rewrite(file, lambda tensors: tensors.update({key: value}))
    with pytest.raises(ValueError, match=message):
        load(file)


def test_a_missing_tensor_is_named(net, tmp_path):
    file, key = tmp_path / "net", "object.state.module_.0.bias"
    save(net, file)
    rewrite(file, lambda tensors: tensors.pop(key))
    with pytest.raises(
        ValueError, match=rf"{key}\.tensor must be the name of a tensor"
    ):
        load(file)


def test_weights_that_overflow_are_no_probabilities(net, table):
    document = to_dict(net)
    for tensor in document["object"]["state"]["module_"].values():
        tensor["values"] = [1e38] * len(tensor["values"])
    again = from_dict(document)
    with pytest.raises(ValueError, match="network that was loaded"):
        again.predict_proba(table[0])


def test_parts_of_a_calibrated_network_must_agree(net, table, fit):
    calibrated = CalibratedClassifier(net, "temperature", cv=2, n_repeats=1)
    calibrated.fit(*table)
    document = to_dict(calibrated)
    pairs = document["object"]["state"]["calibrated_classifiers_"]
    other = to_dict(fit(TemperatureScaling(from_logits=True))[0])["object"]
    pairs[0][1] = other
    with pytest.raises(ValueError, match="classes_ must be"):
        from_dict(document)
    document = to_dict(calibrated)
    pairs = document["object"]["state"]["calibrated_classifiers_"]
    pairs[0][1]["params"]["from_logits"] = False
    pairs[0][1]["state"]["zero_replacement_"] = 1e-9
    with pytest.raises(ValueError, match="from_logits and n_features_in_ of the"):
        from_dict(document)
    document["object"]["params"]["estimator"] = 3
    with pytest.raises(ValueError, match="estimator must be an object"):
        from_dict(document)


@pytest.mark.parametrize("name", ["batch_size", "iterator_valid__batch_size"])
def test_a_batch_size_that_overflows_is_refused(name, net):
    document = to_dict(net)
    document["object"]["params"][name] = 2**63
    with pytest.raises(ValueError, match=rf"params\.{name} must be an integer up"):
        from_dict(document)
