"""Warnings that are not issued inside of other fits and in resampling."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ARE_OFF = ContextVar("_ARE_OFF", default=False)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Return a context in which `warn` does nothing.

    A filter of `warnings` would hold for all threads, and would also hide the warnings
    of users' code.
    """
    token = _ARE_OFF.set(True)
    try:
        yield
    finally:
        _ARE_OFF.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning, unless this thread is inside of `without_warnings`."""
    if not _ARE_OFF.get():
        warnings.warn(message, category, stacklevel=2)
