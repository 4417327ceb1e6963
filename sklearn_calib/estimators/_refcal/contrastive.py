"""Stage 1 of `RefCalClassifier`: supervised contrastive training of an encoder."""

from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from skorch.dataset import unpack_data
from skorch.utils import to_numpy, to_tensor
from torch import Tensor, nn

from sklearn_calib._validation.types import Array
from sklearn_calib.estimators._neural.batches import Batch
from sklearn_calib.estimators._neural.classifier import NeuralClassifier
from sklearn_calib.estimators._neural.net_data import check_n_predicted
from sklearn_calib.estimators._neural.placement import choose_threads, restored_threads
from sklearn_calib.losses import RefinementLoss, SupConLoss


class Projected(nn.Module):
    """Encoder with a projection head, whose output has unit length.

    The loss is computed from the projections. After training only the encoder is used,
    since its embeddings keep information that the projections discard.
    """

    def __init__(self, encoder: nn.Module, width: int, n_projection: int) -> None:
        super().__init__()
        self.encoder = encoder
        layers = nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_projection)
        self.projection = nn.Sequential(*layers)

    def forward(self, X: Tensor) -> Tensor:
        """Return the projections, of length 1."""
        return F.normalize(self.projection(self.encoder(X)), dim=1)


class ContrastiveNet(NeuralClassifier):
    """Net that trains an encoder with a loss of embeddings.

    `module` is the encoder, and `batch_transform` makes the views of a mini-batch.
    """

    _module_prefix = "encoder__"
    _stage_prefix = "refine__"

    def __init__(
        self,
        module: Any = None,
        *,
        refine_loss: str = "supcon",
        temperature: float = 0.1,
        n_projection: int = 128,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, **kwargs)
        self.refine_loss = refine_loss
        self.temperature = temperature
        self.n_projection = n_projection

    def initialize_criterion(self) -> Self:
        """Build the loss of the projections."""
        if self.refine_loss == "supcon":
            self.criterion_ = SupConLoss(temperature=self.temperature)
        else:
            self.criterion_ = RefinementLoss()
        return self

    def initialize_module(self) -> Self:
        """Build the encoder and the projection head."""
        super().initialize_module()
        width = self._embedding_width(self.module_)
        self.module_ = Projected(self.module_, width, self.n_projection)
        self.module_.to(getattr(torch, self.dtype))
        return self

    def _data_params(self, module: Any) -> dict[str, Any]:
        """Return the sizes for a network without its output layer."""
        sizes = super()._data_params(module)
        sizes.pop("num_classes", None)  # None would not remove the output layer
        return {**sizes, **({"n_classes": None} if "n_classes" in sizes else {})}

    def _embedding_width(self, encoder: nn.Module) -> int:
        """Return the width of the embeddings, computed from two samples of zeros."""
        dtype = getattr(torch, self.dtype)
        was_training = encoder.training
        with torch.no_grad():
            shape = encoder.eval()(
                torch.zeros(2, *(self._input_shape or ()), dtype=dtype)
            ).shape
        encoder.train(was_training)
        if len(shape) != 2:
            raise ValueError(
                "encoder must return embeddings of shape (n_samples, width), got shape "
                f"{tuple(shape)} for two samples. Flatten or average them."
            )
        return shape[1]

    def _transform(self, batch: Any, transform: Any) -> Batch:
        """Return the concatenated views of a mini-batch, and the labels."""
        X, y = (to_tensor(part, device=self.device) for part in unpack_data(batch))
        views = make_views(transform, X, "augment")
        return Batch((views.flatten(0, 1), y))

    def get_loss(self, y_pred: Any, y_true: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of the projections of all views of a mini-batch."""
        target = to_tensor(y_true, device=self.device)
        return self.criterion_(y_pred.unflatten(0, (len(target), -1)), target)

    def embed(self, X: Any) -> Array:
        """Return the embeddings of validated data, batch by batch."""
        dataset = self.get_dataset(X)
        batches = self.get_iterator(dataset, training=False)
        with restored_threads():
            parts = [
                self.encode(to_tensor(unpack_data(batch)[0], device=self.device))
                for batch in batches
            ]
        embeddings = np.concatenate([to_numpy(part) for part in parts])
        check_n_predicted(self, len(embeddings), dataset)
        return embeddings

    def encode(self, X: Tensor) -> Tensor:
        """Return the embeddings of one mini-batch, without gradients."""
        choose_threads(self, X)
        with torch.no_grad():
            return self.module_.encoder.eval()(X)


def make_views(augment: Any, X: Tensor, name: str) -> Tensor:
    """Return the views of a mini-batch; `name` is the parameter named in errors."""
    views = augment(X)
    if views.ndim != X.ndim + 1 or views.shape[0] != len(X):
        raise ValueError(
            f"{name} must return views of shape ({len(X)}, n_views, ...), got "
            f"{tuple(views.shape)} for a batch of shape {tuple(X.shape)}. Stack "
            "the views along dimension 1."
        )
    return views


def refine(
    net: ContrastiveNet,
    key: str,  # noqa: ARG001 - joblib looks up results by the key
    X: Any,
    y: Any,
) -> tuple[ContrastiveNet, Array]:
    """Train the encoder, and return it and the embeddings of the training data."""
    net.fit(X, y)
    return net, net.embed(X)
