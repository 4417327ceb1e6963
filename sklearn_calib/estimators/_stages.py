"""What `RefCalClassifier` trains: the net of each stage, and the first of them."""

from sklearn.base import clone
from skorch.utils import noop

from sklearn_calib._core.nested_params import add_prefix
from sklearn_calib._core.validation import check_sample_weight
from sklearn_calib.datasets import FeatureCorruption, ImageAugmentation
from sklearn_calib.estimators._contrastive import ContrastiveNet, refine
from sklearn_calib.estimators._loss_params import check_takes_weights
from sklearn_calib.estimators._modules import MLP
from sklearn_calib.estimators._neural import NeuralClassifier
from sklearn_calib.estimators._out_of_fold import remembered
from sklearn_calib.estimators._parameters import check_device
from sklearn_calib.estimators._resume import fingerprint
from sklearn_calib.estimators._stage_params import check_names
from sklearn_calib.estimators._training import draw_seed, drop_zeros

# Embeddings are short, as only their directions were trained: at the usual 0.001 the
# head would still be far from the minimum after as many epochs.
HEAD_DEFAULTS = {"lr": 0.01}


class StagesMixin:
    """Both stages of training, for an estimator with their parameters."""

    def _refine(self, X, y, sample_weight):
        """Train stage 1; return it, the untrained head and what that is to learn."""
        check_names(self._get_param_names(), type(self))
        self._validate_params()
        check_device(self.device)
        X, y = self._check_data(X, y, reset=True)
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X)
            X, y, sample_weight = drop_zeros(X, y, sample_weight)
        seed = draw_seed(self.random_state)
        head, refiner = self._build_head(seed), self._build_refiner(X, seed)
        # Whatever is wrong with stage 2 is said before stage 1 takes its time.
        head.initialize_criterion()
        if sample_weight is not None:
            check_takes_weights(head.criterion_)
        _check_params(refiner, "refine")
        _check_params(head, "head")
        tell = print if self.verbose else noop
        tell("Stage 1: the encoder learns by supervised contrast.")
        key = fingerprint(refiner)
        refiner, embeddings = self._cached(refine)(refiner, key, X, y)
        tell("Stage 2: the linear head learns on frozen embeddings.")
        return refiner, head, embeddings, y, sample_weight

    def _build_refiner(self, X, seed):
        """Return the net of stage 1."""
        if self.encoder is None:
            _check_shape(X, "encoder", "Pass a torch.nn.Module that returns embeddings")
        net = ContrastiveNet(
            self.encoder,
            **add_prefix("module__", self.get_params_for("encoder")),
            batch_transform=self._find_augment(X),
            temperature=self.temperature,
            n_projection=self.n_projection,
            **self._shared_params(seed),
            **self.get_params_for("refine"),
        )
        return clone(net)  # which copies the callbacks and the encoder

    def _build_head(self, seed):
        """Return the classifier of stage 2."""
        net = NeuralClassifier(
            MLP,
            module__hidden_sizes=(),
            loss=self.loss,
            **add_prefix("loss__", self.get_params_for("loss")),
            **self._shared_params(seed),
            **{**HEAD_DEFAULTS, **self.get_params_for("head")},
        )
        return clone(net)

    def _shared_params(self, seed):
        """Return the parameters that both stages have."""
        shared = {name: getattr(self, name) for name in ("dtype", "device", "verbose")}
        return {"random_state": seed, **shared}

    def _find_augment(self, X):
        """Return what makes the views, by the shape of the data where it is left."""
        if self.augment != "auto":
            return self.augment
        hint = "Pass a function that returns views, or None for the samples as they are"
        _check_shape(X, "augment", hint)
        return FeatureCorruption() if X.ndim == 2 else ImageAugmentation()

    def _cached(self, function):
        """Return the function, remembering its results if there is a memory."""
        return remembered(function, self.memory, ignore=["net"])


def _check_shape(X, name, hint):
    """Raise ValueError for data of a kind that nothing is built for."""
    if X.ndim not in (2, 4):
        raise ValueError(
            f"{name} must be given unless X is a table of shape (n_samples, "
            "n_features) or images of shape (n_samples, n_channels, height, width), "
            f"got X of {X.ndim} dimensions. {hint}."
        )


def _check_params(net, stage):
    """Raise an error that names the stage for a parameter of one of its nets."""
    try:
        net._check_params()
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{stage}__...: {error}") from error
