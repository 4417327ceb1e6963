"""What happens in each bin of confidences while a network trains."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from skorch import NeuralNet
from skorch.callbacks import Callback
from skorch.utils import to_numpy
from torch.utils.data import Dataset

from sklearn_calib._core.binning import bin_index, bin_sums, occupied_bins
from sklearn_calib._core.confidence import top_label
from sklearn_calib._core.links import softmax
from sklearn_calib._core.typing import Array
from sklearn_calib._torch.outputs import concatenate_logits


class RecordBins(Callback):
    """Record the confidences of each bin, on training and on validation data.

    After each epoch the confidences on the validation share are cut into bins of equal
    numbers of samples, as far as ties allow. The history of the epoch gets lists with
    one number for each bin, from the lowest confidences on:

    - `bin_edges`, one more than there are bins, from 0 to 1;
    - `bin_confidence` and `bin_accuracy`, the means on validation data, and
      `calibration_gap`, the first minus the second;
    - `bin_weight`, the number of samples of validation data, or the sum of weights;
    - `train_confidence_true` and `train_confidence_top`, the mean probabilities of the
      true and of the predicted class on training data;
    - `train_bin_edges`, with independent binning, the edges for the training data.

    Any loss will do. Where one that learns has recorded bins of the validation share,
    these are the bins.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins. Ties can make it fewer in an epoch, for no bin is empty.

    binning : {"common", "independent"}, default="common"
        Group the training data by the bins of the validation share, or by bins of
        their own. A common bin that holds no training data gets nan.

    See Also
    --------
    sklearn_calib.displays.ConfidenceDynamicsDisplay : These numbers over the epochs.
    sklearn_calib.displays.ReliabilityDisplay.from_history : Diagrams of some epochs.

    Notes
    -----
    The validation share is read in skorch's own pass. The training data take one more
    pass after each epoch, forward only and without dropout.

    Training data are grouped by the probability of the true class, as by a loss that
    looks up the gamma of a sample; `train_confidence_top` is a mean over the same
    samples, and greater as long as some of them are wrong.

    Section 4 and appendix C of [1]_ find that the training confidence of a bin and the
    validation confidence go together, on which AdaFocal relies. In a narrow common bin
    they cannot but do so, for both are within its bounds; independent bins can differ.

    Nothing is recorded while `NeuralClassifier` trains once more on all of the data.

    References
    ----------
    .. [1] A. Ghosh, T. Schaaf and M. Gormley, "AdaFocal: Calibration-aware Adaptive
       Focal Loss", NeurIPS 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_calib import NeuralClassifier
    >>> from sklearn_calib.callbacks import RecordBins
    >>> X, y = load_digits(return_X_y=True)
    >>> net = NeuralClassifier(max_epochs=2, callbacks=[RecordBins(n_bins=5)])
    >>> len(net.fit(X, y).history_[-1, "train_confidence_true"])
    5
    """

    # NeuralClassifier holds out a share for a callback that monitors one.
    monitor = "valid_loss"

    def __init__(self, n_bins: int = 15, binning: str = "common") -> None:
        self.n_bins = n_bins
        self.binning = binning

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Check the parameters."""
        _check_params(self.n_bins, self.binning)

    def on_epoch_begin(
        self, net: NeuralNet, dataset_valid: Dataset[Any] | None = None, **kwargs: Any
    ) -> None:
        """Start with no predictions, if any are to come."""
        self.valid_: list[Predictions] = []
        trains_on_all = hasattr(net, "validation_history_")
        if dataset_valid is None and not trains_on_all:
            raise ValueError(
                "RecordBins must have validation data, got none. Call fit, not "
                "partial_fit, and let validation_fraction or train_split hold some out."
            )

    def on_batch_end(
        self,
        *args: Any,
        batch: Any = None,
        training: bool = False,
        y_pred: Any = None,
        **kwargs: Any,
    ) -> None:
        """Keep the predictions of a batch of the validation share."""
        if not training:
            self.valid_.append(_predictions(y_pred, batch))

    def on_epoch_end(
        self, net: NeuralNet, dataset_train: Dataset[Any] | None = None, **kwargs: Any
    ) -> None:
        """Record the bins, those of the loss if it has some."""
        if not self.valid_:
            return
        if "bin_edges" not in net.history[-1]:
            _record(net, _validation_bins(_concatenate(self.valid_), self.n_bins))
        self.valid_ = []
        train = _predict(net, dataset_train)
        if self.binning == "independent":
            bins = _equal_mass(train.p_true, train.hit, self.n_bins, train.weight)
            _record(net, {"train_bin_edges": bins.edges})
            edges = bins.edges
        else:
            edges = net.history[-1, "bin_edges"]
        _record(net, _train_means(train, edges))


class Predictions(NamedTuple):
    """What a network says of some samples, and what is known of them."""

    confidence: Array
    p_true: Array
    hit: Array
    weight: Array | None


def _predictions(logits: Any, batch: Any) -> Predictions:
    """Return the `Predictions` for one batch."""
    proba = softmax(concatenate_logits([logits]))
    codes = to_numpy(batch[1])
    confidence, predicted = top_label(proba)
    p_true = proba[np.arange(len(codes)), codes]
    weight = getattr(batch, "sample_weight", None)
    return Predictions(
        # As a loss that learns: what single precision cannot tell apart is one bin.
        confidence.astype(np.float32),
        p_true.astype(np.float32),
        predicted == codes,
        None if weight is None else to_numpy(weight),
    )


def _concatenate(batches: list[Predictions]) -> Predictions:
    """Return the `Predictions` for all batches."""
    columns = zip(*batches, strict=True)
    joined = [None if c[0] is None else np.concatenate(c) for c in columns]
    return Predictions._make(joined)


def _predict(net: NeuralNet, dataset: Any) -> Predictions:
    """Return the `Predictions` for a dataset, and leave no trace of it."""
    # A DataLoader draws from torch's generator even for samples in their order.
    with torch.random.fork_rng(devices=()):
        batches = net.get_iterator(dataset, training=False)
        return _concatenate([_predictions(net.evaluation_step(b), b) for b in batches])


def _validation_bins(valid: Predictions, n_bins: int) -> dict[str, Any]:
    """Return the bins of equal weight, and the means in them."""
    sums = _equal_mass(valid.confidence, valid.hit, n_bins, valid.weight)
    confidence, accuracy = sums.confidence / sums.weight, sums.hit / sums.weight
    return {
        "bin_edges": sums.edges,
        "bin_confidence": confidence,
        "bin_accuracy": accuracy,
        "calibration_gap": confidence - accuracy,
        "bin_weight": sums.weight,
    }


def _equal_mass(values: Any, hit: Any, n_bins: int, weight: Any) -> Any:
    """Return the sums in bins of equal weight, none of them empty."""
    return occupied_bins(
        bin_sums(values, hit, n_bins=n_bins, strategy="quantile", sample_weight=weight)
    )


def _train_means(train: Predictions, edges: Any) -> dict[str, Any]:
    """Return the means of training data in bins of the true class's probability."""
    index, n_bins = bin_index(train.p_true, edges[1:-1]), len(edges) - 1
    values = {"true": train.p_true, "top": train.confidence}
    return {
        f"train_confidence_{name}": _means(of_samples, index, train.weight, n_bins)
        for name, of_samples in values.items()
    }


def _means(values: Any, index: Any, weight: Any, n_bins: int) -> Array:
    """Return the mean of values in each bin, nan in an empty one."""
    weight = np.ones(len(values)) if weight is None else weight
    total = np.bincount(index, weight, n_bins)
    summed = np.bincount(index, weight * values, n_bins)
    return np.divide(summed, total, out=np.full(n_bins, np.nan), where=total > 0)


def _record(net: NeuralNet, arrays: dict[str, Any]) -> None:
    """Write arrays into the history of the epoch, as lists."""
    for name, values in arrays.items():
        net.history.record(name, values.tolist())


def _check_params(n_bins: Any, binning: Any) -> None:
    """Raise ValueError unless the parameters of `RecordBins` can be used."""
    is_count = isinstance(n_bins, Integral) and not isinstance(n_bins, bool)
    if not is_count or n_bins < 1:
        raise ValueError(
            f"n_bins must be an integer of at least 1, got {n_bins!r}. The default is "
            "15."
        )
    if not (isinstance(binning, str) and binning in ("common", "independent")):
        raise ValueError(
            f"binning must be 'common' or 'independent', got {binning!r}. The default "
            "is 'common'."
        )
