"""Save fitted models in files that cannot run code, and load them."""

from sklearn_calib.persistence._documents import from_dict, to_dict
from sklearn_calib.persistence._paths import load, save

__all__ = ["from_dict", "load", "save", "to_dict"]
