"""`FitRun`: one call of `fit` or `partial_fit` of a neural classifier."""

import warnings
from copy import deepcopy

import joblib
import numpy as np
import torch
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from skorch.callbacks import EarlyStopping, EpochScoring
from skorch.dataset import Dataset, ValidSplit, unpack_data
from skorch.helper import SliceDataset
from skorch.utils import is_dataset, to_numpy, to_tensor
from torch import Tensor, nn
from torch.utils.data import IterableDataset, Subset

from sklearn_calib._sklearn.fit_tasks import fit_data
from sklearn_calib._validation.labels import encode_labels
from sklearn_calib._validation.probabilities import are_proba, check_sample_weight
from sklearn_calib.callbacks import Checkpoint
from sklearn_calib.estimators._neural.batches import check_batch_order
from sklearn_calib.estimators._neural.net_data import (
    check_can_take_datasets,
    check_has_length,
    check_no_split,
    check_pair,
    check_partial_fit,
    check_representable,
    check_rows,
    check_same_classes,
    check_several_classes,
    check_takes_dataset,
    drop_zeros,
    multiply_class_weight,
    read_first_batch,
    sample_shape,
)
from sklearn_calib.estimators._neural.networks import warn_of_scale
from sklearn_calib.estimators._neural.param_checks import (
    check_can_refit,
    check_posterior,
    check_shared,
    check_takes_weights,
    stopping_score,
    warn_of_calibration_error,
)
from sklearn_calib.estimators._neural.params import (
    accepted_names,
    hint_for_fit,
    renew,
)
from sklearn_calib.estimators._neural.placement import (
    check_same,
    draw_seed,
    epoch_seed,
    restored_threads,
    seed_torch,
    seeded_torch,
)

# Keywords of fit for skorch's loop over the epochs.
_FOR_LOOP = {"epochs", "_routing_method"}

# A network whose parameters are all below this absolute value has not diverged.
_MODERATE = 1e3

# Parameters that may differ between a run and its continuation.
_FREE = (
    *("callbacks", "device", "lr", "max_epochs", "verbose"),
    # Those of skorch's mixin for accelerate.
    *("accelerator", "callbacks__print_log__sink", "unwrap_after_train"),
)


class ValidationScore(EpochScoring):
    """`EpochScoring` of a function, which is called without a scorer.

    In each epoch, skorch lets scikit-learn make and check a scorer, which takes longer
    than the score of a small set.
    """

    def _scoring(self, net, X_test, y_test):
        if callable(self.scoring_):
            return self.scoring_(net, X_test, y_test)
        return super()._scoring(net, X_test, y_test)


def valid_acc(net, dataset, y):
    """Return the accuracy of a network on the validation set."""
    return float(np.mean(net.predict(dataset) == y))


class FitRun:
    """What one call of `fit` or `partial_fit` of a net knows.

    The net stores it as `_run` during the call. skorch calls the methods of the net,
    which ask it for the split, the weights and the state of the loss. It does not set
    attributes of the net.

    Parameters
    ----------
    net : NeuralClassifier
        The net to train.

    method : {"fit", "partial_fit"}
        The method that was called. `partial_fit` does not hold out data.

    fit_params : dict
        Additional keywords of the method.

    Attributes
    ----------
    classes, input_shape : ndarray, tuple of int or None
        The labels, and the shape of a sample of one array, after `prepare`.

    sample_weight, batch : ndarray or None, object
        The weights of the samples, and the current mini-batch.
    """

    def __init__(self, net, method, fit_params):
        self.net = net
        self.hold_out = method == "fit"
        self.fit_params = {"_routing_method": method, **fit_params}
        self.reset = not net.initialized_ or (self.hold_out and not net.warm_start)
        self.classes = self.input_shape = None
        self.seed = self.sample_weight = self.batch = None
        self._has_seen_logits = False
        # The validation set that was given, and whether torch's datasets were.
        self.validation, self.takes_datasets = None, False
        # The tasks of `fit` and of the current epoch for scikit-learn's callbacks, and
        # whether one of them asked to stop.
        self._task = self._epoch_task = None
        self._data = {}
        self._is_stopped = False
        # The states of the loss at the start of each epoch of a run with validation
        # data. The second run, on all data, restores them.
        self._loss_states = []

    def begin(self, X, y, sample_weight):
        """Begin the task of `fit`; scikit-learn's callbacks do not follow others."""
        if not self.hold_out:
            return
        net = self.net
        n_epochs = self.fit_params.get("epochs") or net.max_epochs
        self._data = {"estimator": net, **fit_data(X, y, sample_weight)}
        self._task = net._init_callback_context(
            max_subtasks=None if net.refit else n_epochs
        )
        self._task.call_on_fit_task_begin(**self._data)

    def end_epoch(self):
        """End the task of the epoch; return whether a callback asks to stop."""
        task, self._epoch_task = self._epoch_task, None
        if task is not None:
            self._is_stopped = task.call_on_fit_task_end(
                **self._data, reconstruction_attributes={}
            )
        return self._is_stopped

    def end(self):
        """End the task of `fit`."""
        if self._task is not None:
            self._task.call_on_fit_task_end(**self._data, reconstruction_attributes={})

    def prepare(self, X, y, sample_weight, classes, validation):
        """Validate the data, and return them with encoded labels."""
        self.takes_datasets = is_dataset(X) or is_dataset(validation)
        if self.takes_datasets:
            check_can_take_datasets(self.net)
        if validation is not None and not is_dataset(validation):
            check_pair(validation, "a pair (X, y), a Dataset or None")
        if self.hold_out and validation is not None:
            check_no_split(self.net)
        self.validation = validation
        known = self.net.classes_inferred_
        is_first = self.reset or known is None
        if self.hold_out:
            classes = check_same_classes(None if is_first else known, classes)
        else:
            classes = check_partial_fit(self.net, classes)
        prepare = self._prepare_dataset if is_dataset(X) else self._prepare
        return prepare(X, y, sample_weight, classes, is_first)

    def _prepare(self, X, y, sample_weight, classes, is_first):
        """Return validated X and encoded labels."""
        net = self.net
        X, y = check_rows(net, X, y, reset=is_first)
        is_sliced = isinstance(X, SliceDataset)
        self.input_shape = (
            read_first_batch(net, X, reset=is_first) if is_sliced else sample_shape(X)
        )
        self.classes = np.unique(y) if classes is None else classes
        check_several_classes(self.classes)
        n_classes = len(self.classes)
        codes = encode_labels(y, labels=self.classes, n_classes=n_classes, name="y")
        weight = check_sample_weight(sample_weight, codes)
        weight = multiply_class_weight(net.class_weight, codes, self.classes, weight)
        if weight is not None:
            is_plain = net.class_weight is None
            name = "sample_weight" if is_plain else "sample_weight times class_weight"
            check_representable(weight, net.dtype, name)
            X, codes, self.sample_weight = drop_zeros(X, codes, weight)
        if self.hold_out:
            check_several_classes(self.classes[np.unique(codes)])
        if is_first:
            warn_of_scale(net.module, X)
        return X, codes

    def _prepare_dataset(self, X, y, sample_weight, classes, is_first):
        """Validate the first batch of a dataset, and return the dataset."""
        check_takes_dataset(self.net, y, sample_weight, classes)
        check_several_classes(classes)
        self.input_shape = read_first_batch(self.net, X, reset=is_first)
        self.classes = classes
        return X, None

    def train(self, X, codes):
        """Train once on prepared data."""
        self.seed = draw_seed(self.net.random_state)
        self._train(X, codes, self.reset)

    def count_epochs_to_refit(self):
        """Return the number of epochs of a second run on all data, 0 for none."""
        net = self.net
        if not (self.hold_out and net.refit and "valid_loss" in net.history[-1]):
            return 0
        if not net.early_stopping:
            return len(net.history)
        n_epochs = dict(net.callbacks_)["early_stopping"].best_epoch_
        if not n_epochs:
            _warn_of_no_best_epoch(net)
        return n_epochs

    def train_on_all(self, X, codes, n_epochs):
        """Train a new network on all data."""
        self.hold_out = False
        self.fit_params["epochs"] = n_epochs
        self._train(X, codes, reset=True)

    def _train(self, X, codes, reset):
        """Train one run with skorch, with the seed of this call."""
        net = self.net
        self.batch, self._is_stopped = None, False
        with seeded_torch(self.seed, net.device), restored_threads():
            if reset:
                net.initialize()
            else:
                renew(net)
                net._initialize_callbacks()
            check_shared(net, self.seed)
            check_posterior(net)
            if net.refit:
                check_can_refit(net.callbacks_)
            warn_of_calibration_error(net.callbacks_)
            self._check_fit_params()
            self._train_epochs(X, codes)
            predicts_numbers = self._predicts_numbers()
        _warn_if_diverged(net.history, predicts_numbers)

    def _train_epochs(self, X, y):
        """Train as skorch does, but resume from a checkpoint and raise interrupts."""
        net, params = self.net, dict(self.fit_params)
        checkpoint = find_checkpoint(net)
        if checkpoint is not None:
            check_can_resume(net, hold_out=self.hold_out, seed=self.seed)
            # Before other callbacks look at the history and the weights.
            data = X, y, self.sample_weight
            checkpoint.begin(net, training_key(net, *data, self.validation))
        net.notify("on_train_begin", X=X, y=y)
        n_epochs_before = len(net.history)
        try:
            if checkpoint is not None:
                params["epochs"] = resume(net, checkpoint, params.get("epochs"))
            net.fit_loop(X, y, **params)
            if checkpoint is not None:
                checkpoint.save(net, len(net.history))
        except KeyboardInterrupt:
            if not self._has_stopped_early():
                if len(net.history) > n_epochs_before:
                    net._end_training(X, y, is_interrupted=True)
                raise
        self.end_epoch()
        net._end_training(X, y)

    def _has_stopped_early(self):
        """Return whether the interrupt came from early stopping or a callback."""
        return self._is_stopped or any(
            isinstance(each, EarlyStopping) and each.misses_ == each.patience
            for _, each in self.net.callbacks_
        )

    def _check_fit_params(self):
        """Raise TypeError for a keyword that its receiver does not take."""
        names = [name for name in self.fit_params if name not in _FOR_LOOP]
        if not names:
            return
        net, method = self.net, self.fit_params["_routing_method"]
        module = getattr(net.module_, "_orig_mod", net.module_)
        receivers = {f"the forward of {type(module).__name__}": module.forward}
        splits = self.hold_out and net.train_split
        if splits and not get_config()["enable_metadata_routing"]:
            receivers["train_split"] = net.train_split
        for receiver, function in receivers.items():
            known = accepted_names(function)
            for name in names:
                if known is not None and name not in known:
                    hint = hint_for_fit(name, known, net, method)
                    raise TypeError(
                        f"{method} got an unexpected keyword {name!r}, which "
                        f"{receiver} does not take.{hint}"
                    )

    def _predicts_numbers(self):
        """Return whether the network's probabilities are finite, for the last batch."""
        net = self.net
        sizes = (p.detach().abs().max() for p in net.module_.parameters() if p.numel())
        if all(size < _MODERATE for size in sizes) or self.batch is None:
            return True
        X = to_tensor(unpack_data(self.batch)[0], device=net.device)
        params = self.fit_params.items()
        net._set_training(False)
        with torch.no_grad():
            output = net.infer(X, **{k: v for k, v in params if k not in _FOR_LOOP})
        logits = output[0] if isinstance(output, tuple) else output
        return bool(logits.softmax(1).isfinite().all())

    # Called by the net during training ---------------------------------------------

    def split(self, X, y, split_params):
        """Return the training set and the validation set or None."""
        net = self.net
        dataset = net.get_dataset(X, y)
        # Before a long training, since predictions would be refused.
        is_stream = isinstance(dataset, IterableDataset)
        sample = dataset if is_stream else Subset(dataset, [0])
        check_batch_order(net._get_batches(sample, training=False), predicts=False)
        if dataset is not X:
            dataset.sample_weight = self.sample_weight
        if self.sample_weight is not None:
            check_takes_weights(net.criterion_)
        draws = self.hold_out and self.validation is None
        split = self._find_split(dataset, y) if draws else None
        if split is None:
            train, valid = dataset, self.validation
        elif not net.train_split:
            train, valid = split(dataset, y)
        else:
            train, valid = split(dataset, y, **split_params)
        self._check_can_learn(valid)
        is_drawn = split is not None and not net.train_split
        self._start_history(train, is_drawn=is_drawn)
        return train, self._encode(valid)

    def _find_split(self, dataset, y):
        """Return the splitter for the validation set, or None."""
        net, fraction = self.net, self.net.validation_fraction
        if net.train_split:
            if fraction is not None:
                raise ValueError(
                    "validation_fraction must be None with a train_split, got "
                    f"{fraction}. Set only one of the two."
                )
            if isinstance(net.train_split, ValidSplit):
                way_out = "Use skorch.helper.predefined_split(valid_dataset)."
                check_has_length(dataset, "train_split", net.train_split, way_out)
            return net.train_split
        if fraction is None and self._needs_validation():
            fraction = 0.1
        if fraction is None:
            return None
        if y is None:
            raise ValueError(
                "validation_fraction cannot hold out a part of a Dataset, and this "
                "training needs a validation set. Set "
                "train_split=skorch.helper.predefined_split(valid_dataset)."
            )
        return validation_split(fraction, y, self.seed)

    def _needs_validation(self):
        """Return whether the loss or a callback needs validation data."""
        monitors = [getattr(each, "monitor", None) for _, each in self.net.callbacks_]
        return self.net._loss.learns_from_validation or any(
            isinstance(name, str) and name.startswith("valid") for name in monitors
        )

    def _check_can_learn(self, valid):
        """Raise ValueError if the loss needs validation data and there are none."""
        learns = self.net._loss.learns_from_validation
        if valid is None and learns and not self._loss_states:
            way_out = "Hold out data with validation_fraction, or pass X_val and y_val."
            if not self.hold_out:
                way_out = (
                    "partial_fit holds out no data. Pass validation=(X, y), or call "
                    "fit, with warm_start=True to continue from the current weights."
                )
            raise ValueError(
                f"loss {type(self.net.criterion_).__name__} must have validation data "
                f"to learn from, got none. {way_out}"
            )

    def _start_history(self, train, *, is_drawn):
        """Start the history of a loss, unless it has one of the same samples."""
        loss = self.net._loss
        if not loss.needs_indices:
            return
        check_has_length(train, "loss", self.net.loss, "Choose a loss without records.")
        n_samples = len(train)
        # Without a seed, the previous fit had another validation set.
        is_new_split = is_drawn and self.seed is None
        if is_new_split or len(loss.history) != n_samples:
            loss.start_history(n_samples)

    def _encode(self, validation):
        """Encode a validation set that is not part of the training data."""
        if isinstance(validation, Dataset):
            validation = validation.X, validation.y
        if not isinstance(validation, tuple | list):
            return validation
        labels = self.classes
        try:
            X, y = check_rows(self.net, *validation, reset=False)
            codes = encode_labels(y, labels=labels, n_classes=len(labels), name="y")
        except (TypeError, ValueError) as error:
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"Validation set: {error}") from error
        return self.net.get_dataset(X, codes)

    def start_batch(self, batch):
        """Keep a mini-batch, which must be the same in all processes."""
        self.batch = batch
        check_same(self.net, batch)

    def warn_of_proba(self, logits):
        """Warn if the first output of the module looks like probabilities."""
        is_first, self._has_seen_logits = not self._has_seen_logits, True
        if is_first and are_proba(to_numpy(logits.float())):
            warnings.warn(
                "module should return logits, got outputs that look like "
                "probabilities: none is negative, and each row sums to one. Remove the "
                "softmax at the end of the module, as the loss and predict_proba "
                "apply it.",
                UserWarning,
            )

    def start_epoch(self):
        """Seed the epoch by its number, so that a resumed run is reproducible."""
        epoch, loss = len(self.net.history), self.net._loss
        if self.seed is not None:
            seed_torch(epoch_seed(self.seed, epoch), self.net.device)
        if loss.learns_from_validation:
            self._keep_loss_state(epoch - 1)
        loss.start_epoch()
        if self._task is not None:
            self._epoch_task = self._task.subcontext(task_name="epoch")
            self._epoch_task.call_on_fit_task_begin(**self._data)

    def _keep_loss_state(self, epoch):
        """Store the state of the loss, or restore the one of the first run."""
        criterion, loss = self.net.criterion_, self.net._loss
        if self.hold_out or self.validation is not None:
            state = criterion.state_dict()
            # The history is large, and specific to the samples of this run.
            state.pop("history", None)
            self._loss_states.append(deepcopy(state))
        else:
            own = {"history": loss.history} if loss.needs_indices else {}
            criterion.load_state_dict({**self._loss_states[epoch], **own})


def validation_split(fraction, y, seed):
    """Return the splitter that holds out a stratified fraction of the samples."""
    n_classes, smallest = len(np.unique(y)), np.bincount(y)[np.unique(y)].min()
    n_valid = int(np.ceil(fraction * len(y)))
    if smallest < 2 or not n_classes <= n_valid <= len(y) - n_classes:
        raise ValueError(
            f"validation_fraction={fraction} must leave a training and a validation "
            f"sample of every class, got {len(y)} samples of {n_classes} classes, "
            f"{smallest} of the smallest. Pass more samples, another fraction, or a "
            "train_split."
        )
    return ValidSplit(float(fraction), stratified=True, random_state=seed)


def _warn_if_diverged(history, predicts_numbers):
    """Warn if the training loss or the probabilities are not finite after training."""
    loss = history[-1].get("train_loss", 0.0) if len(history) else 0.0
    if np.isfinite(loss) and predicts_numbers:
        return
    found = f"The training loss is {loss} after epoch {len(history)}"
    if np.isfinite(loss):
        found = f"The network has diverged in the last step of epoch {len(history)}"
    if not predicts_numbers:
        found += ", and the probabilities are not finite"
    warnings.warn(
        f"{found}. Lower lr, or scale the features.", ConvergenceWarning, stacklevel=2
    )


def _warn_of_no_best_epoch(net):
    """Warn that refit is skipped because early stopping found no best epoch."""
    warnings.warn(
        f"refit was skipped, because {stopping_score(net)} was not finite in any of "
        f"the {len(net.history)} epochs. The network is that of the last epoch. Lower "
        "lr, or scale the features.",
        ConvergenceWarning,
    )


def find_checkpoint(net):
    """Return the checkpoint among the callbacks of a net, or None."""
    found = [each for _, each in net.callbacks_ if isinstance(each, Checkpoint)]
    if len(found) > 1:
        raise ValueError(
            "callbacks must hold one sklearn_calib.callbacks.Checkpoint, got "
            f"{len(found)}. Remove the others."
        )
    return found[0] if found else None


def check_can_resume(net, *, hold_out, seed):
    """Raise ValueError for a training that cannot be resumed."""
    for name, is_set, way_out in [
        ("warm_start", net.warm_start, "Set max_epochs to the sum of all epochs"),
        ("refit", net.refit, "Use early_stopping without refit"),
        ("partial_fit", not hold_out, "Call fit"),
    ]:
        if is_set:
            raise ValueError(
                f"{name} must not be used with a Checkpoint, which resumes one "
                f"call of fit. {way_out}, or remove the Checkpoint."
            )
    if seed is None:
        raise ValueError(
            "random_state must be an integer with a Checkpoint, got None: a resumed "
            "training would give other results. Set it to an integer."
        )


def resume(net, checkpoint, n_epochs):
    """Load a checkpoint, and return the number of remaining epochs."""
    n_epochs = net.max_epochs if n_epochs is None else n_epochs
    n_done = checkpoint.resume(net)
    n_least = n_done + checkpoint.has_new_lr_
    if n_epochs < n_least:
        more = f"one more for lr={net.lr} than " * checkpoint.has_new_lr_
        raise ValueError(
            f"max_epochs must be at least {n_least}, {more}the epochs of the "
            f"checkpoint {str(checkpoint.file)!r}, got {n_epochs}. Remove the "
            "file to train from the start."
        )
    return n_epochs - n_done


def training_key(net, X, y, sample_weight, validation):
    """Return a hash of the data and the parameters of a training."""
    params = fingerprint(net)
    params = {name: params[name] for name in params if name not in _FREE}
    # Datasets may be too large to hash, or change while they are read.
    data = [X, y, sample_weight]
    if isinstance(validation, tuple | list):
        data += validation
    elif validation is not None:
        data.append(validation)
    return joblib.hash([params, net.classes_inferred_, *map(_hashable, data)])


def _hashable(data):
    is_lazy = is_dataset(data) or isinstance(data, SliceDataset)
    return type(data).__qualname__ if is_lazy else data


def fingerprint(net):
    """Return the parameters of a net in a form with a reproducible hash.

    joblib hashes a module and its copy differently although their weights are equal, so
    modules are replaced by their type, representation and weights.
    """
    params = net.get_params(deep=False)
    del params["verbose"]
    return {name: _fingerprint(value) for name, value in params.items()}


def _fingerprint(value):
    if not isinstance(value, nn.Module):
        return value
    state = {name: to_numpy(tensor) for name, tensor in value.state_dict().items()}
    return type(value), repr(value), state


def check_logits(logits, n_classes):
    """Raise an error unless the output of a module is logits of all classes."""
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"module must return a tensor of logits, got {type(logits).__name__}. "
            "Return its logits in the forward method of a module that calls it."
        )
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise ValueError(
            "module must return logits of shape (n_samples, n_classes) with "
            f"n_classes={n_classes}, got shape {tuple(logits.shape)}. Two classes "
            "need two logits."
        )
