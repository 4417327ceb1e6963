"""Record confidence and accuracy in bins during the training of a network."""

from typing import Any, NamedTuple

import numpy as np
import torch
from skorch import NeuralNet
from skorch.callbacks import Callback
from skorch.utils import to_numpy
from torch.utils.data import Dataset

from sklearn_calib._numerics.binning import bin_index, bin_sums, occupied_bins
from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._torch.processes import concatenate_logits, predict_batch
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import is_count
from sklearn_calib._validation.samples import top_label
from sklearn_calib._validation.types import Array
from sklearn_calib.callbacks._history_rows import record


class RecordBins(Callback):
    """Record confidence and accuracy in bins of training and validation data.

    After each epoch, the samples of the validation set are grouped by confidence into
    bins of equal numbers of samples, as far as ties allow. For each epoch, lists with
    one number for each bin, in order of increasing confidence, are added to the
    history:

    - `bin_edges`: edges of the bins, from 0 to 1, one more than there are bins;
    - `bin_confidence` and `bin_accuracy`: mean confidence and accuracy on validation
      data, and `calibration_gap`: their difference;
    - `bin_weight`: number of validation samples, or sum of their weights;
    - `train_confidence_true` and `train_confidence_top`: mean probabilities of the
      true and of the predicted class on training data;
    - `train_bin_edges`: edges of the bins of training data, for independent binning.

    skorch's loggers, such as `MlflowLogger`, ignore these lists.

    The callback works with any loss. If the loss itself records bins of the validation
    set, such as the single bin of AdaFocal by default, these bins are used.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, unless the loss records bins. Because of ties, an epoch may have
        fewer, as empty bins are removed.

    binning : {"common", "independent"}, default="common"
        Whether to group the training data by the bins of the validation set, or by
        separate bins. Common bins without training data have the value NaN.

    See Also
    --------
    sklearn_calib.displays.ConfidenceDynamicsDisplay : Plots these values.
    sklearn_calib.displays.GammaDynamicsDisplay : Plots the calibration gap.
    sklearn_calib.displays.ReliabilityDisplay.from_history : Plots some of the epochs.

    Notes
    -----
    The validation predictions come from skorch's validation step. The training data
    require an additional forward pass after each epoch, without dropout.

    Training data are grouped by the probability of the true class, as AdaFocal does to
    look up the gamma of a sample. `train_confidence_top` is a mean over the same
    samples; it is larger if some of them are misclassified.

    AdaFocal relies on the observation that the training and the validation confidence
    of a bin change together ([1]_, section 4 and appendix C). For narrow common bins,
    this is inevitable, as both are between the same edges. Independent bins do not have
    this restriction.

    Nothing is recorded while `NeuralClassifier` refits on all data.

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

    # NeuralClassifier holds out a validation set for callbacks with this attribute.
    monitor = "valid_loss"

    def __init__(self, n_bins: int = 15, binning: str = "common") -> None:
        self.n_bins = n_bins
        self.binning = binning

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Validate the parameters."""
        _check_params(self.n_bins, self.binning)

    def on_epoch_begin(
        self, net: NeuralNet, dataset_valid: Dataset[Any] | None = None, **kwargs: Any
    ) -> None:
        """Clear the collected predictions, and check that there is a validation set."""
        self.valid_: list[Predictions] = []
        trains_on_all = hasattr(net, "validation_history_")
        if dataset_valid is None and not trains_on_all:
            raise ValueError(
                "RecordBins must have validation data, got none. Set "
                "validation_fraction or train_split for fit, or pass validation to "
                "partial_fit."
            )

    def on_batch_end(
        self,
        *args: Any,
        batch: Any = None,
        training: bool = False,
        y_pred: Any = None,
        **kwargs: Any,
    ) -> None:
        """Collect the predictions of a batch of the validation set."""
        if not training:
            self.valid_.append(_predictions(y_pred, batch))

    def on_epoch_end(
        self, net: NeuralNet, dataset_train: Dataset[Any] | None = None, **kwargs: Any
    ) -> None:
        """Record the bins, or use the bins that the loss has recorded."""
        if not self.valid_:
            return
        n_bins = self.n_bins
        if "bin_edges" in net.history[-1]:
            n_bins = len(net.history[-1, "bin_edges"]) - 1
        else:
            record(net, _validation_bins(_concatenate(self.valid_), n_bins))
        self.valid_ = []
        train = _predict(net, dataset_train)
        if self.binning == "independent":
            bins = _equal_mass(train.p_true, train.correct, n_bins, train.weight)
            record(net, {"train_bin_edges": bins.edges})
            edges = bins.edges
        else:
            edges = net.history[-1, "bin_edges"]
        record(net, _train_means(train, edges))


class Predictions(NamedTuple):
    """Confidence, true-class probability and correctness of samples, and weights."""

    confidence: Array
    p_true: Array
    correct: Array
    weight: Array | None


def _predictions(logits: Any, batch: Any) -> Predictions:
    """Return the `Predictions` for one batch."""
    proba = softmax(concatenate_logits([logits]))
    codes = to_numpy(batch[1])
    confidence, predicted = top_label(proba)
    p_true = proba[np.arange(len(codes)), codes]
    weight = getattr(batch, "sample_weight", None)
    return Predictions(
        # As in losses with bins, values that are equal in float32 are in the same bin.
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
    """Return the `Predictions` for a dataset without side effects."""
    # A DataLoader advances torch's random state even without shuffling.
    with torch.random.fork_rng(devices=()):
        batches = net.get_iterator(dataset, training=False)
        return _concatenate([_predictions(predict_batch(net, b), b) for b in batches])


def _validation_bins(valid: Predictions, n_bins: int) -> dict[str, Any]:
    """Return bins of equal weight and the means in each bin."""
    sums = _equal_mass(valid.confidence, valid.correct, n_bins, valid.weight)
    confidence, accuracy = sums.confidence / sums.weight, sums.correct / sums.weight
    return {
        "bin_edges": sums.edges,
        "bin_confidence": confidence,
        "bin_accuracy": accuracy,
        "calibration_gap": confidence - accuracy,
        "bin_weight": sums.weight,
    }


def _equal_mass(values: Any, correct: Any, n_bins: int, weight: Any) -> Any:
    """Return the sums in bins of equal weight, without empty bins."""
    return occupied_bins(
        bin_sums(
            values, correct, n_bins=n_bins, strategy="quantile", sample_weight=weight
        )
    )


def _train_means(train: Predictions, edges: Any) -> dict[str, Any]:
    """Return the means of training data in bins of the true-class probability."""
    index, n_bins = bin_index(train.p_true, edges[1:-1]), len(edges) - 1
    values = {"true": train.p_true, "top": train.confidence}
    return {
        f"train_confidence_{name}": _means(of_samples, index, train.weight, n_bins)
        for name, of_samples in values.items()
    }


def _means(values: Any, index: Any, weight: Any, n_bins: int) -> Array:
    """Return the mean of the values in each bin; NaN in empty bins."""
    weight = np.ones(len(values)) if weight is None else weight
    total = np.bincount(index, weight, n_bins)
    summed = np.bincount(index, weight * values, n_bins)
    return np.divide(summed, total, out=np.full(n_bins, np.nan), where=total > 0)


def _check_params(n_bins: Any, binning: Any) -> None:
    """Raise ValueError unless the parameters of `RecordBins` are valid."""
    if not is_count(n_bins):
        raise ValueError(
            f"n_bins must be a positive integer, got {shown(n_bins)}. The default is "
            "15."
        )
    if not (isinstance(binning, str) and binning in ("common", "independent")):
        raise ValueError(
            f"binning must be 'common' or 'independent', got {shown(binning)}. The "
            "default is 'common'."
        )
