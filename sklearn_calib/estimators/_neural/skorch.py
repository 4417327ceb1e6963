"""The methods of a neural classifier that skorch calls during training."""

import inspect
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping, EpochScoring
from skorch.dataset import unpack_data
from skorch.helper import SliceDataset
from skorch.history import History
from skorch.utils import noop, to_tensor
from torch import Tensor
from torch.nn.functional import one_hot
from torch.utils.data import IterableDataset

from sklearn_calib._validation.types import Array
from sklearn_calib.callbacks import (
    UpdateLoss,
    valid_ece,
    valid_log_loss,
    valid_refinement,
)
from sklearn_calib.estimators._neural.batches import Batch, resolve_dataset
from sklearn_calib.estimators._neural.classes import distinct_classes
from sklearn_calib.estimators._neural.datasets import CheckedBatches, check_has_length
from sklearn_calib.estimators._neural.estimators_logits import check_logits
from sklearn_calib.estimators._neural.monitors import stopping_score
from sklearn_calib.estimators._neural.name_hints import check_module_takes
from sklearn_calib.estimators._neural.net_data import check_table_or_images
from sklearn_calib.estimators._neural.net_files import SavableNet
from sklearn_calib.estimators._neural.networks import (
    MLP,
    ConvNet,
    data_sizes,
    warn_of_channels_last,
)
from sklearn_calib.estimators._neural.param_checks import (
    check_callbacks,
    check_known,
    check_not_refused,
    check_params,
    check_parts_take,
)
from sklearn_calib.estimators._neural.params import (
    HINT,
    LOSS,
    NestedParams,
    callback_params,
    check_names_of_net,
    is_nested,
)
from sklearn_calib.estimators._neural.placement import whole_batches
from sklearn_calib.estimators._neural.renewal import (
    find_live,
    set_group_options,
    take_effect,
)
from sklearn_calib.estimators._neural.threads import NetWithThreads
from sklearn_calib.losses import CalibrationLoss

# A subclass that overrides one of these may add modules, losses or optimizers.
BUILDERS = ("initialize_module", "initialize_criterion", "initialize_optimizer")


class SkorchClassifier(NestedParams, NetWithThreads, SavableNet):
    """skorch's classifier with the hooks that a `Trainer` needs.

    `_trainer` is the `Trainer` during a call of fit, and None otherwise.
    """

    # skorch collects these for each instance; here they are fixed for the class.
    prefixes_ = [
        *NeuralNetClassifier.prefixes_,
        *("module", "criterion", "loss", "optimizer"),
    ]
    cuda_dependent_attributes_ = ["module_", "criterion_", "optimizer_"]
    _modules = ["module"]
    _criteria = ["criterion"]
    _optimizers = ["optimizer"]
    history_: History | None = None
    initialized_ = False
    interrupted_ = False
    virtual_params_: dict = {}

    # Prefix of the module's parameters in error messages; subclasses may change it.
    _module_prefix = "module__"
    # The parts whose parameters have changed since they were built.
    _stale: frozenset[str] = frozenset()
    _params_to_validate: set[str]
    _trainer: Any = None
    _input_shape: tuple[int, ...] | None = None
    _data_dtype = None
    _data_ndim = None
    _data_names = None

    __repr__ = BaseEstimator.__repr__

    @property
    def classes_(self) -> Array:
        """The labels, or during training their integer codes.

        skorch's `EpochScoring` compares predictions with the targets of the batches,
        which are tensors of codes, and scorers use `classes_` of the net.
        """
        if self._known_classes is None:
            raise AttributeError(
                f"{type(self).__name__} has no attribute 'classes_' before it is "
                "fitted. Call fit, or partial_fit with classes, or for a trained "
                "module initialize(classes=...)."
            )
        if self._trainer is None:
            return self._known_classes
        return np.arange(len(self._known_classes))

    @property
    def _known_classes(self) -> Array | None:
        return vars(self).get("classes_inferred_")

    @property
    def _loss(self) -> CalibrationLoss:
        """The loss, as a `CalibrationLoss` that declares what it needs."""
        return CalibrationLoss.of(self.criterion_)

    def __setattr__(self, name: str, value: Any) -> None:
        # In the constructor, modules are parameters. skorch tests this by the attribute
        # `initialized_`, which this class always has.
        if "_params_to_validate" in vars(self):
            super().__setattr__(name, value)
        else:
            object.__setattr__(self, name, value)

    def check_data(self, X: Any, y: Any = None) -> None:
        """Do nothing, because the data were validated before they were encoded."""

    # Parameters ---------------------------------------------------------------------

    @property
    def _prefixes(self) -> list[str]:
        return self.prefixes_

    def _is_part(self, prefix: str) -> bool:
        if prefix in self.prefixes_:
            return True
        # skorch notes the names of the parts that a subclass adds when it builds them.
        is_built = self.history_ is not None
        may_be_added = not is_built and any(
            getattr(type(self), name) is not getattr(SkorchClassifier, name)
            for name in BUILDERS
        )
        return may_be_added and not is_nested(getattr(self, prefix, None))

    def _get_callback_params(self) -> dict[str, Any]:
        return callback_params(self)

    def _check_names(self, params: dict[str, Any]) -> None:
        check_not_refused(params)
        check_names_of_net(params, self)
        check_parts_take(self, params)

    def _replace(self, dropped: Iterable[str], params: dict[str, Any]) -> None:
        live = find_live(self, params)
        super()._replace(dropped, params)
        self._params_to_validate = self._params_to_validate | {*self._of_parts(params)}
        if self.initialized_:
            take_effect(self, params, live)

    # Parts --------------------------------------------------------------------------

    def initialize(self, classes: ArrayLike | None = None) -> Self:
        """Build all parts from the parameters, without training.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), default=None
            Label of each logit of a module that is already trained. With them, the
            classifier can predict.

        Returns
        -------
        self : NeuralClassifier
            The classifier, with new parts.
        """
        if self._trainer is None:  # it has checked them
            self.check_training_readiness()
            check_params(self)
        self.__dict__.pop("_stale", None)
        if classes is not None:
            self.classes_inferred_ = distinct_classes(classes)
            self._is_loaded = True
        return super().initialize()

    def _validate_params(self) -> None:
        # skorch calls it when all parts are built, also those of a subclass.
        check_known(self)
        super()._validate_params()

    def _initialize_module(self, reason: str | None = None) -> Self:
        super()._initialize_module(reason)
        dtype = getattr(torch, self.dtype)
        for module in self._get_parts(self._modules):
            tensors = (*module.parameters(), *module.buffers())
            if any(t.is_floating_point() and t.dtype != dtype for t in tensors):
                module.to(dtype)  # one that a subclass has added
        return self

    def _get_parts(self, names: list[str]) -> list[torch.nn.Module]:
        """Return the modules with given names, except those that were removed."""
        parts = (getattr(self, f"{name}_") for name in names)
        return [part for part in parts if isinstance(part, torch.nn.Module)]

    def initialize_module(self) -> Self:
        """Build the network for the shape of the data, or copy the given instance."""
        module = self._default_module() if self.module is None else self.module
        is_instance = isinstance(module, torch.nn.Module)
        given = self.get_params_for("module")
        check_module_takes(module, given, self._module_prefix)
        params = {**self._data_params(module), **given}
        if is_instance and not params:
            module = deepcopy(module)
        else:
            module = self.initialized_instance(module, params)
        self.module_ = module.to(getattr(torch, self.dtype))
        self._work = None
        return self

    def _default_module(self) -> type[torch.nn.Module]:
        if self._input_shape is None:
            raise ValueError(
                "module must be given to initialize without data, got None. Call fit, "
                "which builds the default network for the shape of the data."
            )
        hint = "Pass a torch.nn.Module that returns one logit for each class."
        check_table_or_images(1 + len(self._input_shape), "module", hint)
        return MLP if len(self._input_shape) == 1 else ConvNet

    def _data_params(self, module: Any) -> dict[str, int]:
        """Return the sizes of the data that the constructor of a module takes."""
        if isinstance(module, torch.nn.Module) or self._input_shape is None:
            return {}
        sizes = data_sizes(module, self._input_shape, len(self.classes_inferred_))
        is_inferred = "module__n_channels" not in vars(self)
        if "n_channels" in sizes and is_inferred and self._trainer is not None:
            warn_of_channels_last(self._input_shape)
        return sizes

    def initialize_criterion(self) -> Self:
        """Build a new loss for each fit."""
        params = self.get_params_for("loss")
        self.criterion_ = CalibrationLoss.build(
            self.loss, params, prefix=LOSS, hint=HINT
        )
        return self

    def initialize_optimizer(self) -> Self:
        """Build the optimizer, and set the options of single parameter groups."""
        super().initialize_optimizer()
        set_group_options(self)
        return self

    def get_params_for_optimizer(
        self, prefix: str, named_parameters: Iterable[tuple[str, Tensor]]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return an optimizer's arguments, with torch's fused kernel if possible."""
        args, kwargs = super().get_params_for_optimizer(prefix, named_parameters)
        # Options of single parameter groups are set after the optimizer is built.
        kwargs = {k: v for k, v in kwargs.items() if "__" not in k}
        # One kernel instead of ten per parameter saves a tenth of an epoch's time for a
        # small network.
        optimizer = getattr(self, prefix, None)
        can_fuse = optimizer and "fused" in inspect.signature(optimizer).parameters
        is_allowed = not kwargs.keys() & {"foreach", "differentiable"}
        if can_fuse and is_allowed and str(self.device).startswith(("cpu", "cuda")):
            kwargs.setdefault("fused", True)
        return args, kwargs

    def initialize_callbacks(self) -> Self:
        """Build the callbacks, and check them and their parameters."""
        check_callbacks(self)
        return super().initialize_callbacks()

    def get_default_callbacks(self) -> list[tuple[str, Callback]]:
        """Return the default callbacks, with the log only if `verbose`."""
        callbacks = dict(super().get_default_callbacks())
        print_log = callbacks.pop("print_log")
        for score in (valid_log_loss, valid_refinement, valid_ece):
            callbacks[score.__name__] = EpochScoring(score, name=score.__name__)
        callbacks["update_loss"] = UpdateLoss()
        # Formatting its table takes 3 % of an epoch's time for a small network.
        if self.verbose:
            callbacks["print_log"] = print_log
        return list(callbacks.items())

    def _yield_callbacks(self) -> Iterator[tuple[str, Callback, bool]]:
        yield from super()._yield_callbacks()
        holds_out = self._trainer is None or self._trainer.hold_out
        # Last, because callbacks after it are not called in the epoch that it ends.
        if self.early_stopping and holds_out:
            stopping = EarlyStopping(
                stopping_score(self),
                patience=self.n_iter_no_change,
                sink=print if self.verbose else noop,
                load_best=True,
            )
            yield "early_stopping", stopping, True

    def initialize_history(self) -> Self:
        """Create a new history, so that a failed fit can restore the previous one."""
        self.history_ = History()
        return self

    # Training -----------------------------------------------------------------------

    def get_split_datasets(
        self, X: Any, y: Any = None, **split_params: Any
    ) -> tuple[Any, Any]:
        """Return the training set and the validation set or None."""
        return self._trainer.split(X, y, split_params)

    def get_dataset(self, X: Any, y: Any = None) -> Any:
        """Return the data as a dataset, and mark whether one of arrays is validated."""
        dataset = super().get_dataset(X, y)
        if dataset is not X:
            dataset.is_validated = not isinstance(X, SliceDataset)
        return dataset

    def get_iterator(self, dataset: Any, training: bool = False) -> Iterable[Any]:
        """Return the mini-batches of a dataset, shuffled for training."""
        batches = self._get_batches(dataset, training)
        is_validated = self._is_validated(dataset)
        if is_validated:
            return batches
        is_encoded = self._trainer is None or is_validated is not None
        classes = None if is_encoded else self._known_classes
        return CheckedBatches(self, batches, classes)

    def _is_validated(self, dataset: Any) -> bool | None:
        """Return whether the data of a dataset, or beneath it, are validated arrays.

        None means a dataset of the user, whose labels are not encoded either.
        """
        marked = getattr(resolve_dataset(dataset), "is_validated", None)
        if marked is not None or self._trainer is None or self._trainer.takes_datasets:
            return marked
        return True

    def _get_batches(self, dataset: Any, training: bool) -> Iterable[Any]:
        if self.batch_size == -1:
            way_out = "Set it to the number of samples in a mini-batch."
            check_has_length(dataset, "batch_size", -1, way_out)
        iterator_train = self.get_params_for("iterator_train")
        is_ordered = "shuffle" in iterator_train or isinstance(dataset, IterableDataset)
        if is_ordered or not (training and self._trainer):
            return whole_batches(super().get_iterator(dataset, training=training))
        params = {"batch_size": self.batch_size, **iterator_train}
        if params["batch_size"] == -1:
            params["batch_size"] = len(dataset)
        return whole_batches(self.iterator_train(dataset, shuffle=True, **params))

    def _set_training(self, training: bool = True) -> None:
        # Traversing the modules for every batch takes 3 % of an epoch's time for small
        # networks. The loss is None after trim_for_prediction.
        parts = self._get_parts(self._modules + self._criteria)
        if any(part.training != training for part in parts):
            super()._set_training(training)

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        """Let the trainer set the seed and the state of the loss for the epoch."""
        super().on_epoch_begin(net, **kwargs)
        self._trainer.start_epoch()

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Store the mini-batch, since the loss may need its weights and indices."""
        super().on_batch_begin(net, batch=batch, training=training, **kwargs)
        self._keep(batch)

    def _keep(self, batch: Any) -> None:
        if self._trainer is not None:
            self._trainer.batch = batch
            self._check_same(batch)

    def train_step(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """Train on one mini-batch, transformed by `batch_transform`."""
        # Not in train_step_single, which skorch's mixin for accelerate replaces.
        if self.batch_transform is not None:
            batch = self._transform(batch)
            self._keep(batch)
        return super().train_step(batch, **fit_params)

    def _transform(self, batch: Any) -> Batch:
        """Return the transformed mini-batch, with soft targets."""
        X, y = (to_tensor(part, device=self._placement) for part in unpack_data(batch))
        target = one_hot(y, len(self.classes_inferred_))
        target = target.to(getattr(torch, self.dtype))
        weight = self._on_device(batch, "sample_weight")
        X, target, weight = self.batch_transform(X, target, weight)
        batch = Batch((X, target))
        batch.sample_weight = weight
        return batch

    def get_loss(
        self,
        y_pred: Any,
        y_true: Any,
        *args: Any,
        training: bool = False,
        **kwargs: Any,
    ) -> Tensor:
        """Return the loss of one mini-batch of logits and encoded labels."""
        logits = y_pred[0] if isinstance(y_pred, tuple) else y_pred
        check_logits(self, logits)
        options, batch = {}, self._trainer and self._trainer.batch
        weight = self._on_device(batch, "sample_weight")
        if weight is not None:
            options["sample_weight"] = weight.to(logits.dtype)
        if training and self._loss.needs_indices:
            options["indices"] = self._indices(batch)
        y_true = to_tensor(y_true, device=self._placement)
        return self.criterion_(logits, y_true, **options)

    def _indices(self, batch: Any) -> Tensor:
        """Return the indices of the samples of the mini-batch in the training data."""
        indices = self._on_device(batch, "indices")
        if indices is None:
            raise ValueError(
                f"loss {type(self.criterion_).__name__} needs the indices of the "
                "samples, got a batch without indices. Remove batch_transform and the "
                "DataLoader options of iterator_train, and pass X as an array or as a "
                "Dataset with a length."
            )
        return indices

    def on_batch_end(
        self,
        net: Any,
        batch: Any = None,
        training: bool = False,
        y_pred: Any = None,
        **kwargs: Any,
    ) -> None:
        """Let a loss with a history record the logits."""
        super().on_batch_end(net, batch=batch, training=training, **kwargs)
        if training and self._loss.needs_indices:
            logits = y_pred[0] if isinstance(y_pred, tuple) else y_pred
            y = to_tensor(unpack_data(batch)[1], device=self._placement)
            self._loss.record(logits, y, indices=self._indices(batch))

    def _on_device(self, batch: Any, name: str) -> Tensor | None:
        """Return an attribute of a mini-batch on the device, or None."""
        values = getattr(batch, name, None)
        return None if values is None else to_tensor(values, device=self._placement)
