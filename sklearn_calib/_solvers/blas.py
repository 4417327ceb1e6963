"""The number of threads that BLAS uses."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread.

    For many products of small matrices, threads that wait for each other take up to
    twenty times as long.
    """
    libraries = _libraries()
    if all(each.num_threads == 1 for each in libraries.lib_controllers):
        return nullcontext()
    return libraries.limit(limits=1)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
