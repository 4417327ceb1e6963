"""Restore the attributes of an estimator if `fit` raises an error."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from sklearn_calib._validation.types import Function


def restores(*, unless: str | None = None) -> Callable[[Function], Function]:
    """Decorate a method such that it restores the object's attributes if it raises.

    The attributes refer to the same objects as before; changes in place are not undone.

    Parameters
    ----------
    unless : str, default=None
        Name of an attribute. If it is True when the error is raised, nothing is
        restored.
    """

    def decorate(method: Function) -> Function:
        @wraps(method)
        def restoring(self: Any, *args: Any, **kwargs: Any) -> Any:
            before = vars(self).copy()
            try:
                return method(self, *args, **kwargs)
            except BaseException:
                state = vars(self)
                if unless is None or not state.get(unless, False):
                    state.clear()
                    state.update(before)
                raise

        return cast(Function, restoring)

    return decorate
