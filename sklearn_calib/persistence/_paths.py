"""Files: JSON, or safetensors if there are networks."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from sklearn_calib._state.whole_file import whole_file
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Array
from sklearn_calib.persistence._documents import (
    own_classes,
    read_document,
    write_document,
)

# Entry of the metadata of a safetensors file that contains the document.
DOCUMENT = "sklearn_calib"


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model in a file that cannot run code.

    Calibrators are saved as JSON. A model with a network is saved in the safetensors
    format, with its weights and the same JSON in one file. The file is written
    completely or not at all, even if the process is killed or several processes write
    it at the same time.

    Parameters
    ----------
    model : calibrator, NeuralClassifier, CalibratedClassifier, PriorShiftClassifier, \
            CalibrationAccumulator, TemperatureAccumulator or CalibrationMonitor
        The fitted model. The classifier of a `CalibratedClassifier` must be a
        `NeuralClassifier`; that of a `PriorShiftClassifier` must be one of these two or
        a calibrator.

    path : str or path
        File to write, such as "calibrator.json" or "network.safetensors".

    Returns
    -------
    None

    Raises
    ------
    OSError
        If the file cannot be written, because its folder is missing or the disk is
        full, for example.

    TypeError
        If the model, or a part of it, is of a class that cannot be saved, or if `path`
        is not a path.

    ValueError
        If the model is not fitted, or contains values that cannot be saved, or if
        `path` of a model with a network ends in ".json".

    Notes
    -----
    A loaded model returns the same probabilities, bit for bit, on the same machine
    with the same versions of the libraries. Constructor parameters and fitted
    attributes are saved.

    These have their defaults after loading: the optimizer with its parameters and
    state, callbacks, the history, `batch_transform`, `train_split`,
    `iterator_train`, `torch_load_kwargs`, `compile` and `device` of a network, and
    `held_out_as`, `memory`, `n_jobs`, `verbose` and a splitter `cv` of a
    `CalibratedClassifier`.

    Tuples in parameters become lists, and `priors` and `train_priors` of a
    `PriorShiftClassifier` become arrays in the order of `classes_`.

    A file that is replaced keeps its mode. A process that is killed while it writes
    may leave a file whose name ends in ``.part`` in the folder. It can be removed.

    Examples
    --------
    See :func:`load`.
    """
    path = _check_path(path)
    tensors: dict[str, Array] = {}
    document = write_document(model, tensors)
    text = json.dumps(document, allow_nan=False)
    if tensors and path.suffix.lower() == ".json":
        raise ValueError(
            "path must not end in .json for a model with a network, which is saved in "
            f"the safetensors format, got {str(path)!r}. Use "
            f"{str(path.with_suffix('.safetensors'))!r}."
        )
    with whole_file(path) as part:
        if not tensors:
            part.write_text(text, encoding="utf-8")
            return
        import safetensors.numpy

        arrays = {name: each.copy("C") for name, each in tensors.items()}
        try:
            safetensors.numpy.save_file(arrays, part, metadata={DOCUMENT: text})
        except safetensors.SafetensorError as error:
            raise OSError(f"{str(path)!r} cannot be written: {error}") from error


def load(
    path: str | os.PathLike[str],
    *,
    module: Any = None,
    loss: Any = None,
    classes: Iterable[type] = (),
) -> Any:
    """Load a fitted model from a file of `save`.

    The file is checked, and nothing in it is executed.

    Parameters
    ----------
    path : str or path
        File to read.

    module : torch.nn.Module class or instance, default=None
        The network of a `NeuralClassifier` with a module of your own: the class, which
        is built with the saved `module__...` parameters, or an instance, which is
        copied. Must be None for :class:`~sklearn_calib.estimators.MLP` and
        :class:`~sklearn_calib.estimators.ConvNet`.

    loss : torch.nn.Module class or instance, default=None
        The loss of a `NeuralClassifier` with a loss of your own. Must be None for the
        losses of `sklearn_calib.losses`.

    classes : sequence of classes, default=()
        Calibrators of your own that the file may contain, such as `[MyCalibrator]`. A
        file never imports a class.

    Returns
    -------
    model : object
        The fitted model. A network is on the CPU.

    Raises
    ------
    ValueError
        If the file is damaged, belongs to a later version, or contains anything
        unknown or invalid. The message names the key.

    Notes
    -----
    The class of a module or calibrator is code of your own, and it is called with the
    parameters in the file. Anyone who can change the file can change the predictions.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import sklearn_calib
    >>> calibrator = sklearn_calib.TemperatureScaling(from_logits=True)
    >>> _ = calibrator.fit([[0, 2], [1, 0], [0, 1], [0, 1]] * 10, [1, 0, 1, 0] * 10)
    >>> with TemporaryDirectory() as folder:
    ...     sklearn_calib.save(calibrator, Path(folder, "calibrator.json"))
    ...     again = sklearn_calib.load(Path(folder, "calibrator.json"))
    >>> again.temperature_ == calibrator.temperature_
    True
    """
    path, own = _check_path(path), own_classes(classes)
    try:
        text, tensors = _read_file(path)
        document = _parse(text)
        passed = {"module": module, "loss": loss}
        return read_document(document, tensors, passed, own)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} cannot be loaded: {error}") from error


def _check_path(path: Any) -> Path:
    """Return a path, or raise an error."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be a string or a path, got {shown(path)}. Pass the name of a "
            'file, such as "calibrator.json".'
        )
    if "\0" in str(path):
        raise ValueError(
            f"path must not contain null characters, got {shown(path)}. Pass the name "
            'of a file, such as "calibrator.json".'
        )
    return Path(path)


def _read_file(path: Path) -> tuple[str, dict[str, Array]]:
    """Return the document and the tensors of a file."""
    with path.open("rb") as file:
        start = file.read(8)
    # safetensors begins with the length of its header, whose last bytes are zero.
    if b"\0" not in start:
        return path.read_text(encoding="utf-8"), {}
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in [*file.keys()]}
    except Exception as error:
        raise ValueError(f"it is not a safetensors file of numbers: {error}") from error
    if DOCUMENT not in metadata:
        raise ValueError(
            f"it has no metadata {DOCUMENT!r}, so it was not written by "
            "sklearn_calib.save. Files of save_params are read by load_params."
        )
    return metadata[DOCUMENT], tensors


def _parse(text: str) -> Any:
    """Return the values of JSON without NaN, infinity and repeated keys."""
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_unique
        )
    except RecursionError:
        raise ValueError("the JSON is nested too deeply.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the JSON contains {name}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key occurs twice among {shown(sorted(found))}.")
    return found
