"""Construction and training of the two stages of `RefCalClassifier`."""

from typing import Any, TypeAlias

from sklearn.base import clone
from skorch.utils import noop

from sklearn_calib._sklearn.nested_params import add_prefix
from sklearn_calib._validation.probabilities import check_sample_weight
from sklearn_calib._validation.types import Array
from sklearn_calib.datasets import FeatureCorruption, ImageAugmentation
from sklearn_calib.estimators._neural.net_data import (
    check_data,
    check_one_input,
    check_table_or_images,
    drop_zeros,
)
from sklearn_calib.estimators._neural.param_checks import (
    check_params,
    check_takes_weights,
)
from sklearn_calib.estimators._neural.params import (
    check_module_takes,
    check_names_of_stages,
)
from sklearn_calib.estimators._neural.placement import check_device, draw_seed
from sklearn_calib.estimators._neural.training import fingerprint
from sklearn_calib.estimators._out_of_fold import remembered
from sklearn_calib.estimators._refcal.contrastive import ContrastiveNet, refine
from sklearn_calib.estimators._refcal.linear_head import LinearHead

# The embeddings have a small norm, since stage 1 trains only their directions. With the
# usual learning rate of 0.001 the head would need many more epochs.
HEAD_DEFAULTS = {"lr": 0.01}

# Both nets, and the samples, embeddings, labels and weights for the head.
Stages: TypeAlias = tuple[ContrastiveNet, LinearHead, Any, Array, Any, Any]


def refine_encoder(model: Any, X: Any, y: Any, sample_weight: Any) -> Stages:
    """Train stage 1, and return it, the untrained head and the head's training data.

    The training data are the samples, their embeddings, the labels and the weights.
    """
    check_names_of_stages(model._get_param_names(), model)
    model._validate_params()
    of_encoder = model.get_params_for("encoder")
    check_module_takes(model.encoder, of_encoder, "encoder__")
    check_device(model.device)
    seed = draw_seed(model.random_state)
    head = build_head(model, seed)
    _check_params(head, "head")
    check_one_input(X)
    X, y = check_data(model, X, y, reset=True)
    X, y, sample_weight = _leave_out_zeros(X, y, sample_weight)
    refiner = _build_refiner(model, X, seed)
    # Errors in stage 2 are raised before the long training of stage 1.
    head.initialize_criterion()
    if sample_weight is not None or head.class_weight is not None:
        check_takes_weights(head.criterion_)
    _check_params(refiner, "refine")
    log = print if model.verbose else noop
    log("Stage 1: contrastive training of the encoder.")
    refine_once = remembered(refine, model.memory, ignore=["net"])
    refiner, embeddings = refine_once(refiner, fingerprint(refiner), X, y)
    log("Stage 2: training of the linear head on frozen embeddings.")
    return refiner, head, X, embeddings, y, sample_weight


def embed_more(model: Any, X: Any, y: Any, sample_weight: Any) -> Stages:
    """Return both trained stages, and new training data for the head."""
    X, y = check_data(model, X, y, reset=False)
    X, y, sample_weight = _leave_out_zeros(X, y, sample_weight)
    refiner = model.refiner_
    return refiner, model.head_, X, refiner.embed(X), y, sample_weight


def embed_validation(
    model: Any, refiner: ContrastiveNet, X: Any, y: Any
) -> tuple[Array, Any]:
    """Return a validation set as embeddings and labels."""
    X, y = check_data(model, X, y, reset=False)
    return refiner.embed(X), y


def train_head(model: Any, method: str, stages: Stages, **fit_params: Any) -> None:
    """Train the head, and keep it even if its training is interrupted."""
    refiner, head, X, embeddings, y, sample_weight = stages
    train = getattr(head, method)
    try:
        with head.learning_from(X, refiner.encode):
            train(embeddings, y, sample_weight=sample_weight, **fit_params)
    finally:
        model.head_, model.refiner_ = head, refiner
        model.interrupted_ = head.interrupted_


def _leave_out_zeros(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return the data and weights without the samples of weight 0."""
    if sample_weight is None:
        return X, y, None
    return drop_zeros(X, y, check_sample_weight(sample_weight, X))


def _build_refiner(model: Any, X: Any, seed: Any) -> ContrastiveNet:
    """Build the net of stage 1."""
    if model.encoder is None:
        hint = "Pass a torch.nn.Module that returns embeddings."
        check_table_or_images(X.ndim, "encoder", hint)
    net = ContrastiveNet(
        model.encoder,
        **add_prefix("module__", model.get_params_for("encoder")),
        batch_transform=_find_augment(model, X),
        refine_loss=model.refine_loss,
        temperature=model.temperature,
        n_projection=model.n_projection,
        **_shared_params(model, seed),
        **model.get_params_for("refine"),
    )
    return clone(net)  # copies the callbacks and the encoder


def build_head(model: Any, seed: Any) -> LinearHead:
    """Build the classifier of stage 2."""
    net = LinearHead(
        module__hidden_sizes=(),
        augment=model.augment_head,
        loss=model.loss,
        **add_prefix("loss__", model.get_params_for("loss")),
        **_shared_params(model, seed),
        **{**HEAD_DEFAULTS, **model.get_params_for("head")},
    )
    return clone(net)


def _shared_params(model: Any, seed: Any) -> dict[str, Any]:
    """Return the parameters that both stages have."""
    shared = {name: getattr(model, name) for name in ("dtype", "device", "verbose")}
    return {"random_state": seed, **shared}


def _find_augment(model: Any, X: Any) -> Any:
    """Return the augmentation of stage 1; "auto" depends on the shape of the data."""
    if model.augment != "auto":
        return model.augment
    hint = "Pass a function that returns views, or None for no augmentation."
    check_table_or_images(X.ndim, "augment", hint)
    return FeatureCorruption() if X.ndim == 2 else ImageAugmentation()


def _check_params(net: ContrastiveNet | LinearHead, stage: str) -> None:
    """Raise an error that names the stage if a parameter of its net is invalid."""
    try:
        check_params(net)
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{stage}__...: {error}") from error
