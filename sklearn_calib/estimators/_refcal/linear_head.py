"""Stage 2 of `RefCalClassifier`: a linear head trained on frozen embeddings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from skorch.dataset import unpack_data
from skorch.utils import to_tensor
from torch import Tensor
from torch.utils.data import Subset

from sklearn_calib.estimators._neural.batches import Batch, resolve_subset
from sklearn_calib.estimators._neural.classifier import NeuralClassifier
from sklearn_calib.estimators._neural.networks import MLP
from sklearn_calib.estimators._refcal.contrastive import make_views


class LinearHead(NeuralClassifier):
    """Linear classifier of embeddings, optionally trained on augmented views.

    With `augment`, and within the context `learning_from`, each training step draws new
    views of the mini-batch and embeds them. The validation pass, callbacks and
    predictions use the given embeddings.
    """

    _stage_prefix = "head__"
    # The samples of the embeddings and the function that embeds them, during fit.
    _source: Any = None

    def __init__(
        self, module: Any = MLP, *, augment: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(module, **kwargs)
        self.augment = augment

    @contextmanager
    def learning_from(
        self, X: Any, encode: Callable[[Tensor], Tensor]
    ) -> Iterator[None]:
        """Train on views of these samples if `augment` is set."""
        self._source = None if self.augment is None else (X, encode)
        try:
            yield
        finally:
            self._source = None

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Return the mini-batches of a dataset, or of its samples before embedding."""
        if training and self._source is not None:
            dataset = self._samples_of(dataset)
        return super().get_iterator(dataset, training=training)

    def _samples_of(self, dataset: Any) -> Any:
        """Return the dataset with the samples in place of their embeddings."""
        embedded, rows = resolve_subset(dataset)
        X, _ = self._source
        if len(embedded) != X.shape[0]:
            raise ValueError(
                "head__train_split must select rows of the training data if "
                f"augment_head is set, got a dataset of {len(embedded)} samples for "
                f"{X.shape[0]}. Return a torch.utils.data.Subset of its input, or set "
                "augment_head=None."
            )
        samples = self.get_dataset(X, embedded.y)
        samples.sample_weight = embedded.sample_weight
        return Subset(samples, rows.tolist())

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        """Train on one mini-batch, or on the embeddings of its views."""
        if self._source is not None:
            batch = self._embed_views(batch)
            self._keep(batch)
        return super().train_step(batch, **fit_params)

    def _embed_views(self, batch: Any) -> Batch:
        """Return the embeddings of the views of a mini-batch, grouped by sample."""
        X, y = (to_tensor(part, device=self.device) for part in unpack_data(batch))
        views = make_views(self.augment, X, "augment_head")
        _, encode = self._source
        n_views = views.shape[1]
        embedded = Batch((encode(views.flatten(0, 1)), y.repeat_interleave(n_views)))
        for name in ("sample_weight", "indices"):
            values = self._on_device(batch, name)
            if values is not None:
                setattr(embedded, name, values.repeat_interleave(n_views))
        return embedded

    def on_batch_end(
        self,
        net: Any,
        batch: Any = None,
        training: bool = False,
        y_pred: Any = None,
        **kwargs: Any,
    ) -> None:
        """Let a loss with a history record the logits of each view."""
        if training and self._source is not None:
            batch = self._run.batch
        super().on_batch_end(net, batch, training, y_pred, **kwargs)
