"""The number of threads that BLAS uses."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread.

    For many products of small matrices, threads that wait for each other take up to
    twenty times as long.
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
