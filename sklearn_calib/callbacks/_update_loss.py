"""Callback that updates losses that learn from the validation set."""

import math
from collections.abc import Mapping
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.callbacks import Callback
from skorch.utils import to_numpy
from torch.utils.data import Dataset, IterableDataset

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._torch.processes import concatenate_logits, predict_batch
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import is_count
from sklearn_calib.callbacks._history_rows import record
from sklearn_calib.losses import CalibrationLoss


class UpdateLoss(Callback):
    """Update a loss that learns from the validation set, such as AdaFocal.

    It is a default callback of `NeuralClassifier`, with the name `update_loss`. If a
    :class:`~sklearn_calib.losses.CalibrationLoss` has `learns_from_validation = True`,
    its method `update` is called with the labels and predicted probabilities of the
    validation set. The returned values of the last update are recorded in the history
    of the epoch, and those of each update in the history of the batch before which it
    was made, or of the last batch: ``net.history[:, "batches", :, "gamma"]``. skorch's
    loggers, such as `MlflowLogger`, ignore those that are not numbers. For other
    losses, the callback does nothing.

    Parameters
    ----------
    update_every : "auto", "epoch", int or dict, default="auto"
        When to update the loss. "epoch" updates it after each epoch, with the
        predictions of skorch's validation step. An integer is a number of batches,
        counted over all epochs; each update makes new predictions. "auto" updates it
        after each epoch, and also between batches if the loss needs more updates than
        there are epochs, see Notes. A dict is a schedule that maps epochs, starting at
        1, to the period from this epoch on, such as ``{1: "epoch", 26: 100, 41: 1}``.

    See Also
    --------
    sklearn_calib.losses.AdaFocalLoss : Loss that learns from the validation set.

    Notes
    -----
    With more frequent updates, the loss adapts faster to the network; appendix I and
    figure 53 of [1]_ compare update frequencies. Each update between batches costs one
    pass over the validation set.

    Some losses, such as :class:`~sklearn_calib.losses.AdaFocalLoss`, accumulate their
    updates, and declare the number of updates that they need as `min_updates`. With
    "auto", the loss is updated ``min(min_updates, sqrt(2 * n_valid))`` times in
    `max_epochs` epochs, but at least once in each epoch, and the updates of an epoch
    are evenly spaced. The number of updates is limited by sqrt(2 * n_valid), as all of
    them use the same n_valid validation samples, so sampling errors accumulate. The
    updates between the batches of an epoch use at most as many samples as the training
    in the epoch, which limits their cost to about a third of the epoch.

    "auto" is the same as "epoch" if `max_epochs` is at least `min_updates`, and for
    losses that do not accumulate their updates, such as
    :class:`~sklearn_calib.losses.CalFocalLoss`, and if the training or validation set
    is an `IterableDataset`, whose number of samples is unknown. Early stopping and
    resumed training do not change the spacing, which depends on the parameter
    `max_epochs`.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022.

    Examples
    --------
    >>> from sklearn_calib import NeuralClassifier
    >>> net = NeuralClassifier(loss="adafocal", callbacks__update_loss__update_every=50)
    """

    def __init__(
        self, update_every: str | int | Mapping[int, str | int] = "auto"
    ) -> None:
        self.update_every = update_every

    def on_train_begin(self, net: NeuralNet, **kwargs: Any) -> None:
        """Check `update_every`, and that no other callback updates the loss."""
        _check_update_every(self.update_every)
        names = [n for n, other in net.callbacks_ if isinstance(other, UpdateLoss)]
        if len(names) > 1:
            raise ValueError(
                "callbacks must not contain a second UpdateLoss, as one is added by "
                f"default, got {names}. Set callbacks__update_loss__update_every "
                "instead."
            )

    def on_epoch_begin(
        self,
        net: NeuralNet,
        dataset_train: Dataset[Any] | None = None,
        dataset_valid: Dataset[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Determine whether and when to update the loss in this epoch."""
        learns = CalibrationLoss.of(net.criterion_).learns_from_validation
        self.dataset_valid_ = dataset_valid if learns else None
        self.period_ = _period(self.update_every, len(net.history))
        self.is_due_ = False
        self.outputs_: list[tuple[Any, Any]] = []
        if isinstance(self.period_, Integral):
            earlier = (row.get("train_batch_count", 0) for row in net.history[:-1])
            self.n_batches_ = sum(earlier)
        self.n_seen_ = 0
        self.spacing_: Fraction | float = math.inf
        sets = dataset_train, dataset_valid
        has_lengths = not any(isinstance(dataset, IterableDataset) for dataset in sets)
        if self.dataset_valid_ is not None and self.period_ == "auto" and has_lengths:
            self.spacing_ = _spacing(net, dataset_train, dataset_valid)

    def on_batch_begin(
        self, net: NeuralNet, training: bool = False, **kwargs: Any
    ) -> None:
        """Update before a training batch, if an update is due."""
        if training and self.is_due_:
            batches = net.get_iterator(self.dataset_valid_, training=False)
            outputs = [(predict_batch(net, batch), batch) for batch in batches]
            self._update(net, outputs)

    def on_batch_end(
        self,
        net: NeuralNet,
        batch: Any = None,
        training: bool = False,
        y_pred: Any = None,
        **kwargs: Any,
    ) -> None:
        """Count training batches, and collect the outputs of validation batches."""
        if self.dataset_valid_ is None:
            return
        if not training:
            self.outputs_.append((y_pred, batch))
        elif isinstance(self.period_, Integral):
            self.n_batches_ += 1
            self.is_due_ = self.n_batches_ % self.period_ == 0
        else:
            n_before = self.n_seen_
            self.n_seen_ += net.history[-1, "batches", -1, "train_batch_size"]
            self.is_due_ = self.n_seen_ // self.spacing_ > n_before // self.spacing_

    def on_epoch_end(self, net: NeuralNet, **kwargs: Any) -> None:
        """Update from the outputs of the validation step, if an update is due."""
        if self.outputs_ and (self.is_due_ or not isinstance(self.period_, Integral)):
            self._update(net, self.outputs_)
        self.outputs_ = []

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        """Remove the reference to the data, which would be pickled with the network."""
        self.dataset_valid_ = None

    def _update(self, net: NeuralNet, outputs: list[tuple[Any, Any]]) -> None:
        """Update the loss, and record what it returns for the epoch and the batch."""
        self.is_due_ = False
        logits = concatenate_logits(output for output, _ in outputs)
        # If the network has diverged, the loss is not updated; `fit` issues a warning.
        if not np.isfinite(logits.max(axis=1)).all():
            return
        y_true = np.concatenate([to_numpy(batch[1]) for _, batch in outputs])
        weights = [getattr(batch, "sample_weight", None) for _, batch in outputs]
        weighted = {}
        if weights[0] is not None:
            weighted["sample_weight"] = np.concatenate([to_numpy(w) for w in weights])
        loss = CalibrationLoss.of(net.criterion_)
        learned = loss.update(y_true, softmax(logits), **weighted) or {}
        record(net, learned)
        for name in learned:
            net.history.record_batch(name, net.history[-1, name])


def _period(update_every: Any, epoch: int) -> Any:
    """Return the period of an epoch; epochs start at 1."""
    if not isinstance(update_every, Mapping):
        return update_every
    started = [first for first in update_every if first <= epoch]
    return update_every[max(started)] if started else "epoch"


def _spacing(
    net: NeuralNet, dataset_train: Any, dataset_valid: Any
) -> Fraction | float:
    """Return the number of training samples between two updates with "auto"."""
    n_train, n_valid = len(dataset_train), len(dataset_valid)
    # All updates use the same samples, so sampling errors accumulate.
    wanted = min(CalibrationLoss.of(net.criterion_).min_updates, (2 * n_valid) ** 0.5)
    # The updates between batches use at most as many samples as the training.
    n_updates = min(math.ceil(wanted / net.max_epochs), 1 + n_train // n_valid)
    return Fraction(n_train, n_updates) if n_updates > 1 else math.inf


def _check_update_every(update_every: Any) -> None:
    """Raise ValueError unless `update_every` is a period or a schedule of periods."""
    schedule = update_every if isinstance(update_every, Mapping) else {1: update_every}
    are_fine = [
        is_count(first)
        and (
            # A period may be an array, which cannot be compared with a name.
            is_count(period)
            or (isinstance(period, str) and period in ("auto", "epoch"))
        )
        for first, period in schedule.items()
    ]
    if not (are_fine and all(are_fine)):
        raise ValueError(
            "update_every must be 'auto', 'epoch', a positive number of batches, or a "
            f"dict that maps epochs to these, got {shown(update_every)}. The default "
            "is 'auto'."
        )
