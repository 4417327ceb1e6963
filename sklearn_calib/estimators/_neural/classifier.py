"""`NeuralClassifier`: skorch's classifier with the loss as a parameter."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping
from skorch.dataset import Dataset, unpack_data
from skorch.helper import SliceDataset
from skorch.history import History
from skorch.utils import is_dataset, noop, to_device, to_tensor
from torch import Tensor
from torch.nn.functional import one_hot
from torch.utils.data import Dataset as TorchDataset, IterableDataset

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.fit_tasks import CallbackSupportMixin, with_callbacks
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._sklearn.training_data import MatrixLike
from sklearn_calib._state.schema import StateMixin
from sklearn_calib._torch.processes import (
    concatenate_logits,
    predict_batch,
    share_buffers,
)
from sklearn_calib._validation.arrays import row_blocks, shown
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.callbacks import (
    UpdateLoss,
    valid_ece,
    valid_log_loss,
    valid_refinement,
)
from sklearn_calib.estimators._neural.batches import (
    Batch,
    check_batch_order,
    check_sampler,
    iterate_batches,
    resolve_dataset,
)
from sklearn_calib.estimators._neural.net_data import (
    CheckedBatches,
    check_has_length,
    check_n_predicted,
    check_rows,
    check_table_or_images,
    distinct_classes,
    explain_floats,
    pair_validation,
)
from sklearn_calib.estimators._neural.net_files import (
    FROM_PICKLE,
    IS_PICKLING,
    SCHEMA,
    TEMPORARY,
    File,
    blank_net,
    build_from_params,
    get_document_state,
    get_passed_params,
    get_plain_state,
    get_rates,
    get_saved_params,
    set_document_state,
    set_plain_state,
    unwrapped_module,
    warn_of_loaded_rates,
    without,
    write_params,
)
from sklearn_calib.estimators._neural.networks import (
    MLP,
    ConvNet,
    data_sizes,
    warn_of_channels_last,
)
from sklearn_calib.estimators._neural.param_checks import (
    CONSTRAINTS,
    REFUSED,
    check_callbacks,
    check_known,
    check_not_refused,
    check_params,
    check_parts_take,
    check_posterior,
    stopping_score,
)
from sklearn_calib.estimators._neural.params import (
    HINT,
    LOSS,
    NestedParams,
    callback_params,
    check_module_takes,
    check_names_of_net,
    find_live,
    is_nested,
    set_group_options,
    take_effect,
)
from sklearn_calib.estimators._neural.placement import (
    AUTO,
    choose_threads,
    device_of,
    find_device,
    infer_in_parts,
    restored_threads,
)
from sklearn_calib.estimators._neural.training import (
    FitRun,
    ValidationScore,
    check_logits,
    valid_acc,
)
from sklearn_calib.losses import CalibrationLoss

# Data of a network: a dict contains the arguments of a module with several inputs.
Inputs: TypeAlias = MatrixLike | Mapping[str, Any] | TorchDataset[Any]

# A subclass that overrides one of these may add modules, losses or optimizers.
BUILDERS = ("initialize_module", "initialize_criterion", "initialize_optimizer")


class NeuralClassifier(
    NestedParams,
    StateMixin,
    CallbackSupportMixin,
    NeuralNetClassifier,
):
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
        :class:`~sklearn_calib.datasets.Mixup` or
        ``ImageAugmentation(n_views=1)``: a function that takes and returns the inputs,
        the :term:`soft targets` and the weights (or None). Unless the returned targets
        are one-hot, the loss must accept soft targets, as all per-sample losses and
        "mdca" do. A loss with a history of each sample, such as "crl", is refused.

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
        is 1, plus 1 for each 25 million multiply-adds in a forward pass of a batch,
        estimated as weights times samples, for convolutions also times pixels.

    Other Parameters
    ----------------
    callbacks : list, default=None
        Additional skorch callbacks, such as `Checkpoint` and `ProgressBar`. Those of
        scikit-learn 1.9 and later are passed to `set_callbacks`, see Notes.

    train_split : callable, default=None
        Function that returns the training set and the validation set, an alternative to
        `validation_fraction`, such as :class:`skorch.dataset.ValidSplit`. Pass your own
        validation set as `X_val` and `y_val` of `fit`, or use
        ``skorch.helper.predefined_split(skorch.dataset.Dataset(X_valid, y_valid))``,
        with labels as in y. False is the same as None.

    iterator_train, iterator_valid : callable, default=iterate_batches
        Functions that return the mini-batches of a dataset. Training data are shuffled
        unless `iterator_train__shuffle=False`. `iterator_valid`, which predictions use,
        must return all samples in their order.

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
        Number of features, or of channels for images. Not defined for a dict and for a
        Dataset with a `collate_fn`, whose mini-batches may differ in length.

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

    Callbacks of scikit-learn follow each epoch of `fit`, but not `partial_fit`. One
    that asks to stop ends the training. `ScoringMonitor` scores the training data.

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
    virtual_params_: dict[str, Any] = {}

    # Prefix of the module's parameters in error messages; subclasses may change it.
    _module_prefix = "module__"
    # Prefix of all parameters of a stage of `RefCalClassifier`.
    _stage_prefix = ""
    # The parts whose parameters have changed since they were built.
    _stale: frozenset[str] = frozenset()
    _params_to_validate: set[str]
    # The labels, also during training.
    classes_inferred_: Any = None
    # The `FitRun` during a call of fit, None otherwise.
    _run: Any = None
    _input_shape: tuple[int, ...] | None = None
    _data_dtype = None
    _data_ndim = None
    _data_names = None

    # Whether the weights come from a file or from a trained module.
    _is_loaded = False

    __repr__ = BaseEstimator.__repr__

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
    @with_callbacks
    def fit(
        self,
        X: Inputs,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        *,
        X_val: Inputs | None = None,
        y_val: ArrayLike | None = None,
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
            Samples of unequal length are padded by functions that are passed as
            `iterator_train__collate_fn` and `iterator_valid__collate_fn`.

        y : array-like of shape (n_samples,)
            Labels of any type, of at least two classes. None if X is a `Dataset`.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A weight of 2 counts as two samples, 0 as none.

        classes : array-like of shape (n_classes,), default=None
            All labels. Required if X is a `Dataset`. By default, the labels in y.

        X_val, y_val : as X and y, default=None
            Validation set, used instead of one held out from X. In a `Pipeline`,
            `X_val` can be transformed like X with
            ``Pipeline(..., transform_input=["X_val"])`` and metadata routing. If
            `X_val` is a `Dataset`, `y_val` is None. Validation samples have the weight
            1. `validation_fraction`, `train_split` and `refit` must not be set.

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
        validation = pair_validation(X_val, y_val)
        return self._train("fit", fit_params, X, y, sample_weight, classes, validation)

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
        given = X, y, sample_weight, classes, validation
        return self._train("partial_fit", fit_params, *given)

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

    def decision_function(self, X: Inputs) -> Floats:
        """Return the logits, in float64.

        Parameters
        ----------
        X : array-like, sparse matrix, dict or torch.utils.data.Dataset
            Data as in `fit`, finite. The labels of a `Dataset` are ignored.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes, the logit of the second class minus that of the first.
        """
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    @maps_blocks()
    def predict(self, X: Inputs) -> Array:
        """Predict the most probable class; ties go to the first class.

        Parameters
        ----------
        X : array-like, sparse matrix, dict or torch.utils.data.Dataset
            Data as in `fit`, finite. The labels of a `Dataset` are ignored.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels.
        """
        outputs = (concatenate_logits([output]) for output in self._outputs(X))
        blocks = map(self._check_outputs, outputs)
        codes = [softmax(logits).argmax(axis=1) for logits in blocks]
        return self.classes_[np.concatenate(codes)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _logits(self, X: Inputs) -> Floats:
        return self._check_outputs(concatenate_logits(self._outputs(X)))

    def _outputs(self, X: Inputs) -> Iterator[Any]:
        """Yield the outputs of the network for each mini-batch."""
        self.check_is_fitted()
        if not is_dataset(X):
            X = check_rows(self, X, reset=False)
        with restored_threads():
            yield from self.forward_iter(X)

    def _check_outputs(self, logits: Floats) -> Floats:
        """Return logits, and check that those of a loaded network have a softmax.

        The training warns if it diverges. The weights in a file, or of a module that
        was trained elsewhere, may lead to overflow, or have another number of classes.
        """
        if not self._is_loaded or self._run is not None:
            return logits
        shape = len(logits), len(self.classes_)
        if logits.shape != shape or not np.isfinite(logits.max(axis=1)).all():
            raise ValueError(
                f"module_ must return finite logits of shape {shape}, got shape "
                f"{logits.shape} or NaN from the network that was loaded. Check X and "
                "the classes, or train the network again."
            )
        return logits

    # Classes and device -------------------------------------------------------------

    @property
    def device(self) -> Any:
        """The device that is used, as skorch needs it; the parameter may be "auto"."""
        return find_device(vars(self)["device"])

    @device.setter
    def device(self, device: Any) -> None:
        self.__dict__["device"] = device

    @property
    def classes_(self) -> Array:
        """The labels, or during training their integer codes.

        skorch's `EpochScoring` compares predictions with the targets of the batches,
        which are tensors of codes, and scorers use `classes_` of the net.
        """
        if self.classes_inferred_ is None:
            raise AttributeError(
                f"{type(self).__name__} has no attribute 'classes_' before it is "
                "fitted. Call fit, or partial_fit with classes, or for a trained "
                "module initialize(classes=...)."
            )
        if self._run is None:
            return self.classes_inferred_
        return np.arange(len(self.classes_inferred_))

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

    def _check_device(self, requested_device: Any, map_device: Any) -> Any:
        # skorch sets the parameter to this value when it loads weights.
        if vars(self).get("device") == AUTO:
            return AUTO
        return super()._check_device(requested_device, map_device)

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
            getattr(type(self), name) is not getattr(NeuralClassifier, name)
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
        if self._run is None:  # it has checked them
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
        if "n_channels" in sizes and is_inferred and self._run is not None:
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
        try:
            super().initialize_optimizer()
        except ValueError as error:
            given = self.get_params_for("optimizer").items()
            names = ", ".join(f"optimizer__{name}={shown(v)}" for name, v in given)
            raise ValueError(
                "Parameters of the optimizer must be valid for its class, got "
                f"{names}: {error}. Change the parameter, or remove it for its default."
            ) from error
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
        if self._run is None:  # it has checked them
            check_callbacks(self)
        return super().initialize_callbacks()

    def get_default_callbacks(self) -> list[tuple[str, Callback]]:
        """Return the default callbacks, with the log only if `verbose`."""
        callbacks = dict(super().get_default_callbacks())
        print_log = callbacks.pop("print_log")
        callbacks["valid_acc"] = ValidationScore(
            valid_acc, name="valid_acc", lower_is_better=False
        )
        for score in (valid_log_loss, valid_refinement, valid_ece):
            callbacks[score.__name__] = ValidationScore(score, name=score.__name__)
        callbacks["update_loss"] = UpdateLoss()
        # Formatting its table takes 3 % of an epoch's time for a small network.
        if self.verbose:
            callbacks["print_log"] = print_log
        return list(callbacks.items())

    def _yield_callbacks(self) -> Iterator[tuple[str, Callback, bool]]:
        yield from super()._yield_callbacks()
        holds_out = self._run is None or self._run.hold_out
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

    def _train(
        self,
        method: str,
        fit_params: dict[str, Any],
        X: Inputs,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None,
        validation: Any = None,
    ) -> Self:
        """Train the network in one call of fit or partial_fit."""
        self.check_training_readiness()
        self.interrupted_ = False
        check_params(self)
        run = FitRun(self, method, fit_params)
        run.begin(X, y, sample_weight)
        X, codes = run.prepare(X, y, sample_weight, classes, validation)
        self.classes_inferred_, self._input_shape = run.classes, run.input_shape
        self.__dict__.pop("validation_history_", None)
        self._run = run
        try:
            run.train(X, codes)
            n_epochs = run.count_epochs_to_refit()
            if n_epochs:
                self.validation_history_ = self.history
                run.train_on_all(X, codes, n_epochs)
        finally:
            self._run = None
        run.end()
        return self

    def get_split_datasets(
        self, X: Any, y: Any = None, **split_params: Any
    ) -> tuple[Any, Any]:
        """Return the training set and the validation set or None."""
        return self._run.split(X, y, split_params)

    def get_dataset(self, X: Any, y: Any = None) -> Any:
        """Return the data as a dataset, and mark whether one of arrays is validated."""
        dataset = super().get_dataset(X, y)
        if dataset is not X:
            dataset.is_validated = not isinstance(X, SliceDataset)
        return dataset

    def get_iterator(self, dataset: Any, training: bool = False) -> Iterable[Any]:
        """Return the mini-batches of a dataset, shuffled for training."""
        batches = self._get_batches(dataset, training)
        if training:
            check_sampler(batches)
        else:
            check_batch_order(batches, predicts=self._run is None)
        is_validated = self._is_validated(dataset)
        is_encoded = self._run is None or is_validated is not None
        return CheckedBatches(
            self,
            batches,
            dataset,
            name="iterator_train" if training else "iterator_valid",
            is_validated=bool(is_validated),
            classes=None if is_encoded else self.classes_inferred_,
        )

    def _is_validated(self, dataset: Any) -> bool | None:
        """Return whether the data of a dataset, or beneath it, are validated arrays.

        None means a dataset of the user, whose labels are not encoded either.
        """
        marked = getattr(resolve_dataset(dataset), "is_validated", None)
        if marked is not None or self._run is None or self._run.takes_datasets:
            return marked
        return True

    def _get_batches(self, dataset: Any, training: bool) -> Iterable[Any]:
        if self.batch_size == -1:
            way_out = "Set it to the number of samples in a mini-batch."
            check_has_length(dataset, "batch_size", -1, way_out)
        iterator_train = self.get_params_for("iterator_train")
        if training and iterator_train.get("batch_sampler") is not None:
            return self.iterator_train(dataset, **iterator_train)
        if iterator_train.get("sampler") is not None:
            iterator_train = {"shuffle": False, **iterator_train}
        is_ordered = "shuffle" in iterator_train or isinstance(dataset, IterableDataset)
        if is_ordered or not (training and self._run):
            return super().get_iterator(dataset, training=training)
        params = {"batch_size": self.batch_size, **iterator_train}
        if params["batch_size"] == -1:
            params["batch_size"] = len(dataset)
        return self.iterator_train(dataset, shuffle=True, **params)

    def _set_training(self, training: bool = True) -> None:
        # Traversing the modules for every batch takes 3 % of an epoch's time for small
        # networks. The loss is None after trim_for_prediction.
        parts = self._get_parts(self._modules + self._criteria)
        if any(part.training != training for part in parts):
            super()._set_training(training)

    def forward_iter(
        self, X: Any, training: bool = False, device: Any = "cpu"
    ) -> Iterator[Any]:
        """Yield the outputs of the network for the mini-batches of X, in its order."""
        dataset, n_predicted = self.get_dataset(X), 0
        for batch in self.get_iterator(dataset):
            output = predict_batch(self, batch, training)
            n_predicted += len(output[0] if isinstance(output, tuple) else output)
            yield to_device(output, device=device)
        check_n_predicted(self, n_predicted, dataset)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the output for a mini-batch, with the threads that it is worth."""
        choose_threads(self, x)
        infer = partial(explain_floats, super().infer, **fit_params)
        return infer_in_parts(self, infer, x)

    def _end_training(self, X: Any, y: Any, *, is_interrupted: bool = False) -> None:
        """Notify the callbacks and the net that the training has ended.

        Unlike in skorch, the net is last, since mixins unwrap its module then, and
        early stopping restores the weights of the wrapped module.
        """
        self.interrupted_ = is_interrupted
        share_buffers(self.module_)
        for _, callback in self.callbacks_:
            callback.on_train_end(self, X=X, y=y)
        self.on_train_end(self, X=X, y=y)

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        """End the last epoch, and begin the next unless a callback asks to stop."""
        if self._run.end_epoch():
            # skorch ends the training without an error.
            raise KeyboardInterrupt
        super().on_epoch_begin(net, **kwargs)
        self._run.start_epoch()

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Store the mini-batch, since the loss may need its weights and indices."""
        super().on_batch_begin(net, batch=batch, training=training, **kwargs)
        self._keep(batch)

    def _keep(self, batch: Any) -> None:
        if self._run is not None:
            self._run.start_batch(batch)

    def train_step(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """Train on one mini-batch, transformed by `batch_transform`."""
        # Not in train_step_single, which skorch's mixin for accelerate replaces.
        if self.batch_transform is not None:
            batch = self._transform(batch, self.batch_transform)
            self._keep(batch)
        return super().train_step(batch, **fit_params)

    def _transform(self, batch: Any, transform: Callable[..., Any]) -> Batch:
        """Return the transformed mini-batch, with labels for one-hot targets."""
        X, y = (to_tensor(part, device=device_of(self)) for part in unpack_data(batch))
        target = one_hot(y, len(self.classes_inferred_))
        target = target.to(getattr(torch, self.dtype))
        weight = self._on_device(batch, "sample_weight")
        X, target, weight = transform(X, target, weight)
        if target.ndim == 2 and type(self._loss) is not CalibrationLoss:
            # Some of our losses need labels. Those of torch may need probabilities.
            labels = target.argmax(1)
            if torch.equal(one_hot(labels, target.shape[1]).to(target.dtype), target):
                target = labels
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
        check_logits(logits, len(self.classes_inferred_))
        if self._run is not None:
            self._run.warn_of_proba(logits)
        options, batch = {}, self._run and self._run.batch
        weight = self._on_device(batch, "sample_weight")
        if weight is not None:
            options["sample_weight"] = weight.to(logits.dtype)
        if training and self._loss.needs_indices:
            options["indices"] = self._indices(batch)
        y_true = to_tensor(y_true, device=device_of(self))
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
            y = to_tensor(unpack_data(batch)[1], device=device_of(self))
            self._loss.record(logits, y, indices=self._indices(batch))

    def _on_device(self, batch: Any, name: str) -> Tensor | None:
        """Return an attribute of a mini-batch on the device, or None."""
        values = getattr(batch, name, None)
        return None if values is None else to_tensor(values, device=device_of(self))

    # Files and pickles --------------------------------------------------------------

    def save_params(
        self,
        f_params: File | None = None,
        f_optimizer: File | None = None,
        f_criterion: File | None = None,
        f_history: File | None = None,
        use_safetensors: bool = False,
        **kwargs: File | None,
    ) -> None:
        """Save the weights, the optimizer's state, the loss's state or the history.

        Each file is written under a unique temporary name, which ends in ``.part``, and
        renamed, so it is complete even if the process is killed. The files contain
        neither the sizes of the network nor the labels. To predict in another program,
        use :func:`sklearn_calib.save`.

        Parameters
        ----------
        f_params, f_optimizer, f_criterion, f_history : str, path or file, default=None
            Files to write; None writes nothing.

        use_safetensors : bool, default=False
            Write the safetensors format, which contains tensors only.

        **kwargs : dict
            ``f_<name>`` for other modules of the net.
        """
        files = {
            "f_params": f_params,
            "f_optimizer": f_optimizer,
            "f_criterion": f_criterion,
            "f_history": f_history,
            **kwargs,
        }
        write_params(self, super().save_params, files, use_safetensors)

    def load_params(self, *args: Any, **kwargs: Any) -> None:
        """Load files of `save_params`, as :class:`skorch.NeuralNet` does.

        Parameters
        ----------
        *args, **kwargs : object
            The arguments of :meth:`skorch.NeuralNet.load_params`.

        Warns
        -----
        UserWarning
            If a file changes the learning rate of the optimizer, unless the net has a
            :class:`skorch.callbacks.LRScheduler`.
        """
        before = get_rates(self)
        with unwrapped_module(self):
            super().load_params(*args, **kwargs)
        warn_of_loaded_rates(self, before)

    def __reduce_ex__(self, protocol: Any) -> Any:
        token = IS_PICKLING.set(True)
        try:
            _, _, state, *rest = super().__reduce_ex__(protocol)
        finally:
            IS_PICKLING.reset(token)
        return blank_net, (type(self),), state, *rest

    def __getstate__(self) -> dict[str, Any]:
        # A pickle contains the network itself, as skorch writes it.
        if IS_PICKLING.get():
            return without(super().__getstate__(), TEMPORARY)
        return get_plain_state(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Only unpickling makes such a net, never a file of another format.
        if self.__dict__.pop(FROM_PICKLE, False):
            self.device = state["device"]
            super().__setstate__({**state, "device": self.device})
        else:
            set_plain_state(self, state)

    _state_schema = SCHEMA
    _get_saved_params = get_saved_params
    _get_passed_params = get_passed_params
    _from_saved_params = classmethod(build_from_params)
    _get_state = get_document_state
    _set_state = set_document_state
