"""What happens around one run of skorch: checks, encoding, seeds and a second run."""

from dataclasses import replace

import numpy as np
import torch
from sklearn import get_config
from sklearn.base import BaseEstimator
from skorch.callbacks import Checkpoint, EarlyStopping, LoadInitState, LRScheduler
from skorch.dataset import unpack_data
from skorch.utils import to_tensor

from sklearn_calib._core.restore import restores
from sklearn_calib._core.validation import (
    check_sample_weight,
    did_you_mean,
    encode_labels,
)
from sklearn_calib.estimators._loss_params import warn_of_plain_update
from sklearn_calib.estimators._parameters import (
    accepted_names,
    check_callbacks,
    check_device,
    check_known,
    check_parts,
)
from sklearn_calib.estimators._training import (
    Training,
    check_representable,
    check_two_classes,
    draw_seed,
    drop_zeros,
    seeded_torch,
    warn_if_diverged,
    warn_of_no_best_epoch,
)

# What of the keywords of fit is for skorch's loop over the epochs.
_OF_THE_LOOP = {"epochs", "_routing_method"}

# Parameters up to this size are not those of a network that has diverged.
_MODERATE = 1e3


class FitMixin:
    """Training for a skorch classifier, between the data of a user and skorch's."""

    # Whether training ended by KeyboardInterrupt.
    interrupted_ = False

    @restores(unless="interrupted_")
    def _train(self, X, y, sample_weight, method, fit_params, classes=None):
        """Check and encode the data, then let skorch train on them."""
        self.interrupted_ = False
        self._check_params()
        anew = not self.initialized_ or (method == "fit" and not self.warm_start)
        if method == "partial_fit":
            classes = self._check_partial_fit(classes)
        elif not anew:
            classes = self._known_classes
        X, y = self._check_data(X, y, reset=anew or self._known_classes is None)
        classes = np.unique(y) if classes is None else classes
        check_two_classes(classes)
        codes = encode_labels(y, labels=classes, n_classes=len(classes), name="y")
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X)
            check_representable(sample_weight, self.dtype)
            X, codes, sample_weight = drop_zeros(X, codes, sample_weight)
        if method == "fit":
            check_two_classes(classes[np.unique(codes)])
        self.classes_inferred_ = classes
        self._input_shape = X.shape[1:]
        vars(self).pop("validation_history_", None)
        seed = draw_seed(self.random_state)
        training = Training(seed, method == "fit", sample_weight, loss_states=[])
        fit_params = {"_routing_method": method, **fit_params}
        self._run(training, X, codes, anew, fit_params)
        if self.refit and "valid_loss" in self.history[-1]:
            self._run_again(training, X, codes, fit_params)
        return self

    def _check_partial_fit(self, classes):
        """Return the classes of a call of partial_fit."""
        if self.early_stopping:
            raise ValueError(
                "early_stopping must be False for partial_fit, which holds out no "
                "validation data, got True. Call fit instead."
            )
        known = self._known_classes
        if known is None and classes is None:
            raise ValueError(
                "classes must be given in the first call of partial_fit, got None. "
                "Pass all the labels, such as numpy.unique(y) of the whole data."
            )
        classes = known if classes is None else np.unique(classes)
        if known is not None and not np.array_equal(classes, known):
            raise ValueError(
                f"classes must stay {known} after the first call of "
                f"partial_fit, got {classes}. Leave classes out, or call fit."
            )
        return classes

    def _run_again(self, training, X, codes, fit_params):
        """Train on all of the data, for as many epochs as were found to be best."""
        n_epochs = self._count_epochs_kept()
        if not n_epochs:
            warn_of_no_best_epoch(self.history)
            return
        self.validation_history_ = self.history
        training = replace(training, hold_out=False)
        self._run(training, X, codes, True, {**fit_params, "epochs": n_epochs})

    def _check_params(self):
        """Raise an error for a parameter of a wrong name or value."""
        check_known(self, self._get_param_names())
        BaseEstimator._validate_params(self)
        check_device(self.device)
        check_parts(self)
        if self.callbacks != "disable":
            check_callbacks(self)
        self._check_refit()
        warn_of_plain_update(self.loss)

    def _run(self, training, X, codes, anew, fit_params):
        """Let skorch train, on seeds and weights that hold for this run."""
        self._training = training
        try:
            with seeded_torch(training.seed):
                if anew:
                    self.initialize()
                else:
                    self._renew()
                    self._initialize_callbacks()
                self._check_posterior()
                self._check_callbacks()
                self._check_fit_params(fit_params)
                self._train_epochs(X, codes, fit_params)
                predicts_numbers = self._predicts_numbers(fit_params)
        finally:
            self._training = self._batch = None
        warn_if_diverged(self.history, predicts_numbers)

    def _train_epochs(self, X, y, fit_params):
        """Train as skorch does, but let an interrupt through to the caller."""
        self.notify("on_train_begin", X=X, y=y)
        n_epochs_before = len(self.history)
        try:
            self.fit_loop(X, y, **fit_params)
        except KeyboardInterrupt:
            if not self._has_stopped_early():
                self.interrupted_ = len(self.history) > n_epochs_before
                if self.interrupted_:
                    self.notify("on_train_end", X=X, y=y)
                raise
        self.notify("on_train_end", X=X, y=y)

    def _has_stopped_early(self):
        """Tell whether an interrupt is the way in which skorch stops early."""
        return any(
            isinstance(each, EarlyStopping) and each.misses_ == each.patience
            for _, each in self.callbacks_
        )

    def _predicts_numbers(self, fit_params):
        """Tell whether the probabilities are finite, of the last batch if need be."""
        sizes = (p.detach().abs().max() for p in self.module_.parameters() if p.numel())
        if all(size < _MODERATE for size in sizes) or self._batch is None:
            return True
        X = to_tensor(unpack_data(self._batch)[0], device=self.device)
        forwarded = {k: v for k, v in fit_params.items() if k not in _OF_THE_LOOP}
        self._set_training(False)
        with torch.no_grad():
            output = self.infer(X, **forwarded)
        logits = output[0] if isinstance(output, tuple) else output
        return bool(logits.softmax(1).isfinite().all())

    def _check_fit_params(self, names):
        """Raise TypeError for a keyword that what it is passed to does not take."""
        module = getattr(self.module_, "_orig_mod", self.module_)
        takers = {f"the forward of {type(module).__name__}": module.forward}
        splits = self._training.hold_out and self.train_split is not None
        if splits and not get_config()["enable_metadata_routing"]:
            takers["train_split"] = self.train_split
        for taker, function in takers.items():
            known = accepted_names(function)
            for name in names:
                if known is not None and name not in {*known, *_OF_THE_LOOP}:
                    raise TypeError(
                        f"fit got an unexpected keyword {name!r}, which {taker} does "
                        f"not take.{did_you_mean(name, {*known, 'sample_weight'})}"
                    )

    def _count_epochs_kept(self):
        """Return how many epochs led to the weights that the network has now."""
        if not self.early_stopping:
            return len(self.history)
        return dict(self.callbacks_)["early_stopping"].best_epoch_

    def _check_posterior(self):
        """Raise ValueError if the loss does not tell the posterior."""
        if not self.posterior:
            return
        n_classes = len(self.classes_inferred_)
        try:
            self._loss.posterior(np.full((1, n_classes), 1 / n_classes))
        except NotImplementedError:
            raise ValueError(
                f"posterior must be False for the loss {type(self.criterion_).__name__}"
                ", which is not known to determine it, got True. Choose another loss, "
                "such as 'focal', or calibrate afterwards."
            ) from None

    def _check_refit(self):
        """Raise ValueError if there is no start to go back to."""
        if self.refit and self.warm_start:
            raise ValueError(
                "refit must be False with warm_start, which goes on from weights that "
                "have seen the data, got True. Pass one of the two."
            )

    def _check_callbacks(self):
        """Raise ValueError if a callback cannot go through a run on all data."""
        if not self.refit:
            return
        for name, callback in self.callbacks_:
            if name != "early_stopping" and _belongs_to_one_run(callback):
                raise ValueError(
                    "refit must be False beside a callback that loads a state or "
                    "watches validation data, which the run on all data has not, got "
                    f"True and {name!r}. Leave it out, or use early_stopping=True."
                )


def _belongs_to_one_run(callback):
    """Tell whether a callback of skorch would fail, or begin elsewhere, in a second."""
    if isinstance(callback, LoadInitState):
        return True
    monitor = getattr(callback, "monitor", None)
    watches = isinstance(monitor, str) and monitor.startswith("valid")
    return watches and isinstance(callback, Checkpoint | EarlyStopping | LRScheduler)
