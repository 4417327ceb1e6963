"""Estimators stay as they were if their fit fails."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from sklearn_calib._core.typing import Function


def restores(*, unless: str | None = None) -> Callable[[Function], Function]:
    """Decorate a method to put its object's attributes back if it raises.

    Attributes are put back as the objects that they were: what a method changes in
    place stays changed.

    Parameters
    ----------
    unless : str, default=None
        An attribute. If the method has set it to True, the object stays as the
        exception found it.
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
