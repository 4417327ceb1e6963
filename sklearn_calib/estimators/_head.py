"""Stage 2 of `RefCalClassifier`: a linear head that learns from frozen embeddings."""

from contextlib import contextmanager

from skorch.dataset import unpack_data
from skorch.utils import to_tensor
from torch.utils.data import Subset

from sklearn_calib.estimators._batches import Batch, resolve_subset
from sklearn_calib.estimators._contrastive import make_views
from sklearn_calib.estimators._modules import MLP
from sklearn_calib.estimators._neural import NeuralClassifier


class LinearHead(NeuralClassifier):
    """A linear classifier of embeddings, which can learn from views of the samples.

    With `augment` and inside of `learning_from`, it trains on the embeddings of views
    that are drawn anew for each batch. All else sees the embeddings that it is given:
    the validation pass, callbacks and predictions.
    """

    # The samples behind the embeddings and what embeds them, in one call of fit.
    _source = None

    def __init__(self, module=MLP, *, augment=None, **kwargs):
        super().__init__(module, **kwargs)
        self.augment = augment

    @contextmanager
    def learning_from(self, X, encode):
        """Train on views of these samples, if there is something that makes views."""
        self._source = None if self.augment is None else (X, encode)
        try:
            yield
        finally:
            self._source = None

    def get_iterator(self, dataset, training=False):
        """Return the batches of a dataset, or of the samples behind it."""
        if training and self._source is not None:
            dataset = self._samples_of(dataset)
        return super().get_iterator(dataset, training=training)

    def _samples_of(self, dataset):
        """Return the samples whose embeddings a dataset holds."""
        embedded, rows = resolve_subset(dataset)
        X, _ = self._source
        if len(embedded) != len(X):
            raise ValueError(
                "head__train_split must select rows of the training data where "
                f"augment_head is set, got a dataset of {len(embedded)} samples for "
                f"{len(X)}. Return torch.utils.data.Subset of the data it is given, or "
                "leave augment_head out."
            )
        samples = self.get_dataset(X, embedded.y)
        samples.sample_weight = embedded.sample_weight
        return Subset(samples, rows)

    def train_step(self, batch, **fit_params):
        """Train on one batch, or on the embeddings of its views."""
        if self._source is not None:
            batch = self._embed_views(batch)
            self._keep(batch)
        return super().train_step(batch, **fit_params)

    def _embed_views(self, batch):
        """Return the embeddings of the views of a batch, sample by sample."""
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

    def on_batch_end(self, net, batch=None, training=False, **kwargs):
        """Let a loss that has a history record what the network said of each view."""
        if training and self._source is not None:
            batch = self._trainer.batch
        super().on_batch_end(net, batch=batch, training=training, **kwargs)
