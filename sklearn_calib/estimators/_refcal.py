"""`RefCalClassifier`: refine an encoder by contrast, then train a calibrated head."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted
from skorch.history import History

from sklearn_calib._core.restore import restores
from sklearn_calib._core.typing import Array, Floats
from sklearn_calib._core.validation import Interval, StrOptions
from sklearn_calib.estimators._check_data import check_data
from sklearn_calib.estimators._constraints import CONSTRAINTS
from sklearn_calib.estimators._nested_params import (
    STAGES,
    NestedParams,
    check_names_of_stages,
)
from sklearn_calib.estimators._out_of_fold import MemoryLike
from sklearn_calib.estimators._refcal_stages import (
    build_head,
    embed_more,
    refine_encoder,
    train_head,
)
from sklearn_calib.estimators._trainer import check_partial_fit


class RefCalClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, NestedParams
):
    """Neural classifier trained in two stages: refinement, then calibration.

    Stage 1 trains an encoder and a projection head by supervised contrastive learning
    [1]_ [2]_. Stage 2 freezes the encoder and trains a linear head on its embeddings
    with any loss.

    Parameters
    ----------
    encoder : torch.nn.Module class or instance, default=None
        The network of stage 1. It returns embeddings, shape (n_samples, width). A class
        is built with `encoder__...` parameters, and with `n_features`, `n_channels` of
        the data and `n_classes=None` where its constructor takes them; an instance is
        copied. None builds :class:`~sklearn_calib.estimators.MLP` for tables and
        :class:`~sklearn_calib.estimators.ConvNet` for images of shape
        (n_samples, n_channels, height, width), without their last layer.

    loss : str, class or instance, default="cross_entropy"
        The loss of stage 2, as in :class:`NeuralClassifier`; its parameters are
        `loss__...`.

    augment : callable, "auto" or None, default="auto"
        Makes the views that stage 1 learns from: a function of a Tensor (N, ...) that
        returns a Tensor (N, n_views, ...). "auto" is
        :class:`~sklearn_calib.datasets.FeatureCorruption` for tables and
        :class:`~sklearn_calib.datasets.ImageAugmentation` for images. None leaves the
        samples as they are.

    augment_head : callable, default=None
        Makes the views that stage 2 learns from, as `augment` does for stage 1, such as
        ``ImageAugmentation(n_views=1, jitter=0)``. Views of each batch are drawn and
        embedded anew in each epoch, as in [1]_ and [2]_, so an epoch takes about as
        long as predicting the training data. None embeds the samples as they are, once.

    temperature : float, default=0.1
        Of the contrast, greater than 0; see :func:`~sklearn_calib.losses.supcon_loss`.

    n_projection : int, default=128
        Width of the projections that the contrast sees in stage 1, at least 1.

    memory : str, path or joblib.Memory, default=None
        Where to keep trained encoders and embeddings, so that a search over the loss
        and the head trains stage 1 once for each fold. They are found again by the
        data, `random_state` and the parameters of stage 1; with `random_state=None`
        the same encoder comes back each time.

    random_state : int, RandomState instance or None, default=None
        Controls both stages, as in :class:`NeuralClassifier`.

    dtype : {"float32", "float64"}, default="float32"
        Precision of the data and of the networks.

    device : str or torch.device, default="cpu"
        Where to compute.

    verbose : int, default=0
        0 is silent, 1 prints a row for each epoch of either stage.

    **kwargs : dict
        `encoder__...`, `loss__...`, and for stage 1 `refine__...`, for stage 2
        `head__...`, parameters of :class:`NeuralClassifier` with its defaults:
        `batch_size`, `callbacks` (which hold schedules), `compile`, `iterator_train`,
        `iterator_valid`, `lr`, `max_epochs` and `optimizer`, with all that is below
        them; for stage 2 also `batch_transform`, `early_stopping`, `n_iter_no_change`,
        `posterior`, `refit`, `train_split`, `use_caching` and `validation_fraction`.
        The default of `head__lr` is 0.01.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.

    encoder_ : torch.nn.Module
        The trained encoder.

    head_ : NeuralClassifier
        The trained linear head, a classifier of embeddings.

    refiner_ : estimator
        The skorch net that trained the encoder, its projection head included.

    history_ : skorch.history.History
        What stage 2 recorded in each epoch, as in :class:`NeuralClassifier`.

    interrupted_ : bool
        Whether stage 2 ended by `KeyboardInterrupt`, which `fit` raises again. An
        interrupt in stage 1 leaves everything as it was before `fit`.

    refine_history_ : skorch.history.History
        What stage 1 recorded in each epoch: `train_loss`, the supervised contrast.

    n_features_in_ : int
        Number of columns of X, or of channels.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, when X is a DataFrame with string names.

    See Also
    --------
    NeuralClassifier : The same losses in one stage.
    sklearn_calib.losses.refinement_loss : What the contrast is an upper bound of.

    Notes
    -----
    Stage 2 uses `sample_weight`; stage 1 only leaves out samples of weight 0. For
    imbalanced classes, weights in the head alone were found to be best [3]_.

    The encoder has been trained on the validation set of stage 2, which is therefore
    told apart better than new data.

    References
    ----------
    .. [1] R. Hebbalaguppe, A. Shastry, S. S. Ghosal and C. Arora, "Enhancing DNN
       Reliability with Refinement and Calibration", ICLR Workshop on Trustworthy AI
       2026, section 4.1.
    .. [2] P. Khosla, P. Teterwak, C. Wang, A. Sarna, Y. Tian, P. Isola, A. Maschinot,
       C. Liu and D. Krishnan, "Supervised Contrastive Learning", NeurIPS 2020.
    .. [3] B. Kang, S. Xie, M. Rohrbach, Z. Yan, A. Gordo, J. Feng and Y. Kalantidis,
       "Decoupling Representation and Classifier for Long-Tailed Recognition", ICLR
       2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_calib import RefCalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RefCalClassifier(loss="adafocal", refine__max_epochs=20, random_state=0)
    >>> model.fit(X, y).predict_proba(X).shape
    (150, 3)
    >>> model.transform(X).shape
    (150, 128)
    """

    _parameter_constraints = {
        "encoder": CONSTRAINTS["module"],
        "augment": [callable, StrOptions({"auto"}), None],
        "augment_head": [callable, None],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "n_projection": [Interval(Integral, 1, None, closed="left")],
        **{name: CONSTRAINTS[name] for name in ("random_state", "dtype", "verbose")},
    }
    _prefixes = STAGES
    interrupted_ = False
    _data_dtype = None
    _data_ndim = None

    def __init__(
        self,
        encoder: Callable[..., Any] | None = None,
        *,
        loss: str | Callable[..., Any] = "cross_entropy",
        augment: Callable[..., Any] | str | None = "auto",
        augment_head: Callable[..., Any] | None = None,
        temperature: float = 0.1,
        n_projection: int = 128,
        memory: MemoryLike = None,
        random_state: int | np.random.RandomState | None = None,
        dtype: str = "float32",
        device: str | torch.device = "cpu",
        verbose: int = 0,
        **kwargs: Any,
    ) -> None:
        self.encoder = encoder
        self.loss = loss
        self.augment = augment
        self.augment_head = augment_head
        self.temperature = temperature
        self.n_projection = n_projection
        self.memory = memory
        self.random_state = random_state
        self.dtype = dtype
        self.device = device
        self.verbose = verbose
        self.__dict__.update(kwargs)

    @restores(unless="interrupted_")
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train both stages anew.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Training data, finite. Images have shape
            (n_samples, n_channels, height, width).

        y : array-like of shape (n_samples,)
            Labels of any kind, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights in stage 2; stage 1 leaves out those of weight 0.

        Returns
        -------
        self : RefCalClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If X is sparse, `loss` is no loss, or a loss takes no weights.

        ValueError
            If X, y or a parameter is not as described; the message names it.
        """
        self.interrupted_ = False
        train_head(self, "fit", refine_encoder(self, X, y, sample_weight))
        return self

    @restores(unless="interrupted_")
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train the head for one epoch; in the first call the encoder before it.

        The first call trains stage 1 on its data, for all its epochs, unless `fit` has
        done so already. Later ones leave the encoder as it is.

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

        Returns
        -------
        self : RefCalClassifier
            The classifier, trained further.

        Raises
        ------
        ValueError
            If the first call lacks `classes`, a later one changes them, or
            `head__early_stopping` is on.
        """
        self.interrupted_ = False
        if hasattr(self, "head_"):
            stages = embed_more(self, X, y, sample_weight)
        else:
            check_partial_fit(build_head(self, None), classes)
            stages = refine_encoder(self, X, y, sample_weight)
        train_head(self, "partial_fit", stages, classes=classes)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Return the embeddings of the frozen encoder.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Data, finite.

        Returns
        -------
        embeddings : ndarray of shape (n_samples, width)
            What the head sees, of the precision `dtype`.
        """
        return self._embed(X)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predict probabilities: the softmax of the logits, in float64.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...)
            Data, finite.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one; columns are in the order of `classes_`.
        """
        embeddings = self._embed(X)  # raises NotFittedError before there is a head
        return self.head_.predict_proba(embeddings)

    def decision_function(self, X: ArrayLike) -> Floats:
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
        embeddings = self._embed(X)  # raises NotFittedError before there is a head
        return self.head_.decision_function(embeddings)

    def predict(self, X: ArrayLike) -> Array:
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
        embeddings = self._embed(X)  # raises NotFittedError before there is a head
        return self.head_.predict(embeddings)

    def _embed(self, X: ArrayLike) -> Floats:
        """Return the embeddings of data that are yet to be checked."""
        check_is_fitted(self)
        return self.refiner_.embed(check_data(self, X, reset=False))

    def _check_names(self, names: Any) -> None:
        staged = [name for name in names if "__" in name]
        check_names_of_stages(staged, type(self))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "head_")

    @property
    def classes_(self) -> Array:
        return self.head_.classes_

    @property
    def encoder_(self) -> torch.nn.Module:
        return self.refiner_.module_.encoder

    @property
    def history_(self) -> History:
        return self.head_.history_

    @property
    def refine_history_(self) -> History:
        return self.refiner_.history_

    @property
    def decision_function_is_logits(self) -> bool:
        """Whether the softmax of the decision function is `predict_proba`."""
        return not self.get_params_for("head").get("posterior", False)

    @property
    def _n_features_out(self) -> int:
        return self.head_.n_features_in_
