"""Base class of a torch module that is built from a loss function."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

from torch import Tensor, nn

from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.losses._base.checks import REDUCTIONS, check_choice
from sklearn_calib.losses._base.docstring import complete_docstring
from sklearn_calib.losses._base.typing import Reduction

_Init = TypeVar("_Init", bound=Callable[..., None])


def _checks_keywords(init: _Init) -> _Init:
    """Make a constructor suggest the closest parameter for an unknown keyword."""
    parameters = inspect.signature(init).parameters.values()
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @wraps(init)
    def wrapper(self: Any, *args: Any, **params: Any) -> None:
        for name in () if is_open else params.keys() - names:
            raise TypeError(
                f"{type(self).__name__} got an unexpected keyword argument {name!r}."
                f"{did_you_mean(name, names)} Valid parameters are: {sorted(names)}."
            )
        init(self, *args, **params)

    return cast("_Init", wrapper)


class ReducedLoss(nn.Module):
    """Torch module with a reduction and scikit-learn's ``get_params``.

    A subclass names its function, as in ``class FocalLoss(CalibrationLoss,
    function=focal_loss)``. Its docstring is completed from that of the function, see
    :func:`complete_docstring`.
    """

    # For type checkers, which infer Any for a call of a torch module.
    __call__: Callable[..., Tensor]
    # The keywords of the function that are not arguments of `forward`.
    _keywords: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls, function: Callable[..., Tensor] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _checks_keywords(cls.__init__)  # type: ignore[method-assign]
        if function is not None:
            cls._take_from(function)

    @classmethod
    def _take_from(cls, function: Callable[..., Tensor]) -> None:
        """Take the call, the keywords and the docstring from a function."""
        cls._function = staticmethod(function)  # type: ignore[method-assign]
        taken = inspect.signature(cls.forward).parameters
        cls._keywords = tuple(
            p.name
            for p in inspect.signature(function).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name not in taken
        )
        if cls.__doc__ and function.__doc__:  # both are None under python -OO
            cls.__doc__ = complete_docstring(
                inspect.cleandoc(cls.__doc__),
                inspect.cleandoc(function.__doc__),
                inspect.signature(cls).parameters,
            )

    @_checks_keywords
    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)

    @staticmethod
    def _function(*args: Any, **params: Any) -> Tensor:
        raise NotImplementedError(
            "A loss must have a method forward or name its function, as in `class "
            "FocalLoss(CalibrationLoss, function=focal_loss)`."
        )

    def _arguments(self) -> dict[str, Any]:
        """Return the keyword arguments for the function."""
        return {name: getattr(self, name) for name in self._keywords}

    def get_params(
        self,
        deep: bool = True,  # noqa: ARG002 - the signature of scikit-learn
    ) -> dict[str, Any]:
        """Get the parameters of this loss.

        Parameters
        ----------
        deep : bool, default=True
            Ignored, because this loss does not contain another loss.

        Returns
        -------
        params : dict
            Parameter names mapped to their values, in the order of the constructor.
        """
        parameters = inspect.signature(type(self)).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        items = self.get_params(deep=False).items()
        parameters = ", ".join(f"{name}={value!r}" for name, value in items)
        return f"{type(self).__name__}({parameters})"
