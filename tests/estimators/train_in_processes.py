"""Train networks in several processes, each of which computes a part of the batches.

Its arguments are RANK N_PROCESSES FOLDER INTERFACE. Each process writes its results to
FOLDER, and talks to the others over the network interface.
"""

import datetime as dt
import os
import pickle
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from skorch.callbacks import Checkpoint as BestWeights, EarlyStopping
from skorch.dataset import ValidSplit
from skorch.helper import predefined_split
from skorch.hf import AccelerateMixin
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from sklearn_calib import NeuralClassifier
from sklearn_calib.callbacks import Checkpoint, RecordBins
from sklearn_calib.datasets import Mixup
from sklearn_calib.estimators import ConvNet
from sklearn_calib.losses import get_loss, get_loss_names

X, y = make_classification(
    n_samples=97,
    n_features=6,
    n_informative=6,
    n_redundant=0,
    n_classes=3,
    flip_y=0.3,
    random_state=0,
)
WEIGHT = np.random.default_rng(0).uniform(0.2, 3, len(y))
LEARNERS = {"adafocal": {"loss__n_bins": 3}, "calfocal": {"loss__n_bins": 3}}
HELD_OUT = {"validation_fraction": 0.3}
STOP = {"lr": 0.1, "max_epochs": 40, "n_iter_no_change": 1}
OF_MIXIN = {
    **STOP,
    "lr": 0.03,
    "early_stopping": True,
    "iterator_train": DataLoader,
    "iterator_valid__num_workers": 0,
    "use_caching": False,
    "callbacks": [RecordBins(n_bins=3)],
    "loss": "adafocal",
    "callbacks__update_loss__update_every": 2,
}
# The others are sums over samples.
LOSSES = [
    name
    for name in get_loss_names()
    if not get_loss(name).is_per_sample or get_loss(name).needs_indices
]


class Pair(nn.Module):
    """Network of a dict of inputs that returns logits and embeddings."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(4, 3)

    def forward(self, left, right):
        """Return logits and embeddings."""
        embeddings = self.first(left)
        return embeddings + self.second(right), embeddings


class Mask(nn.Module):
    """Network that returns its input with dropout."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, inputs):
        """Return the inputs that are kept."""
        return nn.functional.dropout(inputs * self.scale, training=self.training)


class Penalised(nn.Linear):
    """Network that returns logits and a penalty of its weights."""

    def forward(self, inputs):
        """Return logits and a number, which has no rows."""
        return super().forward(inputs), self.weight.square().sum()


class Stream(IterableDataset):
    """Samples whose number is unknown."""

    def __iter__(self):
        """Return an iterator over the pairs."""
        return zip(X, y, strict=True)


class Together(NeuralClassifier):
    """NeuralClassifier that all processes train together."""

    def initialize_module(self):
        """Wrap the network, if there are several processes."""
        super().initialize_module()
        if torch.distributed.is_initialized():
            self.module_ = DistributedDataParallel(self.module_)
        return self

    def on_train_end(self, net, **kwargs):
        """Unwrap the network, as skorch's mixin for accelerate does."""
        super().on_train_end(net, **kwargs)
        if torch.distributed.is_initialized():
            self.module_ = self.module_.module


class Accelerator:
    """What skorch's mixin for accelerate uses, as accelerate does it on CPUs."""

    device_placement = False

    def prepare(self, part):
        """Wrap a network; accelerate also divides a DataLoader."""
        if isinstance(part, DataLoader):
            raise TypeError("accelerate would divide the mini-batches")
        is_network = isinstance(part, nn.Module) and [*part.parameters()]
        return DistributedDataParallel(part) if is_network else part

    def unwrap_model(self, module, **kwargs):
        """Return the network."""
        return getattr(module, "module", module)

    def gather_for_metrics(self, output):
        """Return the outputs of all processes."""
        return torch.cat([output, output])

    def accumulate(self, *parts):
        """Do nothing."""
        return nullcontext()

    autocast = nullcontext
    backward = staticmethod(torch.Tensor.backward)
    wait_for_everyone = staticmethod(torch.distributed.barrier)


class Accelerated(AccelerateMixin, NeuralClassifier):
    """NeuralClassifier that is wrapped by an accelerator."""


SAMPLES = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
OF_DATASETS = {
    "y": None,
    "classes": [0, 1, 2],
    "validation_fraction": None,
    "train_split": predefined_split(SAMPLES),
    "early_stopping": True,
    "loss": "adafocal",
}
# The parameters of each training, and the arguments of fit.
CASES = {
    "focal": {},
    # Those that learn change after an epoch.
    **{n: {"loss": n, "max_epochs": 1} for n in LOSSES if n != "crl"},
    **{n: {"loss": n} for n in ["crl", *LEARNERS]},
    "weights": {"loss": "mmce", "sample_weight": WEIGHT, "class_weight": "balanced"},
    "stops early": {"early_stopping": True, **STOP},
    "own early stopping": {
        **STOP,
        "callbacks": [EarlyStopping("valid_loss", patience=1, load_best=True)],
    },
    "plain gradients": {"optimizer": torch.optim.SGD, "lr": 0.1},
    "refit": {"early_stopping": True, "refit": True, "loss": "adafocal", **STOP},
    "records bins": {"callbacks": [RecordBins(n_bins=3)]},
    "updates between batches": {
        "loss": "adafocal",
        "callbacks__update_loss__update_every": 2,
    },
    "scores without caching": {"use_caching": False, **HELD_OUT},
    "sparse": {"X": csr_matrix(X)},
    "dict": {"X": {"left": X[:, :2], "right": X[:, 2:]}, "module": Pair},
    "loader": {"iterator_train": DataLoader, "iterator_valid__num_workers": 0},
    "tiny last batch": {"batch_size": 64},
    "one batch": {"batch_size": -1},
    "warm start": {"warm_start": True},
    "dataset": {"X": SAMPLES, **OF_DATASETS},
    "stream": {"X": Stream(), **OF_DATASETS},
}


def train(
    loss="focal", X=X, y=y, sample_weight=None, classes=None, kind=Together, **params
):
    """Return the net trained with the parameters of a case."""
    params = {"max_epochs": 2, "random_state": 0, "batch_size": 40, **params}
    params = {"lr": 0.01, **HELD_OUT, **params}
    if "module" not in params:
        params["module__hidden_sizes"] = (8,)
    net = kind(loss=loss, dtype="float64", **LEARNERS.get(loss, {}), **params)
    return net.fit(X, y, sample_weight=sample_weight, classes=classes)


def result(net, X=X, **_):
    """Return what must be equal in all processes, and in a single one."""
    rows = [dict(row) for row in net.history]
    for row in rows:
        for name in ("batches", "dur"):
            row.pop(name)
    weights = [p.detach().numpy() for p in net.module_.parameters()]
    buffers = {name: b.numpy() for name, b in net.criterion_.state_dict().items()}
    return {
        "weights": weights,
        "loss": buffers,
        "history": rows,
        "proba": net.predict_proba(X),
    }


def train_with_files(folder):
    """Return the net with the best weights, loaded from a file."""
    files = BestWeights("valid_log_loss_best", dirname=folder, load_best=True)
    return train(lr=0.1, max_epochs=4, callbacks=[files])


def masks():
    """Return the dropout masks of all samples of a mini-batch."""
    net = Together(Mask, dtype="float64", random_state=0).initialize()
    net.module_.train()
    return net.infer(torch.ones(8, 6, dtype=torch.float64)).tolist()


def message(**params):
    """Return the message of the error that a training raises."""
    try:
        train(**params)
    except (TypeError, ValueError) as error:
        return str(error)
    return "no error"


def main(rank, n_processes, folder):
    """Train all cases, and write their results."""
    torch.distributed.init_process_group(
        "gloo",
        init_method=Path(folder, "store").as_uri(),
        rank=rank,
        world_size=n_processes,
        timeout=dt.timedelta(seconds=30),
    )
    results = {name: result(train(**case), **case) for name, case in CASES.items()}
    mixin = {"kind": Accelerated, "accelerator": Accelerator()}
    results["mixin"] = result(train(**mixin, **OF_MIXIN))
    results["mixup"] = result(train(batch_transform=Mixup()))
    images = X.reshape(-1, 1, 2, 3)
    net = train(X=images, module=ConvNet, validation_fraction=None)
    results["batch norm"] = result(net, X=images)
    results["dropout"] = result(train(module__dropout=0.5))
    file = Path(folder, "checkpoint")
    train(max_epochs=1, callbacks=[Checkpoint(file)])
    results["resumed"] = result(train(callbacks=[Checkpoint(file)]))
    results["best weights"] = result(train_with_files(folder))
    results["masks"] = masks()
    results["errors"] = {
        "seed": message(random_state=None),
        "split": message(train_split=ValidSplit(0.3), validation_fraction=None),
        "output": message(module=Penalised(6, 3)),
        "data": message(X=X[rank:], y=y[rank:]),
    }
    Path(folder, f"{rank}.pickle").write_bytes(pickle.dumps(results))
    torch.distributed.destroy_process_group()


if "ARGUMENTS" in globals():
    warnings.simplefilter("error")
    rank, n_processes, folder, interface = ARGUMENTS  # noqa: F821 - given by the test
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    main(int(rank), int(n_processes), folder)
