"""The files of all releases can be loaded and give the same predictions."""

import json
from pathlib import Path

import numpy as np
import pytest

import sklearn_calib
from sklearn_calib.persistence import load
from sklearn_calib.persistence._documents import CLASSES

FILES = Path(__file__).parent / "files"
RELEASES = sorted(path for path in FILES.iterdir() if path.is_dir())


@pytest.mark.filterwarnings("ignore:TemperatureScaling needs about")
@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_the_files_of_a_release(folder):
    text = (folder / "predictions.json").read_text(encoding="utf-8")
    predictions = json.loads(text)
    names = {path.name for path in folder.iterdir()} - {"predictions.json"}
    assert names == predictions.keys()
    for name, saved in predictions.items():
        if "error" in saved:
            assert load(folder / name).compute() == pytest.approx(saved["error"])
            continue
        if "e_value" in saved:
            assert load(folder / name).e_value_ == pytest.approx(saved["e_value"])
            continue
        if "temperature" in saved:
            found = load(folder / name).calibrator().temperature_
            assert found == pytest.approx(saved["temperature"])
            continue
        groups = {"groups": saved["groups"]} if "groups" in saved else {}
        proba = load(folder / name).predict_proba(np.array(saved["X"]), **groups)
        # A network computes in single precision.
        rtol = 1e-4 if name.endswith(".safetensors") else 1e-9
        np.testing.assert_allclose(proba, saved["proba"], rtol=rtol, err_msg=name)


def test_each_class_has_a_file_of_this_version():
    folder = FILES / sklearn_calib.__version__
    missing = CLASSES.keys() - {path.stem for path in folder.iterdir()}
    assert not missing, "run python tools/write_release_files.py"
