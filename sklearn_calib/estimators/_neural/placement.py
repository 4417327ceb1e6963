"""Network that several processes train together."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from skorch.dataset import get_len, unpack_data
from skorch.utils import to_device, to_tensor
from torch.utils.data import DataLoader

from sklearn_calib._torch.outputs import predict_batch
from sklearn_calib._torch.processes import (
    check_same_batch,
    gather_rows,
    group_of,
    is_one_of_many,
    own_part,
    share_buffers,
    unwrapped,
)
from sklearn_calib.estimators._neural.devices import NetOnDevice
from sklearn_calib.estimators._neural.seeds import epoch_seed, seeded_torch


class WholeBatches:
    """Mini-batches of a `DataLoader`, which accelerate does not divide."""

    def __init__(self, batches: DataLoader[Any]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)


def whole_batches(batches: Iterable[Any]) -> Iterable[Any]:
    """Return mini-batches that all processes get, although accelerate divides them."""
    if isinstance(batches, DataLoader) and is_one_of_many():
        return WholeBatches(batches)
    return batches


class SharedNet(NetOnDevice):
    """skorch's classifier whose mini-batches are divided among processes.

    The processes that train a network wrapped by `DistributedDataParallel` have the
    same mini-batches. Each computes the outputs of its rows, and gets those of all. So
    the loss, its records, callbacks and scores are those of a single process.
    """

    def forward_iter(
        self, X: Any, training: bool = False, device: Any = "cpu"
    ) -> Iterator[Any]:
        """Yield the outputs of the network for the mini-batches of X."""
        for batch in self.get_iterator(self.get_dataset(X), training=training):
            yield to_device(predict_batch(self, batch, training), device=device)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the output for a mini-batch, computed by all processes in parts."""
        group = group_of(self.module_)
        if group is None and self.device is not None:  # skorch converts x
            return super().infer(x, **fit_params)
        x = to_tensor(x, device=self._placement)
        # Batch normalisation cannot train on a part with one row.
        if group is None or (n_rows := get_len(x)) < 2 * group.size():
            return super().infer(x, **fit_params)
        # Dropout differs between the parts, and afterwards all processes have the same
        # random numbers again, for example for batch_transform.
        seed = epoch_seed(int(torch.randint(2**31 - 1, ())), group.rank())
        with seeded_torch(seed, self._placement):
            output = super().infer(own_part(x, group), **fit_params)
        return gather_rows(output, n_rows, group)

    def _end_training(self, X: Any, y: Any) -> None:
        """Notify the callbacks and the net that the training has ended.

        Unlike in skorch, the net is last, since mixins unwrap its module then, and
        early stopping restores the weights of the wrapped module.
        """
        share_buffers(self.module_)
        for _, callback in self.callbacks_:
            callback.on_train_end(self, X=X, y=y)
        self.on_train_end(self, X=X, y=y)

    @contextmanager
    def _unwrapped(self) -> Iterator[None]:
        """Give the parameters the names that they have in a single process."""
        module = vars(self).get("module_")
        if group_of(module) is None:
            yield
            return
        self.module_ = unwrapped(module)
        try:
            yield
        finally:
            self.module_ = module

    def _check_same(self, batch: Any) -> None:
        """Raise ValueError unless all processes have the same mini-batch."""
        group = group_of(self.module_)
        if group is not None:
            weight = getattr(batch, "sample_weight", None)
            check_same_batch(unpack_data(batch)[1], weight, self._placement, group)
