"""`NeuralClassifier`: skorch's classifier with a loss to choose and to search."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from skorch.dataset import Dataset
from skorch.utils import is_dataset
from torch.utils.data import Dataset as TorchDataset

from sklearn_calib._core.links import softmax
from sklearn_calib._core.restore import restores
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib._torch.outputs import concatenate_logits
from sklearn_calib.estimators._batches import iterate_batches
from sklearn_calib.estimators._check_data import check_data
from sklearn_calib.estimators._constraints import (
    CONSTRAINTS,
    REFUSED,
    check_not_refused,
    check_posterior,
)
from sklearn_calib.estimators._skorch import SkorchClassifier
from sklearn_calib.estimators._trainer import Trainer


class NeuralClassifier(SkorchClassifier):
    """Neural classifier that is trained with a calibration loss.

    A :class:`skorch.NeuralNetClassifier` in which the loss is a parameter like any
    other: `loss` names it and `loss__gamma`, `loss__lambd`, ... are its own
    parameters, which :class:`~sklearn.model_selection.GridSearchCV` can search.

    Parameters
    ----------
    module : torch.nn.Module class or instance, default=None
        The network. It returns one logit for each class, shape
        (n_samples, n_classes). A class is built with `module__...` parameters, and
        with `n_features`, `n_channels` and `n_classes` of the data where its
        constructor takes them; an instance is copied. None builds
        :class:`~sklearn_calib.estimators.MLP` for tables and
        :class:`~sklearn_calib.estimators.ConvNet` for images of shape
        (n_samples, n_channels, height, width).

    loss : str, class or instance, default="cross_entropy"
        The loss: a name out of :func:`sklearn_calib.losses.get_loss_names`, or a
        `torch.nn.Module` class or instance that is called with logits and encoded
        labels. When `loss` changes, values of `loss__...` that were set for the
        loss before are dropped.

    optimizer : torch.optim.Optimizer class, default=torch.optim.Adam
        The optimiser; its parameters are `optimizer__...`.

    lr : float, default=1e-3
        Learning rate, greater than 0.

    batch_size : int, default=128
        Samples in a batch; -1 takes all of them at once.

    max_epochs : int, default=50
        Passes over the training data, at least 1.

    validation_fraction : float, default=None
        Fraction of the training data that is held out, stratified, in (0, 1). None is
        0.1 where something watches validation data (early stopping, a callback that
        monitors `valid_...`, a loss that learns from them), and nothing otherwise.

    early_stopping : bool, default=False
        Stop when `valid_log_loss` has not improved for `n_iter_no_change` epochs,
        and return to the weights that had the best.

    n_iter_no_change : int, default=10
        Epochs without improvement before early stopping.

    batch_transform : callable, default=None
        What each batch goes through before the network trains on it, such as
        :class:`~sklearn_calib.datasets.Mixup`: a function of inputs, targets as
        probabilities and weights (or None) that returns the three. The loss must take
        probabilities as targets, as all losses of single samples and "mdca" do.

    refit : bool, default=False
        Train once more, on all of the data, if a share of them was held out: for as
        many epochs as gave the weights that were kept, and with a loss that learns
        starting each epoch in the state in which it started that epoch before.

    posterior : bool, default=False
        Let `predict_proba` return the class posterior that the loss recovers from the
        network's output, by its method `posterior`. Losses such as the focal loss are
        not proper: their minimiser differs from the true probabilities by a known map.
        Nothing is fitted for it, and `predict` stays the same.

    random_state : int, RandomState instance or None, default=None
        Controls the initial weights, the order of the samples, dropout and the
        validation set. With an int every epoch is seeded by the int and its number: a
        resumed run equals one that was never interrupted, except that early stopping
        counts anew. Torch's global generator is seeded while `fit` runs, and put back
        afterwards. Seeded fits in several threads wait for each other. A thread that
        draws from the generator meanwhile, such as a fit without a seed, changes their
        results: give it a seed, or a `torch.Generator` of its own.

    dtype : {"float32", "float64"}, default="float32"
        Precision of the data and of the network. A module for integers casts them
        back itself; in float32 they are exact up to 2**24.

    device : str or torch.device, default="cpu"
        Where to compute.

    callbacks : list, default=None
        Further skorch callbacks, such as `Checkpoint` and `ProgressBar`.

    train_split : callable, default=None
        skorch's own way to hold out validation data, in place of
        `validation_fraction`.

    iterator_train, iterator_valid : callable, default=iterate_batches
        Make batches out of a dataset. The training batches are shuffled unless
        `iterator_train__shuffle=False`.

    dataset : class, default=skorch.dataset.Dataset
        Holds X and y.

    warm_start : bool, default=False
        Let `fit` go on from the weights of the previous call.

    verbose : int, default=0
        0 is silent, 1 prints a row for each epoch.

    compile : bool, default=False
        Compile the network by `torch.compile`.

    use_caching : bool or "auto", default="auto"
        Whether scores of the validation data reuse the validation pass.

    torch_load_kwargs : dict, default=None
        Passed to `torch.load` when parameters are loaded.

    **kwargs : dict
        `module__...`, `loss__...`, `optimizer__...`, `iterator_train__...`,
        `iterator_valid__...`, `dataset__...`, `callbacks__...`, `compile__...`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted. While the network trains, callbacks see labels encoded as
        0 to n_classes - 1, here, in `predict` and in y.

    n_features_in_ : int
        Number of columns of X, or of channels.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, when X is a DataFrame with string names.

    module_ : torch.nn.Module
        The trained network.

    criterion_ : torch.nn.Module
        The loss that was trained.

    history_ : skorch.history.History
        For each epoch `train_loss` and, with validation data, `valid_loss`,
        `valid_acc`, `valid_log_loss` and `valid_ece`; and what a loss that learns has
        learned, such as the `gamma` of each bin.

    interrupted_ : bool
        Whether training ended by `KeyboardInterrupt`, which `fit` raises again after
        the callbacks' `on_train_end`. The network keeps the weights of that moment, or
        with early stopping the best until then. Before the first epoch an interrupt
        leaves everything as it was before `fit`.

    validation_history_ : skorch.history.History
        The history of the run with a held-out share, where `refit` made another.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_calib import NeuralClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> net = NeuralClassifier(loss="focal", loss__gamma=2.0, random_state=0)
    >>> net.fit(X, y).predict_proba(X).shape
    (150, 3)
    """

    _parameter_constraints = CONSTRAINTS

    def __init__(
        self,
        module: Callable[..., Any] | None = None,
        *,
        loss: str | Callable[..., Any] = "cross_entropy",
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
        lr: float = 1e-3,
        batch_size: int = 128,
        max_epochs: int = 50,
        validation_fraction: float | None = None,
        early_stopping: bool = False,
        n_iter_no_change: int = 10,
        batch_transform: Callable[..., Any] | None = None,
        refit: bool = False,
        posterior: bool = False,
        random_state: int | np.random.RandomState | None = None,
        dtype: str = "float32",
        device: str | torch.device = "cpu",
        callbacks: list[Any] | str | None = None,
        train_split: Callable[..., Any] | None = None,
        iterator_train: Callable[..., Any] = iterate_batches,
        iterator_valid: Callable[..., Any] = iterate_batches,
        dataset: Callable[..., Any] = Dataset,
        warm_start: bool = False,
        verbose: int = 0,
        compile: bool = False,
        use_caching: bool | str = "auto",
        torch_load_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        check_not_refused(kwargs)
        super().__init__(
            module,
            optimizer=optimizer,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            iterator_train=iterator_train,
            iterator_valid=iterator_valid,
            dataset=dataset,
            train_split=train_split,
            callbacks=callbacks,
            warm_start=warm_start,
            verbose=verbose,
            device=device,
            compile=compile,
            use_caching=use_caching,
            torch_load_kwargs=torch_load_kwargs,
            **kwargs,
        )
        self.loss = loss
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.batch_transform = batch_transform
        self.refit = refit
        self.posterior = posterior
        self.random_state = random_state
        self.dtype = dtype
        # Not parameters here, or state that the class holds until the first fit.
        for name in (*REFUSED, "history_", "initialized_", "virtual_params_"):
            self.__dict__.pop(name, None)

    @property
    def decision_function_is_logits(self) -> bool:
        """Whether the softmax of the decision function is `predict_proba`."""
        return not self.posterior

    @restores(unless="interrupted_")
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the network: anew, or further if `warm_start`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Training data, finite. Images have shape
            (n_samples, n_channels, height, width).

        y : array-like of shape (n_samples,)
            Labels of any kind, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; 2 counts as two samples, 0 leaves one out.

        **fit_params : dict
            Passed to the forward of the module, and to `train_split`.

        Returns
        -------
        self : NeuralClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If X is sparse, `loss` is no loss, or a loss takes no weights.

        ValueError
            If X, y or a parameter is not as described; the message names it.
        """
        Trainer(self, "fit", fit_params).train(X, y, sample_weight)
        return self

    @restores(unless="interrupted_")
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train for one epoch on all of the data, from the weights as they are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Training data, finite.

        y : array-like of shape (n_samples,)
            Labels.

        classes : array-like of shape (n_classes,), default=None
            All the labels that there are. Required in the first call.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        **fit_params : dict
            Passed to the forward of the module.

        Returns
        -------
        self : NeuralClassifier
            The classifier, trained further.

        Raises
        ------
        ValueError
            If the first call lacks `classes`, a later one changes them, or
            `early_stopping` is on.
        """
        fit_params = {**fit_params, "epochs": 1}
        trainer = Trainer(self, "partial_fit", fit_params)
        trainer.train(X, y, sample_weight, classes)
        return self

    def predict_proba(self, X: ArrayLike | TorchDataset) -> Floats:
        """Predict probabilities: the softmax of the logits, in float64.

        With `posterior`, what the loss makes of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Data, finite.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one; columns are in the order of `classes_`.
        """
        proba = softmax(self._logits(X))
        if not self.posterior:
            return proba
        check_posterior(self)
        return self._loss.posterior(proba)

    def decision_function(self, X: ArrayLike | TorchDataset) -> Floats:
        """Return the logits, in float64.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Data, finite.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes the logit of the second minus that of the first.
        """
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: ArrayLike | TorchDataset) -> Array:
        """Predict the most probable label, the first one of a tie.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Data, finite.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Labels.
        """
        codes = softmax(self._logits(X)).argmax(axis=1)
        return self.classes_[codes]

    def _logits(self, X: ArrayLike | TorchDataset) -> Floats:
        check_is_fitted(self)
        if not is_dataset(X):
            X = check_data(self, X, reset=False)
        return concatenate_logits(self.forward_iter(X))
