"""The part of a neural classifier that skorch calls while it trains."""

import inspect
from copy import deepcopy

import numpy as np
import torch
from sklearn.base import BaseEstimator
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping, EpochScoring, PrintLog
from skorch.dataset import Dataset, unpack_data
from skorch.history import History
from skorch.utils import noop, to_tensor
from torch.nn.functional import one_hot

from sklearn_calib._core.validation import encode_labels
from sklearn_calib.callbacks import UpdateLoss, valid_ece, valid_log_loss
from sklearn_calib.estimators._batches import Batch
from sklearn_calib.estimators._data import CheckDataMixin
from sklearn_calib.estimators._loss_params import LossParamsMixin, check_takes_weights
from sklearn_calib.estimators._modules import MLP, ConvNet
from sklearn_calib.estimators._net_params import NetParamsMixin
from sklearn_calib.estimators._param_files import ParamFilesMixin
from sklearn_calib.estimators._parameters import check_takes
from sklearn_calib.estimators._resume import ResumeMixin
from sklearn_calib.estimators._state import StateMixin
from sklearn_calib.estimators._training import epoch_seed, validation_split
from sklearn_calib.losses import CalibrationLoss


class _PrintNumbers(PrintLog):
    """skorch's log without the lists of what a loss has learned of each bin."""

    def table(self, row):
        """Lay out one epoch."""
        return super().table({k: v for k, v in row.items() if not isinstance(v, list)})


class SkorchClassifier(
    NetParamsMixin,
    LossParamsMixin,
    CheckDataMixin,
    StateMixin,
    ResumeMixin,
    ParamFilesMixin,
    NeuralNetClassifier,
):
    """skorch's classifier with encoded labels, weights, seeds and a validation share.

    `_training` holds what one call of fit needs and is None outside of it.
    """

    # What skorch collects in each instance as it is built is fixed for this class.
    prefixes_ = [
        *NeuralNetClassifier.prefixes_,
        *("module", "criterion", "loss", "optimizer"),
    ]
    cuda_dependent_attributes_ = ["module_", "criterion_", "optimizer_"]
    _modules = ["module"]
    _criteria = ["criterion"]
    _optimizers = ["optimizer"]
    history_ = None
    initialized_ = False
    virtual_params_: dict = {}

    # The prefix of the parameters of the module, for subclasses that rename it.
    _module_prefix = "module__"
    _training = None
    _batch = None
    _input_shape = None

    def _get_param_names(self):
        return [name for name in vars(self) if name[0] != "_" and name[-1] != "_"]

    __repr__ = BaseEstimator.__repr__

    @property
    def classes_(self):
        if self._known_classes is None:
            raise AttributeError(
                f"{type(self).__name__} has no attribute 'classes_' before it has seen "
                "labels. Call fit, or partial_fit with classes."
            )
        if self._training is None:
            return self._known_classes
        return np.arange(len(self._known_classes))

    @property
    def _known_classes(self):
        return vars(self).get("classes_inferred_")

    def check_data(self, X, y=None):
        """Do nothing: the data were checked before they were encoded."""

    def initialize_module(self):
        """Build the network in the shape of the data, or copy the given one."""
        module = self._default_module() if self.module is None else self.module
        is_instance = isinstance(module, torch.nn.Module)
        given = self.get_params_for("module")
        check_takes(type(module) if is_instance else module, given, self._module_prefix)
        params = {**self._data_params(module), **given}
        if is_instance and not params:
            module = deepcopy(module)
        else:
            module = self.initialized_instance(module, params)
        self.module_ = module.to(getattr(torch, self.dtype))
        return self

    def _default_module(self):
        if self._input_shape is None:
            raise ValueError(
                "module must be given to initialize without data, got None. Call fit, "
                "which builds the default network in the shape of the data."
            )
        if len(self._input_shape) not in (1, 3):
            raise ValueError(
                "module must be given unless X is a table of shape (n_samples, "
                "n_features) or images of shape (n_samples, n_channels, height, "
                f"width), got X of {1 + len(self._input_shape)} dimensions. Pass a "
                "torch.nn.Module that returns one logit for each class."
            )
        return MLP if len(self._input_shape) == 1 else ConvNet

    def _data_params(self, module):
        """Return the data's sizes that the constructor of a module asks for."""
        if isinstance(module, torch.nn.Module) or self._input_shape is None:
            return {}
        sizes = {"n_classes": len(self.classes_inferred_)}
        if len(self._input_shape) in (1, 3):
            name = "n_features" if len(self._input_shape) == 1 else "n_channels"
            sizes[name] = self._input_shape[0]
        wanted = inspect.signature(module).parameters
        return {name: size for name, size in sizes.items() if name in wanted}

    def get_params_for_optimizer(self, prefix, named_parameters):
        """Return the optimizer's arguments, with torch's fused kernel where it can."""
        args, kwargs = super().get_params_for_optimizer(prefix, named_parameters)
        # Those of one group are set once there are groups.
        kwargs = {k: v for k, v in kwargs.items() if "__" not in k}
        # One kernel instead of ten for each parameter saves a tenth of the time of an
        # epoch of a small network.
        can_fuse = "fused" in inspect.signature(self.optimizer).parameters
        is_free = not kwargs.keys() & {"foreach", "differentiable"}
        if can_fuse and is_free and str(self.device).startswith(("cpu", "cuda")):
            kwargs.setdefault("fused", True)
        return args, kwargs

    @property
    def _default_callbacks(self):
        *callbacks, (print_log, _) = super()._default_callbacks
        for score in (valid_log_loss, valid_ece):
            callbacks.append((score.__name__, EpochScoring(score, name=score.__name__)))
        update_loss = ("update_loss", UpdateLoss())
        return [*callbacks, update_loss, (print_log, _PrintNumbers())]

    def get_default_callbacks(self):
        """Return the default callbacks; the log only where it is printed."""
        callbacks = self._default_callbacks
        # It lays out its table in each epoch, which costs 3 % of a small network.
        return callbacks if self.verbose else callbacks[:-1]

    def _yield_callbacks(self):
        yield from super()._yield_callbacks()
        holds_out = self._training is None or self._training.hold_out
        # Last, because it ends the epoch for the callbacks after it.
        if self.early_stopping and holds_out:
            stopping = EarlyStopping(
                "valid_log_loss",
                patience=self.n_iter_no_change,
                sink=print if self.verbose else noop,
                load_best=True,
            )
            yield "early_stopping", stopping, True

    def initialize_history(self):
        """Begin a history, and leave the one before to a fit that fails."""
        self.history_ = History()
        return self

    def get_split_datasets(self, X, y=None, **split_params):
        """Return the training data and the validation share, None without one."""
        dataset = self.get_dataset(X, y)
        dataset.sample_weight = self._training.sample_weight
        if dataset.sample_weight is not None:
            check_takes_weights(self.criterion_)
        split = self._get_split(y) if self._training.hold_out else None
        if split is None:
            train, valid = dataset, None
        elif self.train_split is None:
            train, valid = split(dataset, y)
        else:
            train, valid = split(dataset, y, **split_params)
        self._check_can_learn(valid)
        is_drawn = valid is not None and self.train_split is None
        self._start_history(len(train), is_drawn=is_drawn)
        return train, self._encode(valid)

    def _start_history(self, n_samples, *, is_drawn):
        """Let a loss with a history begin one, unless it has that of these samples."""
        if not self._loss.needs_indices:
            return
        # Without a seed, others are held out than were in the fit before.
        is_other_share = is_drawn and self._training.seed is None
        if is_other_share or len(self._loss.history) != n_samples:
            self._loss.start_history(n_samples)

    def _check_can_learn(self, valid):
        """Raise ValueError if the loss learns and there is nothing to learn from."""
        learns = self._loss.learns_from_validation
        if valid is None and learns and not self._training.loss_states:
            raise ValueError(
                f"loss {type(self.criterion_).__name__} must have validation data to "
                "learn from, got none. Call fit, not partial_fit, and let "
                "validation_fraction or train_split hold some out."
            )

    @property
    def _loss(self):
        """The loss as far as it declares what it needs."""
        return CalibrationLoss.of(self.criterion_)

    def _get_split(self, y):
        fraction = self.validation_fraction
        if self.train_split is not None:
            if fraction is not None:
                raise ValueError(
                    "validation_fraction must be None beside a train_split, got "
                    f"{fraction}. Pass one of the two."
                )
            return self.train_split
        if fraction is None and self._watches_validation():
            fraction = 0.1
        if fraction is None:
            return None
        return validation_split(fraction, y, self._training.seed)

    def _watches_validation(self):
        """Tell whether the loss, early stopping or a callback needs validation data."""
        monitors = [getattr(each, "monitor", None) for _, each in self.callbacks_]
        return self._loss.learns_from_validation or any(
            isinstance(name, str) and name.startswith("valid") for name in monitors
        )

    def _encode(self, dataset):
        """Encode a validation set that was not split off the training data."""
        if not isinstance(dataset, Dataset):
            return dataset
        X, y = self._check_data(dataset.X, dataset.y, reset=False)
        classes = self.classes_inferred_
        codes = encode_labels(y, labels=classes, n_classes=len(classes), name="y")
        return self.get_dataset(X, codes)

    def get_iterator(self, dataset, training=False):
        """Return the batches of a dataset, shuffled while the network trains."""
        iterator_train = self.get_params_for("iterator_train")
        if not (training and self._training) or "shuffle" in iterator_train:
            return super().get_iterator(dataset, training=training)
        params = {"batch_size": self.batch_size, **iterator_train}
        if params["batch_size"] == -1:
            params["batch_size"] = len(dataset)
        return self.iterator_train(dataset, shuffle=True, **params)

    def _set_training(self, training=True):
        # Walking through the modules for every batch costs 3 % of a small network.
        parts = [self.module_, self.criterion_]
        # Without a loss after trim_for_prediction.
        if any(part is not None and part.training != training for part in parts):
            super()._set_training(training)

    def on_epoch_begin(self, net, **kwargs):
        """Seed the epoch by its number, so that a resumed run equals a whole one."""
        super().on_epoch_begin(net, **kwargs)
        if self._training.seed is not None:
            torch.manual_seed(epoch_seed(self._training.seed, len(self.history)))
        if self._loss.learns_from_validation:
            self._keep_loss_state(len(self.history) - 1)
        self._loss.start_epoch()

    def _keep_loss_state(self, epoch):
        """Keep the state of the loss, or return to the one of the run before."""
        states = self._training.loss_states
        if self._training.hold_out:
            state = self.criterion_.state_dict()
            # Of the samples of this run, and large.
            state.pop("history", None)
            states.append(deepcopy(state))
        else:
            loss = self._loss
            own = {"history": loss.history} if loss.needs_indices else {}
            self.criterion_.load_state_dict({**states[epoch], **own})

    def train_step(self, batch, **fit_params):
        """Train on one batch, as `batch_transform` makes it."""
        # Not in train_step_single, which skorch's mixin for accelerate replaces.
        if self.batch_transform is not None:
            batch = self._batch = self._transform(batch)
        return super().train_step(batch, **fit_params)

    def _transform(self, batch):
        """Return the transformed batch, whose targets are probabilities."""
        X, y = (to_tensor(part, device=self.device) for part in unpack_data(batch))
        target = one_hot(y, len(self.classes_inferred_)).to(X.dtype)
        weight = self._on_device(batch, "sample_weight")
        X, target, weight = self.batch_transform(X, target, weight)
        batch = Batch((X, target))
        batch.sample_weight = weight
        return batch

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        """Keep the batch, whose weights and indices its loss may need."""
        super().on_batch_begin(net, batch=batch, training=training, **kwargs)
        self._batch = batch

    def on_batch_end(self, net, batch=None, training=False, y_pred=None, **kwargs):
        """Let a loss that has a history record what the network said."""
        super().on_batch_end(net, batch=batch, training=training, **kwargs)
        if training and self._loss.needs_indices:
            logits = y_pred[0] if isinstance(y_pred, tuple) else y_pred
            y = to_tensor(unpack_data(batch)[1], device=self.device)
            self._loss.record(logits, y, indices=self._on_device(batch, "indices"))

    def _on_device(self, batch, name):
        """Return what stands beside a batch, None without."""
        values = getattr(batch, name, None)
        return None if values is None else to_tensor(values, device=self.device)

    def get_loss(self, y_pred, y_true, *args, training=False, **kwargs):
        """Return the loss of one batch of logits and encoded labels."""
        logits = y_pred[0] if isinstance(y_pred, tuple) else y_pred
        if logits.ndim != 2 or logits.shape[1] != len(self.classes_inferred_):
            raise ValueError(
                "module must return logits of shape (n_samples, n_classes), wanted "
                f"width {len(self.classes_inferred_)}, got shape {tuple(logits.shape)}."
                " Two classes need two logits."
            )
        beside = {}
        weight = self._on_device(self._batch, "sample_weight")
        if weight is not None:
            beside["sample_weight"] = weight.to(logits.dtype)
        if training and self._loss.needs_indices:
            beside["indices"] = self._indices()
        y_true = to_tensor(y_true, device=self.device)
        return self.criterion_(logits, y_true, **beside)

    def _indices(self):
        """Return where the samples of the batch are in the training data."""
        indices = self._on_device(self._batch, "indices")
        if indices is None:
            raise ValueError(
                f"loss {type(self.criterion_).__name__} must know which samples it "
                "sees, got a batch without indices. Leave out batch_transform and the "
                "DataLoader options of iterator_train, and pass X as an array."
            )
        return indices
