"""save and load: whole files of known formats, and errors that name the file."""

import copy
import json
import pickle

import numpy as np
import pytest
import safetensors
import torch
from safetensors.numpy import save_file
from sklearn.pipeline import make_pipeline

import sklearn_calib
from sklearn_calib import TemperatureScaling
from sklearn_calib.persistence import load, save, to_dict


@pytest.fixture(scope="module")
def fitted(fit):
    return fit(TemperatureScaling())


def test_a_calibrator_is_saved_as_json(fitted, tmp_path):
    calibrator, X = fitted
    file = tmp_path / "calibrator.json"
    save(calibrator, str(file))
    assert json.loads(file.read_text(encoding="utf-8")) == to_dict(calibrator)
    again = load(file)
    np.testing.assert_array_equal(again.predict_proba(X), calibrator.predict_proba(X))


def test_the_functions_are_at_the_top():
    assert (sklearn_calib.save, sklearn_calib.load) == (save, load)


def test_a_network_is_not_saved_as_json(net, tmp_path):
    with pytest.raises(ValueError, match=r"not end in \.json .*net\.safetensors'\.$"):
        save(net, tmp_path / "net.json")
    assert not [*tmp_path.iterdir()]


def test_the_way_out_comes_before_the_list_of_classes(tmp_path):
    message = r"got Pipeline.*Use skops or joblib .*'TemperatureScaling'"
    with pytest.raises(TypeError, match=f"(?s){message}"):
        save(make_pipeline(TemperatureScaling()), tmp_path / "model")


@pytest.mark.parametrize("path", [None, 3, b"model"])
def test_what_is_not_a_path(path, fitted):
    for use in (lambda: save(fitted[0], path), lambda: load(path)):
        with pytest.raises(TypeError, match=rf"path must be .*, got {path}\. Pass the"):
            use()


def test_a_path_with_a_null_character(fitted):
    for use in (lambda: save(fitted[0], "a\0b"), lambda: load("a\0b")):
        with pytest.raises(ValueError, match=r"path must not contain null .*\. Pass"):
            use()


def test_errors_of_the_system_name_the_path(net, fitted, tmp_path, monkeypatch):
    file = tmp_path / "missing" / "model"
    for model in (fitted[0], net):
        with pytest.raises(FileNotFoundError, match="create it first") as caught:
            save(model, file)
        assert caught.value.filename == str(file.resolve())

    def fill(*_, **__):
        raise safetensors.SafetensorError("No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", fill)
    with pytest.raises(OSError, match=r"net' cannot be written: No space left"):
        save(net, tmp_path / "net")
    assert not [*tmp_path.iterdir()]


def test_two_files_of_a_model_are_equal(fitted, net, tmp_path):
    for model in (fitted[0], net):
        save(model, tmp_path / "one")
        save(load(tmp_path / "one"), tmp_path / "two")
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_file_is_replaced_as_a_whole(fitted, net, tmp_path):
    file = tmp_path / "model"
    save(fitted[0], file)
    before = file.read_bytes()
    net = copy.deepcopy(net)
    net.module_.register_buffer("bad", torch.ones(1))
    with pytest.raises(ValueError, match="'bad' must be None"):
        save(net, file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_has_the_mode_of_other_files(fitted, net, tmp_path):
    (tmp_path / "other").touch()
    for name, model in {"calibrator": fitted[0], "net": net}.items():
        save(model, tmp_path / name)
        mode = (tmp_path / name).stat().st_mode
        assert mode == (tmp_path / "other").stat().st_mode


DAMAGE = {
    "empty": (lambda _: b"", "Expecting value"),
    "half": (lambda content: content[: len(content) // 2], "Unterminated string"),
    "bytes": (lambda _: bytes(range(256)) * 20, "not a safetensors file"),
    "latin": (lambda _: '{"ü": 1}'.encode("latin-1"), "codec can't decode"),
    "pickle": (lambda _: pickle.dumps([0] * 99), "not a safetensors file"),
    "list": (lambda _: b"[1]", r"document must be an object, got \[1\]"),
    "deep": (lambda _: b"[" * 10**6, "nested too deeply"),
    "nan": (lambda content: content.replace(b"[3]", b"NaN"), "JSON contains NaN"),
    "twice": (lambda c: c.replace(b'"state"', b'"class"'), "key occurs twice"),
    "digits": (lambda _: b"9" * 10**5, "Exceeds the limit"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_named(damage, message, fitted, tmp_path):
    file = tmp_path / "calibrator.json"
    save(fitted[0], file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"calibrator\.json' cannot.*{message}"):
        load(file)


def test_a_damaged_network_is_named(net, tmp_path):
    file = tmp_path / "net.safetensors"
    save(net, file)
    content = file.read_bytes()
    for damaged in (content[:-4], content[:100], content + b"\0"):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"net\.safetensors' cannot be loaded"):
            load(file)


def test_other_safetensors_are_refused(net, tmp_path):
    net.save_params(f_params=tmp_path / "net", use_safetensors=True)
    with pytest.raises(ValueError, match=r"no metadata .* read by load_params"):
        load(tmp_path / "net")
    save_file({"a": np.ones(2)}, tmp_path / "net", {"sklearn_calib": "{}"})
    with pytest.raises(ValueError, match="document must have the keys"):
        load(tmp_path / "net")


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.json")
