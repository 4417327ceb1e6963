"""What happens around one run of skorch: checks, encoding, seeds and a second run."""

from copy import copy
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from skorch.callbacks import Checkpoint, EarlyStopping, LoadInitState, LRScheduler

from sklearn_calib._core.restore import restores
from sklearn_calib._core.validation import check_sample_weight, encode_labels
from sklearn_calib.estimators._parameters import check_known
from sklearn_calib.estimators._training import (
    Training,
    check_representable,
    check_two_classes,
    draw_seed,
    drop_zeros,
    seeded_torch,
    warn_if_diverged,
)


class FitMixin:
    """Training for a skorch classifier, between the data of a user and skorch's."""

    # An interruption leaves the network as far as it was trained.
    @restores(Exception)
    def _train(self, X, y, sample_weight, classes, anew, method, fit_params):
        """Check and encode the data, then let skorch train on them."""
        self._check_params()
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
        self._run(training, X, codes, anew, _routing_method=method, **fit_params)
        if self.refit and "valid_loss" in self.history[-1]:
            training = replace(training, hold_out=False)
            fit_params["epochs"] = self._count_epochs_kept()
            self.validation_history_ = copy(self.history)  # which skorch clears
            self._run(training, X, codes, True, _routing_method=method, **fit_params)
        return self

    def _check_params(self):
        """Raise an error for a parameter of a wrong name or value."""
        check_known(self, self._get_param_names())
        BaseEstimator._validate_params(self)
        self._check_refit()

    def _run(self, training, X, codes, anew, **fit_params):
        """Let skorch train, on seeds and weights that hold for this run."""
        self._training = training
        try:
            with seeded_torch(training.seed):
                if anew:
                    self.initialize()
                else:
                    self._initialize_callbacks()
                self._check_posterior()
                self._check_callbacks()
                super().partial_fit(X, codes, **fit_params)
        finally:
            self._training = self._batch = None
        warn_if_diverged(self.history)

    def _count_epochs_kept(self):
        """Return how many epochs led to the weights that the network has now."""
        if not self.early_stopping:
            return len(self.history)
        return dict(self.callbacks_)["early_stopping"].best_epoch_

    def _check_posterior(self):
        """Raise ValueError if the loss does not tell the posterior."""
        if not self.posterior:
            return
        if not hasattr(self.criterion_, "posterior"):
            raise ValueError(
                f"posterior must be False for the loss {type(self.criterion_).__name__}"
                ", which is not known to tell it, got True. Choose another loss, such "
                "as 'focal', or calibrate afterwards."
            )
        n_classes = len(self.classes_inferred_)
        self.criterion_.posterior(np.full((1, n_classes), 1 / n_classes))

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
