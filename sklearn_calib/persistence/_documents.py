"""Documents: models as dicts that JSON can store."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from sklearn_calib._state.json_values import (
    check_object,
    read_value,
    refuse,
    write_value,
)
from sklearn_calib._state.schema import Fields, Source
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib._validation.types import Array
from sklearn_calib._version import __version__
from sklearn_calib.calibrators import (
    Calibrator,
    get_calibrator,
    get_calibrator_names,
)

FORMAT = "sklearn_calib"
VERSION = 1

# The package of each class that a document may name.
CLASSES = {
    **{
        get_calibrator(name).__name__: "sklearn_calib.calibrators"
        for name in get_calibrator_names()
    },
    "CalibratedClassifier": "sklearn_calib.estimators",
    "CalibrationAccumulator": "sklearn_calib.metrics",
    "CalibrationMonitor": "sklearn_calib.deployment",
    "MulticalibrationBoosting": "sklearn_calib.calibrators",
    "NeuralClassifier": "sklearn_calib.estimators",
    "PerGroupCalibrator": "sklearn_calib.calibrators",
    "PerLabelCalibrator": "sklearn_calib.calibrators",
    "PriorShiftClassifier": "sklearn_calib.deployment",
    "TemperatureAccumulator": "sklearn_calib.calibrators",
}


def to_dict(model: Any) -> dict[str, Any]:
    """Return a fitted model as a dict of JSON values.

    Parameters
    ----------
    model : calibrator, NeuralClassifier, CalibratedClassifier, PriorShiftClassifier, \
            CalibrationAccumulator, TemperatureAccumulator or CalibrationMonitor

    Returns
    -------
    document : dict
        Strings, numbers, lists and dicts. NaN and infinity do not occur.

    Raises
    ------
    TypeError
        If the model, or a part of it, is of a class that cannot be saved.

    ValueError
        If the model is not fitted, or contains values that cannot be saved.

    See Also
    --------
    save : Write a model to a file. For networks, the files are smaller.

    Examples
    --------
    >>> import json
    >>> from sklearn_calib import TemperatureScaling
    >>> from sklearn_calib.persistence import from_dict, to_dict
    >>> calibrator = TemperatureScaling(from_logits=True)
    >>> _ = calibrator.fit([[0, 2], [1, 0], [0, 1], [0, 1]] * 10, [1, 0, 1, 0] * 10)
    >>> text = json.dumps(to_dict(calibrator), allow_nan=False)
    >>> from_dict(json.loads(text)).temperature_ == calibrator.temperature_
    True
    """
    return write_document(model, None)


def from_dict(
    document: dict[str, Any],
    *,
    module: Any = None,
    loss: Any = None,
    classes: Iterable[type] = (),
) -> Any:
    """Restore a fitted model from a dict of `to_dict`.

    Parameters
    ----------
    document : dict
        A dict of JSON values that `to_dict` returned.

    module : torch.nn.Module class or instance, default=None
        The network of a `NeuralClassifier`, see :func:`load`.

    loss : torch.nn.Module class or instance, default=None
        The loss of a `NeuralClassifier`, see :func:`load`.

    classes : sequence of classes, default=()
        Calibrators of your own, see :func:`load`.

    Returns
    -------
    model : object
        The fitted model.

    Raises
    ------
    ValueError
        If anything in the document is missing, unknown or invalid. The message names
        its key.

    Examples
    --------
    See :func:`to_dict`.
    """
    passed = {"module": module, "loss": loss}
    return read_document(document, {}, passed, own_classes(classes))


def own_classes(classes: Any) -> dict[str, type]:
    """Return the classes of a user by name; raise TypeError if one is not valid."""
    found: dict[str, type] = {}
    for each in classes if isinstance(classes, Iterable) else [classes]:
        is_calibrator = isinstance(each, type) and issubclass(each, Calibrator)
        if not is_calibrator or each.__name__ in {**CLASSES, **found}:
            raise TypeError(
                "classes must contain subclasses of Calibrator with names of their "
                f"own, got {shown(each)}. Pass classes=[MyCalibrator], for example."
            )
        found[each.__name__] = each
    return found


def write_document(model: Any, tensors: dict[str, Array] | None) -> dict[str, Any]:
    """Return a document, with the arrays of networks in `tensors` unless it is None."""
    own: dict[str, type] = {}
    _check_class(model, "model", own)
    model._check_can_be_saved()
    document = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": __version__,
        "object": _write_object(model, "object", tensors, own, is_fitted=True),
    }
    # What cannot be read is not written.
    read_document(document, {**(tensors or {})}, model._get_passed_params(), own)
    return document


def _write_object(
    model: Any,
    key: str,
    tensors: dict[str, Array] | None,
    own: dict[str, type],
    *,
    is_fitted: bool,
) -> dict[str, Any]:
    """Return an object as JSON values, after adding the classes of a user to `own`."""
    _check_class(model, key, own)

    def write(name: str, values: dict[str, Any], is_fitted: bool) -> dict[str, Any]:
        def write_nested(value: Any, key: str) -> Any:
            return _write_object(value, key, tensors, own, is_fitted=is_fitted)

        return {
            attribute: write_value(
                value, f"{key}.{name}.{attribute}", write_nested, tensors
            )
            for attribute, value in values.items()
        }

    return {
        "class": type(model).__name__,
        "params": write("params", model._get_saved_params(), False),
        "state": write("state", model._get_state(), True) if is_fitted else None,
    }


def _check_class(model: Any, key: str, own: dict[str, type]) -> None:
    """Raise TypeError for an object of a class that cannot be saved."""
    kind, name = type(model), type(model).__name__
    is_own = name not in CLASSES and isinstance(model, Calibrator)
    if is_own and not kind.__module__.startswith("sklearn_calib."):
        _check_fitted(model)
        known: type | None = own.setdefault(name, kind)
    else:
        known = _find_class(name, own) if name in CLASSES else None
    if kind is not known:
        raise TypeError(
            f"{key} must be of a class that can be saved, got {shown(model)}. Use "
            f"skops or joblib instead of save, which takes {sorted(CLASSES)}."
        )


def _check_fitted(model: Any) -> None:
    """Raise TypeError if a calibrator of a user has attributes that are not saved."""
    names = {name for name in vars(model) if name.endswith("_")}
    if unknown := sorted(names - model._state_schema.keys()):
        raise TypeError(
            f"{type(model).__name__}._fitted must describe all fitted attributes to be "
            f'saved, got none for {shown(unknown)}. Add "{unknown[0]}": float for a '
            f'number, or "{unknown[0]}": ("n_classes",) for an array of this shape.'
        )


def _find_class(name: str, own: dict[str, type]) -> Any:
    return own.get(name) or getattr(import_module(CLASSES[name]), name)


def read_document(
    document: Any,
    tensors: dict[str, Array],
    passed: dict[str, Any],
    own: dict[str, type],
) -> Any:
    """Return the model of a document.

    `passed` contains the parameters that were passed to `load`, and `own` the classes
    of a user by name. All tensors must be used.
    """
    try:
        _check_header(document)
        model = _read_object(
            document["object"],
            "object",
            is_fitted=True,
            tensors=tensors,
            passed=passed,
            own=own,
        )
    except RecursionError:
        raise ValueError("object must not be nested so deeply.") from None
    if tensors:
        refuse("tensors", "used in the document", sorted(tensors))
    return model


def _check_header(document: Any) -> None:
    """Raise ValueError for a document of another format or of a later version."""
    check_object(document, "document", {"format", "version", "written_by", "object"})
    if document["format"] != FORMAT:
        refuse("format", repr(FORMAT), document["format"])
    version = document["version"]
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(
            f"version must be at most {VERSION} for this version of sklearn_calib, got "
            f"{shown(version)}. The file was written by version "
            f"{shown(document['written_by'])}."
        )
    if not isinstance(document["written_by"], str):
        refuse("written_by", "a string", document["written_by"])


def _read_object(
    value: Any,
    key: str,
    *,
    is_fitted: bool,
    tensors: dict[str, Array],
    passed: dict[str, Any],
    own: dict[str, type],
) -> Any:
    check_object(value, key, {"class", "params", "state"})
    name, params = value["class"], value["params"]
    known = {**CLASSES, **own}
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"{key}.class must be one of {sorted(known)}, got {shown(name)}."
            f"{did_you_mean(name, known)} Pass a class of your own to load, such as "
            "classes=[MyCalibrator]."
        )
    if not isinstance(params, dict):
        refuse(f"{key}.params", "an object", params)

    def read_nested(value: Any, key: str, *, is_fitted: bool) -> Any:
        return _read_object(
            value, key, is_fitted=is_fitted, tensors=tensors, passed=passed, own=own
        )

    model = _find_class(name, own)._from_saved_params(
        {
            param: read_value(each, f"{key}.params.{param}", read_nested, tensors)
            for param, each in params.items()
        },
        f"{key}.params",
        passed,
    )
    if is_fitted:
        source = Source(read_nested, tensors, {**vars(model)})
        fields = Fields(**model._state_schema)  # read in the order of the schema
        state = fields.read(value["state"], f"{key}.state", source)
        try:
            model._set_state(state)
        except ValueError as error:
            raise ValueError(f"{key}.state is invalid: {error}") from error
    elif value["state"] is not None:
        refuse(f"{key}.state", "null", value["state"])
    return model
