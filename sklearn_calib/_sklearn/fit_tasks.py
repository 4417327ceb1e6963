"""Tasks of `fit`, which scikit-learn's callbacks follow (since scikit-learn 1.9)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, cast

from sklearn.frozen import FrozenEstimator

from sklearn_calib._validation.types import Function

try:
    from sklearn.callback import (
        CallbackSupportMixin as CallbackSupportMixin,  # of the package's classes
        with_callbacks as _with_callbacks,
    )
except ImportError:

    class _NoTask:
        """A task that no callback follows."""

        def subcontext(self, **_: Any) -> Any:
            return self

        def call_on_fit_task_begin(self, **_: Any) -> Any:
            return self

        def call_on_fit_task_end(self, **_: Any) -> bool:
            return False

        def propagate_callback_context(self, _: Any) -> Any:
            return nullcontext()

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Mixin without the method `set_callbacks`."""

        def _init_callback_context(self, **_: Any) -> Any:
            return _NoTask()

    def _with_callbacks(method: Any) -> Any:
        return method


def with_callbacks(method: Function) -> Function:
    """Decorate `fit` such that callbacks are closed when it ends."""
    return cast(Function, _with_callbacks(method))


def fit_data(X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Return the training data as arguments of the calls of callbacks."""
    weights = None if sample_weight is None else {"sample_weight": sample_weight}
    return {"X": X, "y": y, "metadata": weights}


def begin_folds(
    estimator: Any, n_folds: int, X: Any, y: Any, sample_weight: Any
) -> tuple[Callable[[], bool], list[Any]]:
    """Begin the task of `fit`; return what ends it, and the tasks for `run_fold`."""
    data = {"estimator": estimator, **fit_data(X, y, sample_weight)}
    root = estimator._init_callback_context(
        max_subtasks=n_folds, sequential_subtasks=False
    )
    root.call_on_fit_task_begin(**data)
    # Without callbacks, the estimator need not be sent to other processes.
    caller = estimator if "_skl_callbacks" in vars(estimator) else None
    folds = [root.subcontext(task_name="fold", task_id=i) for i in range(n_folds)]
    end_fit = partial(root.call_on_fit_task_end, **data, reconstruction_attributes={})
    return end_fit, [(caller, fold) for fold in folds]


@contextmanager
def run_fold(task: Any, classifier: Any, **data: Any) -> Iterator[None]:
    """Run the task of a fold, or without a task, the code that fits a classifier."""
    if task is None:
        yield
        return
    caller, context = task
    is_frozen = isinstance(classifier, FrozenEstimator)  # several folds may share it
    propagates = context.propagate_callback_context
    with nullcontext() if is_frozen else propagates(classifier):
        context.call_on_fit_task_begin(estimator=caller, **data)
        yield
    context.call_on_fit_task_end(estimator=caller, **data)
