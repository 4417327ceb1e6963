"""Record what the package returns, and compare it with an earlier record, bit by bit.

    python tools/freeze.py record FOLDER
    python tools/freeze.py compare FOLDER

The record has the values of every public function and class with valid and with hostile
input (`benchmarks/correctness/hostile`), messages among them, metrics of 400 samples,
fitted calibrators, networks trained with every loss, and what saved models and ONNX
graphs contain and predict. The names of modules are left out.
"""

import inspect
import json
import os
import re
import subprocess
import sys
import warnings
import zlib
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

# Sums depend on the number of threads, and the order of sets on the seed of hashes.
FIXED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
if not FIXED.items() <= os.environ.items():
    sys.exit(subprocess.call([sys.executable, *sys.argv], env={**os.environ, **FIXED}))
sys.path.append(str(Path(__file__).parent.parent / "benchmarks" / "correctness"))

import matplotlib as mpl  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import pandas as pd  # noqa: E402
import torch  # noqa: E402
from hostile.subjects import subjects  # noqa: E402
from write_release_files import make_models  # noqa: E402

from sklearn_calib import NeuralClassifier, metrics  # noqa: E402
from sklearn_calib.calibrators import (  # noqa: E402
    GroupCalibrator,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.losses import get_loss_names  # noqa: E402
from sklearn_calib.onnx import to_onnx  # noqa: E402
from sklearn_calib.persistence import to_dict  # noqa: E402

SHARE = 5  # of the tries with one hostile value, one in so many
REQUIRED = {
    "coverage_at_risk": {"max_risk": 0.3},
    "net_benefit_score": {"threshold": 0.2},
    "risk_at_coverage": {"coverage": 0.8},
}


def parts(value):
    """Yield the arrays and texts of a value."""
    if isinstance(value, torch.Tensor):
        yield str(value.dtype)
        has_none = value.is_meta or value.is_sparse or value.is_nested
        value = str(value.shape) if has_none else value.detach().double().numpy()
    if isinstance(value, pd.DataFrame | pd.Series):
        yield str(value.axes)
        value = value.to_numpy()
    if isinstance(value, np.ndarray | np.generic | float | int):
        array = np.asarray(value)
        yield array if array.dtype.kind in "biuf" else plain(array.tolist())
    elif isinstance(value, dict | list | tuple):
        for part in value.items() if isinstance(value, dict) else value:
            yield from parts(part)
    else:
        yield plain(value)


def plain(value):
    """Return a text without addresses, the names of modules and the versions."""
    text = value if isinstance(value, str) else repr(value)
    text = re.sub(r" at 0x[0-9a-f]+|/tmp/\w+", "", text)
    return re.sub(r"sklearn_calib\.(\w+\.)*", "", text)


def outcome(call):
    """Return the result of a call with its warnings, or its error."""
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return result, [str(each.message) for each in caught]


def called():
    """Yield the public names with valid input, and with some of the hostile values."""
    for name, subject in subjects().items():
        yield name, lambda s=subject: s.call(**s.arguments_with({}))
        for argument, key, _ in subject.tries():
            full = f"{name} {argument}: {key}"
            if zlib.crc32(full.encode()) % SHARE == 0:
                change = {argument: key}
                yield full, lambda s=subject, c=change: s.call(**s.arguments_with(c))


def problem(n_classes, n_samples=400):
    """Return logits that are too large, their probabilities, labels and weights."""
    rng = np.random.default_rng(n_classes)
    logits = rng.normal(size=(n_samples, n_classes)) * 2
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = torch.softmax(torch.tensor(2 * logits), dim=1).numpy()
    return 2 * logits, proba, y, rng.uniform(0.5, 2, size=n_samples)


def measured():
    """Yield the metrics of labels and probabilities, with and without weights."""
    for name in metrics.__all__:
        metric = getattr(metrics, name)
        known = inspect.signature(metric).parameters
        if list(known)[:2] != ["y_true", "y_proba"]:
            continue
        for n_classes in (2, 3, 10):
            _, proba, y, weight = problem(n_classes)
            more = {"groups": y % 3, "n_resamples": 20, "random_state": 0}
            options = {k: v for k, v in more.items() if k in known}
            options |= REQUIRED.get(name, {})
            for given in ({}, {"sample_weight": weight}):
                if given.keys() <= known.keys():
                    yield (
                        f"{name} of {n_classes} classes {[*given]}",
                        lambda m=metric, a=(y, proba), o={**options, **given}: m(
                            *a, **o
                        ),
                    )


def calibrated():
    """Yield the calibrators, fitted to logits and to probabilities."""

    def fit(name, from_logits, n_classes):
        logits, proba, y, weight = problem(n_classes)
        X = logits if from_logits else proba
        model = get_calibrator(name)(from_logits=from_logits)
        model.fit(X, y, sample_weight=weight)
        return [
            {k: v for k, v in sorted(vars(model).items()) if k.endswith("_")},
            model.predict_proba(X),
            model.predict_proba(X.astype(np.float32)),
            model.predict(X),
            outcome(lambda: model.to_torch()(torch.tensor(X))),
        ]

    for name in get_calibrator_names():
        for case in ((True, 2), (True, 3), (True, 10), (False, 2), (False, 10)):
            yield f"{name} {case}", lambda a=(name, *case): fit(*a)


def trained():
    """Yield networks, trained with every loss."""

    def train(loss):
        X, _, y, _ = problem(2 if loss == "aucm" else 3, 90)
        net = NeuralClassifier(
            module__hidden_sizes=(4,), loss=loss, max_epochs=2, random_state=0,
            validation_fraction=0.3,
        )  # fmt: skip
        net.fit(X, y)
        history = [row["train_loss"] for row in net.history]
        return net.predict_proba(X), net.module_.state_dict(), history

    for loss in get_loss_names():
        yield f"net of {loss}", lambda a=loss: train(a)


def saved():
    """Yield what every saved model predicts, its document and its ONNX graph."""

    def run(model, X):
        proto = to_onnx(model, X, atol=np.inf)
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        (name, *others) = [each.name for each in session.get_inputs()]
        return None if others else session.run(None, {name: np.asarray(X)})

    for name, (model, X) in make_models().items():
        given = {"groups": [[0, "a"]] * len(X)}
        given = given if isinstance(model, GroupCalibrator) else {}
        yield f"{name} predicts", lambda m=model, X=X, g=given: m.predict_proba(X, **g)
        yield f"{name} saved", lambda m=model: json.dumps(to_dict(m))
        yield f"{name} as ONNX", lambda m=model, X=X: run(m, X)


def record():
    """Return all texts and arrays by name."""
    found = {}
    for source in (called, measured, calibrated, trained, saved):
        for name, call in source():
            for k, part in enumerate(parts(outcome(call))):
                found[f"{source.__name__} {name} [{k}]"] = part
    return found


def difference(old, new):
    """Return in which way two parts differ, or None."""
    if old is None or new is None or isinstance(old, str) or isinstance(new, str):
        return None if isinstance(old, str) and old == new else f"{old} -> {new}"
    if old.dtype != new.dtype or old.shape != new.shape:
        return f"{old.dtype} {old.shape} -> {new.dtype} {new.shape}"
    if old.tobytes() == new.tobytes():
        return None
    return f"differs by up to {np.abs(old.astype(float) - new.astype(float)).max():g}"


def read(folder):
    """Return what was recorded in a folder."""
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    with np.load(folder / "arrays.npz") as arrays:
        numbers = dict(arrays)
    return texts | {name: numbers[str(k)] for k, name in enumerate(texts["names"])}


def write(folder, found):
    """Write a record to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: part for name, part in found.items() if isinstance(part, str)}
    texts["names"] = [name for name in found if name not in texts]
    arrays = {str(k): found[name] for k, name in enumerate(texts["names"])}
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    np.savez_compressed(folder / "arrays.npz", **arrays)


def main():
    """Record or compare; return whether there is a difference."""
    task, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    mpl.use("Agg")
    torch.set_num_threads(1)
    # What libraries print, and files under hostile names.
    away, silence = TemporaryDirectory(), StringIO()
    with (
        away as other,
        chdir(other),
        redirect_stdout(silence),
        redirect_stderr(silence),
    ):
        new = record()
    if task == "record":
        return write(folder, new)
    old = read(folder)
    del old["names"]
    found = {n: difference(old.get(n), new.get(n)) for n in {**old, **new}}
    different = {name: text for name, text in found.items() if text}
    for name, text in different.items():
        print(f"{name}: {text[:400]}")
    print(f"{len(different)} of {len(found)} parts differ")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
