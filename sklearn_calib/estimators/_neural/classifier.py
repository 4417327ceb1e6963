"""`NeuralClassifier`: skorch's classifier with the loss as a parameter."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from skorch.dataset import Dataset

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._validation.arrays import row_blocks
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.types import Floats
from sklearn_calib.estimators._neural.batches import iterate_batches
from sklearn_calib.estimators._neural.logits import Inputs, PredictsFromBatches
from sklearn_calib.estimators._neural.param_checks import (
    CONSTRAINTS,
    REFUSED,
    check_not_refused,
    check_posterior,
)
from sklearn_calib.estimators._neural.skorch import SkorchClassifier
from sklearn_calib.estimators._neural.training import Trainer


class NeuralClassifier(PredictsFromBatches, SkorchClassifier):
    """Neural network classifier trained with a calibration loss.

    It is a :class:`skorch.NeuralNetClassifier` with the loss as a parameter. The
    parameters of the loss, such as `loss__gamma`, are parameters of the estimator, so
    :class:`~sklearn.model_selection.GridSearchCV` can tune them.

    Parameters
    ----------
    module : torch.nn.Module class or instance, default=None
        The network, which returns logits of shape (n_samples, n_classes). A class is
        built with the `module__...` parameters, and with `n_features`, `n_channels` and
        `n_classes` (or `num_classes`) of the data if it takes them. An instance is
        copied; if it is trained, `initialize(classes=labels)` makes a classifier of it
        without `fit`. None means :class:`~sklearn_calib.estimators.MLP` for tabular
        data and :class:`~sklearn_calib.estimators.ConvNet` for images of shape
        (n_samples, n_channels, height, width).

    loss : str, class or instance, default="cross_entropy"
        The loss: a name listed by :func:`sklearn_calib.losses.get_loss_names`, or a
        `torch.nn.Module` class or instance that is called with logits and encoded
        labels. A new `loss` drops the `loss__...` values set for the previous one.

    optimizer : torch.optim.Optimizer class, default=torch.optim.Adam
        The optimizer. Its parameters are `optimizer__...`.

    lr : float, default=1e-3
        Learning rate, greater than 0.

    batch_size : int, default=128
        Number of samples in a mini-batch, of all processes together; -1 means all.

    max_epochs : int, default=50
        Number of passes over the training data, at least 1.

    validation_fraction : float, default=None
        Fraction of the training data to hold out as a :term:`validation set`, in
        (0, 1), stratified. None means 0.1 if validation data are needed by early
        stopping, a callback that monitors `valid_...` or the loss, and none otherwise.

    early_stopping : bool or {"valid_log_loss", "valid_refinement"}, default=False
        Stop when this score has not improved for `n_iter_no_change` epochs, and restore
        the weights of the best epoch. True means "valid_log_loss". "valid_refinement",
        the log loss after temperature scaling, is for networks to be calibrated.

    n_iter_no_change : int, default=10
        Number of epochs without improvement before early stopping.

    class_weight : dict, "balanced" or None, default=None
        Weight of each label, which multiplies the weights of its samples; 1 if the dict
        does not contain the label. "balanced" gives all classes the same total weight,
        as in scikit-learn. The loss must accept weights.

    batch_transform : callable, default=None
        Transformation of each mini-batch before the training step, such as
        :class:`~sklearn_calib.datasets.Mixup`: a function that takes and returns the
        inputs, the :term:`soft targets` and the weights (or None). The loss must accept
        soft targets, as all per-sample losses and "mdca" do.

    refit : bool, default=False
        If a validation set was held out, train a new network on all data afterwards.
        The number of epochs is that of the first run or, with early stopping, that of
        its best epoch. A loss that learns from validation data starts each epoch with
        its state of the same epoch in the first run.

    posterior : bool, default=False
        Whether `predict_proba` returns the class posterior, see Notes. The predicted
        class is the same.

    random_state : int, RandomState instance or None, default=None
        Controls the initial weights, the order of the samples, dropout and the
        validation set. With an int, each epoch has its own seed, so a resumed run gives
        the results of an uninterrupted one, except that early stopping restarts its
        count. `fit` seeds torch's global generator and restores it afterwards. Seeded
        fits in several threads run one after the other. They are not reproducible if
        another thread uses that generator, such as a fit without a seed.

    dtype : {"float32", "float64"}, default="float32"
        Precision of the data and of the network. A module that needs integers must
        cast its input; float32 represents integers exactly up to 2**24.

    device : str or torch.device, default="cpu"
        Device that the network is trained on. "auto" means a GPU if there is one.

    n_threads : int or "auto", default="auto"
        Number of torch's threads on the CPU, at most `torch.get_num_threads()`. "auto"
        is 1, plus 1 for each 25 million multiply-adds in a forward pass of a batch.

    callbacks : list, default=None
        Additional skorch callbacks, such as `Checkpoint` and `ProgressBar`.

    train_split : callable, default=None
        Function that returns the training set and the validation set, an alternative to
        `validation_fraction`. For a validation set of your own, pass
        ``skorch.helper.predefined_split(skorch.dataset.Dataset(X_valid, y_valid))``
        with labels as in y. Otherwise, use :class:`skorch.dataset.ValidSplit`. False
        is the same as None.

    iterator_train, iterator_valid : callable, default=iterate_batches
        Functions that return the mini-batches of a dataset. Training data are shuffled
        unless `iterator_train__shuffle=False`.

    dataset : class, default=skorch.dataset.Dataset
        Dataset that holds X and y.

    warm_start : bool, default=False
        Continue training from the weights of the previous call of `fit`.

    verbose : int, default=0
        0 is silent, 1 prints a row for each epoch.

    compile : bool, default=False
        Compile the network with `torch.compile`.

    use_caching : bool or "auto", default="auto"
        Whether scores on the validation set reuse the outputs of the validation pass.

    torch_load_kwargs : dict, default=None
        Passed to `torch.load` when parameters are loaded.

    **kwargs : dict
        `module__...`, `loss__...`, `optimizer__...`, `iterator_train__...`,
        `iterator_valid__...`, `dataset__...`, `callbacks__...`, `compile__...`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted, or those passed to `initialize`. During training, callbacks
        see labels encoded as 0 to n_classes - 1: in this attribute, in `predict` and in
        y.

    n_features_in_ : int
        Number of features, or of channels for images.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if X is a DataFrame with string names.

    module_ : torch.nn.Module
        The trained network.

    criterion_ : torch.nn.Module
        The loss that the network was trained with.

    history_ : skorch.history.History
        For each epoch `train_loss` and, with validation data, `valid_loss`,
        `valid_acc`, `valid_log_loss`, `valid_refinement` and `valid_ece`. A loss that
        learns from these data adds its state, such as the `gamma` of each bin.

    interrupted_ : bool
        Whether a `KeyboardInterrupt` ended the training. `fit` calls `on_train_end` and
        raises it again. The network keeps its current weights, or with early stopping
        the best. An interrupt before the first epoch leaves the estimator unchanged.

    validation_history_ : skorch.history.History
        The history of the first run. Defined only if `refit` led to a second run.

    Notes
    -----
    Focal-type losses are not proper: the probabilities q that minimise the expected
    loss differ from the true ones by a known map. With `posterior=True`, the method
    `posterior` of the loss inverts this map, without fitting a parameter. For the focal
    loss (:class:`~sklearn_calib.calibrators.FocalPosterior`), it is proportional to
    ``q_k / ((1 - q_k)**gamma - gamma * q_k * (1 - q_k)**(gamma - 1) * log(q_k))``.

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
        early_stopping: bool | str = False,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        batch_transform: Callable[..., Any] | None = None,
        refit: bool = False,
        posterior: bool = False,
        random_state: int | np.random.RandomState | None = None,
        dtype: str = "float32",
        device: str | torch.device = "cpu",
        n_threads: int | str = "auto",
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
        self.class_weight = class_weight
        self.batch_transform = batch_transform
        self.refit = refit
        self.posterior = posterior
        self.random_state = random_state
        self.dtype = dtype
        self.n_threads = n_threads
        # Not parameters of this class, or class attributes until the first fit.
        for name in (*REFUSED, "history_", "initialized_", "virtual_params_"):
            self.__dict__.pop(name, None)

    @property
    def decision_function_is_logits(self) -> bool:
        """Whether `predict_proba` is the softmax of the decision function."""
        return not self.posterior

    @restores(unless="interrupted_")
    def fit(
        self,
        X: Inputs,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the network from new weights, or from the current ones if `warm_start`.

        Parameters
        ----------
        X : array-like, sparse matrix, dict or torch.utils.data.Dataset
            Training data, finite, of shape (n_samples, n_features) or (n_samples, ...).
            Images have shape (n_samples, n_channels, height, width). Sparse data are
            converted to dense tensors one mini-batch at a time, and memory maps are
            read so. A dict of arrays contains the arguments of the `forward` method of
            a module with several inputs; integers and booleans keep their type. A
            `Dataset` or `IterableDataset` returns pairs of a sample and its label. A
            :class:`skorch.helper.SliceDataset` is read one mini-batch at a time.

        y : array-like of shape (n_samples,)
            Labels of any type, of at least two classes. None if X is a `Dataset`.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A weight of 2 counts as two samples, 0 as none.

        classes : array-like of shape (n_classes,), default=None
            All labels. Required if X is a `Dataset`. By default, the labels in y.

        **fit_params : dict
            Passed to the `forward` method of the module, and to `train_split`.

        Returns
        -------
        self : NeuralClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If `loss` is not a loss or has no weighted form.

        ValueError
            If X, y or a parameter is invalid; the message names it.
        """
        Trainer(self, "fit", fit_params).train(X, y, sample_weight, classes)
        return self

    @restores(unless="interrupted_")
    def partial_fit(
        self,
        X: Inputs,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Inputs, ArrayLike] | Dataset | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train for one epoch on all given data, starting from the current weights.

        Parameters
        ----------
        X : array-like, sparse matrix, dict or torch.utils.data.Dataset
            Training data as in `fit`, finite.

        y : array-like of shape (n_samples,)
            Labels. None if X is a `Dataset`.

        classes : array-like of shape (n_classes,), default=None
            All classes that can occur in y. Required in the first call.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        validation : tuple (X, y) or torch.utils.data.Dataset, default=None
            Validation set for scores, and for losses that learn from it.

        **fit_params : dict
            Passed to the `forward` method of the module.

        Returns
        -------
        self : NeuralClassifier
            The classifier after the epoch.

        Raises
        ------
        ValueError
            If `classes` is missing or changes, `early_stopping` is True, or
            `class_weight` is "balanced".
        """
        fit_params = {**fit_params, "epochs": 1}
        trainer = Trainer(self, "partial_fit", fit_params)
        trainer.train(X, y, sample_weight, classes, validation)
        return self

    @maps_blocks()
    def predict_proba(self, X: Inputs) -> Floats:
        """Predict probabilities: the softmax of the logits, in float64.

        With `posterior=True`, the class posterior recovered from it.

        Parameters
        ----------
        X : array-like, sparse matrix, dict or torch.utils.data.Dataset
            Data as in `fit`, finite. The labels of a `Dataset` are ignored.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one. Columns are in the order of `classes_`. For a Dask array,
            they are a lazy Dask array.
        """
        proba = self._logits(X)
        for rows in row_blocks(*proba.shape):
            proba[rows] = softmax(proba[rows])
        if not self.posterior:
            return proba
        check_posterior(self)
        return self._loss.posterior(proba)
