"""Parameters of the two stages of `RefCalClassifier`, by the prefix of their names."""

import inspect

from sklearn_calib._core.nested_params import remove_prefix
from sklearn_calib._core.validation import did_you_mean

_BOTH = {"batch_size", "callbacks", "compile", "iterator_train", "iterator_valid"}
_BOTH |= {"lr", "max_epochs", "optimizer"}
_OF_THE_HEAD = {"batch_transform", "early_stopping", "n_iter_no_change", "posterior"}
_OF_THE_HEAD |= {"refit", "train_split", "use_caching", "validation_fraction"}

# For each prefix the names that may follow, None if any may.
STAGES = {
    "encoder": None,
    "head": _BOTH | _OF_THE_HEAD,
    "loss": None,
    "refine": _BOTH,
}


class StageParamsMixin:
    """`encoder__...`, `refine__...` and `head__...` beside the parameters by name."""

    def _get_param_names(self):
        return [name for name in vars(self) if name[0] != "_" and name[-1] != "_"]

    def set_params(self, **params):
        """Set parameters of this estimator or of its stages.

        Parameters
        ----------
        **params : dict
            Parameter names mapped to their values.

        Returns
        -------
        self : object
            This estimator.

        Raises
        ------
        TypeError
            If a stage has no parameter of this name.
        """
        staged = {k: params.pop(k) for k in list(params) if k.partition("__")[1]}
        check_names(staged, type(self))
        vars(self).update(staged)
        return super().set_params(**params)

    def get_params_for(self, prefix):
        """Return the parameters with a prefix, by their names without it."""
        return remove_prefix(f"{prefix}__", vars(self))


def check_names(names, estimator):
    """Raise TypeError for a name that is no parameter of an estimator's stages."""
    own = {*inspect.signature(estimator).parameters} - {"kwargs"}
    for name in names:
        stage, _, rest = name.partition("__")
        if rest and stage in STAGES:
            _check_name_in_stage(name, stage, rest.partition("__")[0])
        elif name not in own:
            raise TypeError(
                f"{name!r} is no parameter of {estimator.__name__}."
                f"{did_you_mean(name, own)} Its parameters: {sorted(own)}, and those "
                f"that begin with one of {[f'{stage}__' for stage in STAGES]}."
            )


def _check_name_in_stage(name, stage, first):
    """Raise TypeError for a parameter that the net of a stage does not have."""
    known = STAGES[stage]
    if known is None or first in known:
        return
    raise TypeError(
        f"{name!r} is no parameter: {stage}__... must begin with one of "
        f"{sorted(known)}, got {first!r}.{did_you_mean(first, known)} What both stages "
        "share, such as random_state, dtype and device, has no prefix."
    )
