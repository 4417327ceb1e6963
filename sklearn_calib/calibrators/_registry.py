"""The calibrators by name: adding one is a row here."""

from sklearn_calib._core.validation import did_you_mean
from sklearn_calib.calibrators._focal_temperature import (
    FocalPosterior,
    FocalTemperatureScaling,
)
from sklearn_calib.calibrators._temperature import TemperatureScaling

_CALIBRATORS = {
    "focal_posterior": FocalPosterior,
    "focal_temperature": FocalTemperatureScaling,
    "temperature": TemperatureScaling,
}


def get_calibrator(name):
    """Return the class of the calibrator that is registered under a name.

    Parameters
    ----------
    name : str
        One of :func:`get_calibrator_names`.

    Returns
    -------
    calibrator : type
        A subclass of :class:`Calibrator`.

    Raises
    ------
    ValueError
        If no calibrator has this name; the message suggests the closest.

    Examples
    --------
    >>> from sklearn_calib.calibrators import get_calibrator
    >>> get_calibrator("temperature")()
    TemperatureScaling()
    """
    if isinstance(name, str) and name in _CALIBRATORS:
        return _CALIBRATORS[name]
    raise ValueError(
        f"the name of a calibrator must be one of {get_calibrator_names()}, got "
        f"{name!r}.{did_you_mean(name, _CALIBRATORS)}"
    )


def get_calibrator_names():
    """Return the names of all calibrators.

    Returns
    -------
    names : list of str
        Sorted.

    Examples
    --------
    >>> from sklearn_calib.calibrators import get_calibrator_names
    >>> "temperature" in get_calibrator_names()
    True
    """
    return sorted(_CALIBRATORS)
