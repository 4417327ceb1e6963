"""Parameter files: written atomically, and read with errors that name the file."""

import json
import os
import zlib
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, ClassVar

from skorch.callbacks import Checkpoint
from skorch.exceptions import NotInitializedError
from skorch.history import History

from sklearn_calib._state.whole_file import whole_file
from sklearn_calib._torch.net_state import first_line
from sklearn_calib._torch.processes import group_of, is_first, wait
from sklearn_calib.estimators._neural.state import NetWithState

File = str | os.PathLike[str] | IO[Any]

# torch also raises an OSError for a truncated file, so these are listed.
_NOT_OF_CONTENT = (
    FileNotFoundError,
    IsADirectoryError,
    PermissionError,
    NotInitializedError,
)


# Key of the last epoch in the file of a history: names and checksums of the other
# files at that time. A process may be killed between the files of a checkpoint.
_BESIDE = "files"


class NetWithFiles(NetWithState):
    """skorch's classifier with parameter files that are written atomically."""

    # Name and checksum of the file that was written last, for each parameter.
    _written: ClassVar[dict[str, list[Any]]] = {}

    def save_params(
        self,
        f_params: File | None = None,
        f_optimizer: File | None = None,
        f_criterion: File | None = None,
        f_history: File | None = None,
        use_safetensors: bool = False,
        **kwargs: File | None,
    ) -> None:
        """Save the weights, the optimizer's state, the loss's state or the history.

        Each file is written under a unique temporary name, which ends in ``.part``, and
        renamed, so it is complete even if the process is killed. The files contain
        neither the sizes of the network nor the labels. To predict in another program,
        use :func:`sklearn_calib.save`.

        Parameters
        ----------
        f_params, f_optimizer, f_criterion, f_history : str, path or file, default=None
            Files to write; None writes nothing.

        use_safetensors : bool, default=False
            Write the safetensors format, which contains tensors only.

        **kwargs : dict
            ``f_<name>`` for other modules of the net.

        Raises
        ------
        ImportError
            If `use_safetensors` is True and safetensors is not installed.
        """
        _check_safetensors(use_safetensors)
        files = _given(
            "save_params", f_params, f_optimizer, f_criterion, f_history, kwargs
        )
        group = group_of(getattr(self, "module_", None))
        if is_first(group):
            self._save_files(files, use_safetensors)
        wait(group)

    def _save_files(self, files, use_safetensors):
        with self._unwrapped(), ExitStack() as stack:
            parts = {
                name: Path(stack.enter_context(whole_file(file)))
                for name, file in files.items()
                if isinstance(file, str | os.PathLike)
            }
            paths = {name: str(part) for name, part in parts.items()}
            super().save_params(**{**files, **paths}, use_safetensors=use_safetensors)
            history = parts.pop("f_history", None)
            written = {n: _name_and_sum(files[n], part) for n, part in parts.items()}
            if "f_module" in written:  # skorch's checkpoints load it as f_params
                written["f_params"] = written.pop("f_module")
            self._written = {**self._written, **written}
            if history is not None:
                _add_to_history(history, self._written)

    def load_params(
        self,
        f_params: File | None = None,
        f_optimizer: File | None = None,
        f_criterion: File | None = None,
        f_history: File | None = None,
        checkpoint: Checkpoint | None = None,
        use_safetensors: bool = False,
        **kwargs: File | None,
    ) -> None:
        """Load the weights, the optimizer's state, the loss's state or the history.

        Parameters
        ----------
        f_params, f_optimizer, f_criterion, f_history : str, path or file, default=None
            Files written by `save_params`; None leaves this part unchanged.

        checkpoint : skorch.callbacks.Checkpoint, default=None
            Load the files of this checkpoint, except those given as other arguments.

        use_safetensors : bool, default=False
            Read the safetensors format.

        **kwargs : dict
            ``f_<name>`` for other modules of the net.

        Raises
        ------
        ImportError
            If `use_safetensors` is True and safetensors is not installed.

        ValueError
            If a file is damaged, has another format, or belongs to another network, or
            a file of the checkpoint was saved in another epoch than its history; the
            message names the file.
        """
        _check_safetensors(use_safetensors)
        files = _given(
            "load_params", f_params, f_optimizer, f_criterion, f_history, kwargs
        )
        if checkpoint is not None:
            files = {**self._files_of(checkpoint), **files}
        for name, file in files.items():
            self._load_file(name, file, use_safetensors)

    def _files_of(self, checkpoint):
        """Return the files of a skorch checkpoint; names may depend on the history."""
        if not self.initialized_:
            self.initialize()
        if checkpoint.f_history is not None:
            self._load_file("f_history", checkpoint.f_history_, False)
        files = {
            name: file
            for name, file in checkpoint.get_formatted_files(self).items()
            if file is not None and name not in ("f_history", "f_pickle")
        }
        if checkpoint.f_history is not None:
            self._check_same_epoch(files, checkpoint.f_history_)
        return files

    def _check_same_epoch(self, files, f_history):
        """Raise ValueError for a file that was replaced after the history was saved."""
        for name, file in files.items():
            path, written = Path(file), self._written.get(name, [None])
            is_known = path.name == written[0] and path.exists()
            if is_known and _name_and_sum(path, path) != written:
                raise ValueError(
                    f"{name} must be from the same epoch as f_history, "
                    f"{str(f_history)!r}, got {str(file)!r}, which is from another "
                    "epoch or damaged: a process was probably killed while it saved "
                    "them. Remove these files to train from the start. "
                    "sklearn_calib.callbacks.Checkpoint has one file, which is always "
                    "complete."
                )

    def _load_file(self, name, file, use_safetensors):
        """Load one file; the error names a file that cannot be loaded."""
        try:
            with self._unwrapped():
                super().load_params(**{name: file}, use_safetensors=use_safetensors)
            if name == "f_history":
                _check_history(self.history)
                last = self.history[-1] if len(self.history) else {}
                self._written = last.pop(_BESIDE, {})
        except _NOT_OF_CONTENT:
            raise
        except Exception as error:
            part = {"f_params": "module_", "f_history": "history"}.get(
                name, f"{name[2:]}_"
            )
            if not hasattr(self, part):
                raise
            raise ValueError(
                f"{name} must be a file that save_params wrote for a net with these "
                f"parameters, got {str(getattr(file, 'name', file))!r}, which cannot "
                f"be loaded: {type(error).__name__}: {first_line(error)}. It may be "
                "damaged, have another format (see use_safetensors) or belong to "
                "another network."
            ) from error


def _given(method, f_params, f_optimizer, f_criterion, f_history, others):
    """Return the files that are not None, by parameter name."""
    if f_params is not None and others.get("f_module") is not None:
        raise TypeError(
            f"{method} called with both f_params and f_module, please choose one: they "
            "are two names of the file with the weights of the network."
        )
    files = {
        "f_history": f_history,
        "f_params": f_params,
        "f_criterion": f_criterion,
        "f_optimizer": f_optimizer,
        **others,
    }
    return {name: file for name, file in files.items() if file is not None}


def _check_safetensors(is_wanted):
    """Raise ImportError if safetensors is needed and not installed."""
    if is_wanted and find_spec("safetensors") is None:
        raise ImportError(
            "use_safetensors must be False unless safetensors is installed, got True. "
            "Run `pip install safetensors`, or set use_safetensors=False."
        )


def _check_history(history):
    """Raise ValueError for JSON that is not a history."""
    if not isinstance(history, History) or not all(
        isinstance(r, dict) for r in history
    ):
        raise ValueError("it is not a history")


def _name_and_sum(file, content):
    """Return the name of a file, and the checksum of its content."""
    return [Path(file).name, zlib.crc32(content.read_bytes())]


def _add_to_history(file, written):
    """Add the names and checksums of the other files to the file of a history."""
    epochs = json.loads(file.read_text())
    if epochs:
        epochs[-1][_BESIDE] = written
        file.write_text(json.dumps(epochs))
