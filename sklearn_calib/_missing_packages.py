"""Errors that name what needs a missing package, and how to install it."""

from collections.abc import Iterator
from contextlib import contextmanager

# Packages that only parts of sklearn_calib need, by what is installed together.
INSTALLED_TOGETHER = (
    ("torch", "skorch"),
    ("onnx", "onnxruntime", "onnxscript", "skl2onnx"),
    ("matplotlib",),
)


@contextmanager
def explain_missing(what: str) -> Iterator[None]:
    """Say in the error of an import that `what` needs the missing package.

    Other errors are not changed, such as that of a package which is broken.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        for packages in INSTALLED_TOGETHER:
            if error.name in packages:
                raise ModuleNotFoundError(
                    f"{what} needs {error.name}, which is not installed: "
                    f"pip install {' '.join(packages)}",
                    name=error.name,
                ) from error
        raise
