"""`RefCalClassifier`: contrastive training of an encoder, then of a linear head."""

from collections.abc import Callable
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

from sklearn_calib._sklearn.nested_params import remove_prefix
from sklearn_calib._sklearn.rollback import restores
from sklearn_calib._sklearn.training_data import MatrixLike
from sklearn_calib._validation.dask_arrays import maps_blocks
from sklearn_calib._validation.declarations import ABOVE_0, COUNT, StrOptions
from sklearn_calib._validation.types import Array, Floats
from sklearn_calib.estimators._neural.net_data import (
    check_data,
    check_pair,
    check_partial_fit,
)
from sklearn_calib.estimators._neural.param_checks import CONSTRAINTS
from sklearn_calib.estimators._neural.params import (
    STAGES,
    NestedParams,
    check_module_takes,
    check_names_of_stages,
    check_names_without_stage,
)
from sklearn_calib.estimators._out_of_fold import MemoryLike
from sklearn_calib.estimators._refcal.stages import (
    build_head,
    embed_more,
    embed_validation,
    refine_encoder,
    train_head,
)


class RefCalClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, NestedParams
):
    """RefCal: contrastive training of an encoder, then a linear head with any loss.

    Stage 1 (refinement) trains an encoder and a projection head with a contrastive loss
    [1]_ [2]_. Stage 2 (calibration) freezes the encoder and trains a linear head on its
    embeddings with any loss.

    Parameters
    ----------
    encoder : torch.nn.Module class or instance, default=None
        The network of stage 1, which returns embeddings of shape (n_samples, width). A
        class is built with the `encoder__...` parameters, and with `n_features` or
        `n_channels` of the data and `n_classes=None` if it takes them. An instance is
        copied. None means :class:`~sklearn_calib.estimators.MLP` for tabular data and
        :class:`~sklearn_calib.estimators.ConvNet` for images of shape
        (n_samples, n_channels, height, width), without their output layer.

    loss : str, class or instance, default="cross_entropy"
        The loss of stage 2, as in :class:`NeuralClassifier`. Its parameters are
        `loss__...`.

    augment : callable, "auto" or None, default="auto"
        Augmentation that generates the views for stage 1: a function of a
        Tensor (N, ...) that returns a Tensor (N, n_views, ...). "auto" means
        :class:`~sklearn_calib.datasets.FeatureCorruption` for tabular data and
        :class:`~sklearn_calib.datasets.ImageAugmentation` for images. None uses the
        samples without augmentation.

    augment_head : callable, default=None
        Augmentation that generates the views for stage 2, with the same signature as
        `augment`, such as ``ImageAugmentation(n_views=1, jitter=0)``. New views of each
        mini-batch are drawn and embedded in each epoch, as in [1]_ and [2]_, so an
        epoch takes about as long as predicting the training data. None embeds the
        samples once, without augmentation.

    refine_loss : {"supcon", "refinement"}, default="supcon"
        The loss of stage 1: :func:`~sklearn_calib.losses.supcon_loss`, as in [1]_, or
        :func:`~sklearn_calib.losses.refinement_loss`, its lower bound for embeddings of
        norm 1 and temperatures up to 1.

    temperature : float, default=0.1
        Temperature of `"supcon"`, greater than 0. Ignored by `"refinement"`.

    n_projection : int, default=128
        Width of the output of the projection head in stage 1, at least 1.

    memory : str, path or joblib.Memory, default=None
        Cache for trained encoders and embeddings, so that a search over the loss and
        the head trains stage 1 once for each fold. The cache key consists of the data,
        `random_state` and the parameters of stage 1; with `random_state=None` all fits
        use the same cached encoder.

    random_state : int, RandomState instance or None, default=None
        Controls both stages, as in :class:`NeuralClassifier`.

    dtype : {"float32", "float64"}, default="float32"
        Precision of the data and of the networks.

    device : str or torch.device, default="cpu"
        Device that the networks are trained on. "auto" means a GPU if there is one.

    verbose : int, default=0
        0 is silent, 1 prints a row for each epoch of both stages.

    **kwargs : dict
        `encoder__...`, `loss__...`, and parameters of :class:`NeuralClassifier` as
        `refine__...` for stage 1 and `head__...` for stage 2. Both stages have
        `batch_size`, `callbacks`, `compile`, `iterator_train`, `iterator_valid`, `lr`,
        `max_epochs`, `n_threads` and `optimizer`, with their nested parameters. Stage 2
        also has `batch_transform`, `class_weight`, `early_stopping`,
        `n_iter_no_change`, `posterior`, `refit`, `train_split`, `use_caching` and
        `validation_fraction`. The defaults are those of :class:`NeuralClassifier`,
        except that `head__lr` is 0.01.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.

    encoder_ : torch.nn.Module
        The trained encoder.

    head_ : NeuralClassifier
        The trained linear head, which classifies embeddings.

    refiner_ : estimator
        The skorch net that trained the encoder, with the projection head.

    history_ : skorch.history.History
        The history of stage 2, as in :class:`NeuralClassifier`.

    interrupted_ : bool
        Whether a `KeyboardInterrupt` ended stage 2; `fit` raises it again. An interrupt
        in stage 1 leaves the estimator as it was before `fit`.

    refine_history_ : skorch.history.History
        The history of stage 1, with `refine_loss` as `train_loss`.

    n_features_in_ : int
        Number of features, or of channels for images.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if X is a DataFrame with string names.

    See Also
    --------
    NeuralClassifier : Training with the same losses in one stage.
    sklearn_calib.losses.refinement_loss : Lower bound of the contrastive loss.

    Notes
    -----
    Stage 2 uses `sample_weight`; stage 1 only leaves out samples of weight 0. For
    imbalanced classes, balancing only the classifier head was found to work best [3]_.

    Stage 1 also trains on the validation set of stage 2, so the embeddings separate its
    classes better than those of new data.

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
    >>> model = RefCalClassifier(
    ...     loss="adafocal", refine__max_epochs=5, head__max_epochs=10, random_state=0
    ... )
    >>> model.fit(X, y).predict_proba(X).shape
    (150, 3)
    >>> model.transform(X).shape
    (150, 128)
    """

    _parameter_constraints = {
        "encoder": CONSTRAINTS["module"],
        "augment": [callable, StrOptions({"auto"}), None],
        "augment_head": [callable, None],
        "refine_loss": [StrOptions({"supcon", "refinement"})],
        "temperature": ABOVE_0,
        "n_projection": COUNT,
        **{name: CONSTRAINTS[name] for name in ("random_state", "dtype", "verbose")},
    }
    _prefixes = STAGES
    interrupted_ = False
    _data_dtype = None
    _data_ndim = None
    _data_names = None

    def __init__(
        self,
        encoder: Callable[..., Any] | None = None,
        *,
        loss: str | Callable[..., Any] = "cross_entropy",
        augment: Callable[..., Any] | str | None = "auto",
        augment_head: Callable[..., Any] | None = None,
        refine_loss: str = "supcon",
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
        self.refine_loss = refine_loss
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
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train both stages from new weights.

        Parameters
        ----------
        X : array-like or sparse matrix
            Training data, finite, of shape (n_samples, n_features) or (n_samples, ...).
            Images have shape (n_samples, n_channels, height, width).

        y : array-like of shape (n_samples,)
            Labels of any type, of at least two classes.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights for stage 2. Stage 1 leaves out samples of weight 0.

        Returns
        -------
        self : RefCalClassifier
            The fitted classifier.

        Raises
        ------
        TypeError
            If X is a dict, or `loss` is not a loss or has no weighted form.

        ValueError
            If X, y or a parameter is invalid; the message names it.
        """
        self.interrupted_ = False
        train_head(self, "fit", refine_encoder(self, X, y, sample_weight))
        return self

    @restores(unless="interrupted_")
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        validation: tuple[MatrixLike, ArrayLike] | None = None,
    ) -> Self:
        """Train the head for one epoch, and in the first call the encoder before it.

        The first call trains stage 1 on the given data, for all its epochs, unless
        `fit` was called before. Later calls do not change the encoder.

        Parameters
        ----------
        X : array-like or sparse matrix
            Training data as in `fit`, finite.

        y : array-like of shape (n_samples,)
            Labels.

        classes : array-like of shape (n_classes,), default=None
            All classes that can occur in y. Required in the first call.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        validation : tuple (X, y), default=None
            Validation set for scores, and for losses that learn from it.

        Returns
        -------
        self : RefCalClassifier
            The classifier after the epoch.

        Raises
        ------
        ValueError
            If `classes` is missing or changes, or `head__early_stopping` is True.
        """
        self.interrupted_ = False
        if validation is not None:
            check_pair(validation, "a pair (X, y) or None")
        if hasattr(self, "head_"):
            stages = embed_more(self, X, y, sample_weight)
        else:
            check_partial_fit(build_head(self, None), classes)
            stages = refine_encoder(self, X, y, sample_weight)
        if validation is not None:
            validation = embed_validation(self, stages[0], *validation)
        options = {"classes": classes, "validation": validation}
        train_head(self, "partial_fit", stages, **options)
        return self

    def transform(self, X: MatrixLike) -> Floats:
        """Return the embeddings of the frozen encoder.

        Parameters
        ----------
        X : array-like or sparse matrix
            Data as in `fit`, finite.

        Returns
        -------
        embeddings : ndarray of shape (n_samples, width)
            Input of the head, of the precision `dtype`.
        """
        return self._embed(X)

    @maps_blocks()
    def predict_proba(self, X: MatrixLike) -> Floats:
        """Predict probabilities: the softmax of the logits, in float64.

        Parameters
        ----------
        X : array-like or sparse matrix
            Data as in `fit`, finite.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one. Columns are in the order of `classes_`.
        """
        embeddings = self._embed(X)
        return self.head_.predict_proba(embeddings)

    @maps_blocks()
    def predict(self, X: MatrixLike) -> Array:
        """Predict the most probable class; ties go to the first class.

        Parameters
        ----------
        X : array-like or sparse matrix
            Data as in `fit`, finite.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
            Predicted labels.
        """
        embeddings = self._embed(X)
        return self.head_.predict(embeddings)

    def decision_function(self, X: MatrixLike) -> Floats:
        """Return the logits, in float64.

        Parameters
        ----------
        X : array-like or sparse matrix
            Data as in `fit`, finite.

        Returns
        -------
        logits : ndarray of shape (n_samples, n_classes) or (n_samples,)
            For two classes, the logit of the second class minus that of the first.
        """
        embeddings = self._embed(X)
        return self.head_.decision_function(embeddings)

    def _embed(self, X: MatrixLike) -> Floats:
        """Validate data, and return their embeddings."""
        check_is_fitted(self)
        return self.refiner_.embed(check_data(self, X, reset=False))

    def _check_names(self, params: dict[str, Any]) -> None:
        check_names_without_stage(params, self)
        check_names_of_stages([name for name in params if "__" in name], self)
        encoder = params.get("encoder", self.encoder)
        check_module_takes(encoder, remove_prefix("encoder__", params), "encoder__")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
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
        """Whether `predict_proba` is the softmax of the decision function."""
        return not self.get_params_for("head").get("posterior", False)

    @property
    def _n_features_out(self) -> int:
        return self.head_.n_features_in_
