"""Held-out predictions of a classifier, by cross-validation."""

import os
import pickle
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, TypeAlias, cast

import numpy as np
from joblib import Memory
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    BaseCrossValidator,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_memory

from sklearn_calib._numerics.softmax import softmax
from sklearn_calib._sklearn.fit_tasks import run_fold
from sklearn_calib._sklearn.response import (
    clone_classifier,
    find_response,
    predict_scores,
    unwrap,
)
from sklearn_calib._sklearn.training_data import take
from sklearn_calib._validation.arrays import is_dict, shorten, shown
from sklearn_calib._validation.groups import distinct_values, encode_groups, group_frame
from sklearn_calib._validation.types import Array, Floats, Function, Ints

# Types of cv and memory of the wrappers of a classifier.
SplitterLike: TypeAlias = int | BaseCrossValidator | Iterable[Any] | None
MemoryLike: TypeAlias = str | os.PathLike[str] | Memory | None

# Rows of the training and of the test part of each fold; a slice is all rows.
Folds: TypeAlias = list[tuple[Ints | slice, Ints]]
HeldOutAs: TypeAlias = str | tuple[str, str] | None


def make_splits(
    cv: Any, X: Any, y: Array, classes: Any, *, n_repeats: int = 1, **params: Any
) -> Folds:
    """Return the training and test indices of each fold, and check them.

    `classes` are those that the classifiers of the folds are to predict. Folds are
    drawn `n_repeats` times if `cv` is an integer.
    """
    rows = np.arange(len(y))
    if isinstance(cv, Integral | None) and params.get("groups") is not None:
        n_folds = 5 if cv is None else int(cv)  # as in scikit-learn
        cv, params = _group_folds(n_folds, n_repeats, y, params["groups"]), {}
    elif isinstance(cv, Integral) and n_repeats > 1:
        folds = RepeatedKFold if y.ndim == 2 else RepeatedStratifiedKFold
        cv = folds(n_splits=int(cv), n_repeats=n_repeats, random_state=0)
    try:
        data = rows if is_dict(X) else X
        splitter = check_cv(cv, y, classifier=True)
        if isinstance(splitter, RepeatedStratifiedKFold):
            _check_class_sizes(splitter.get_n_splits() // splitter.n_repeats, y)
        elif isinstance(splitter, StratifiedKFold):
            _check_class_sizes(splitter.n_splits, y)
        folds = splitter.split(data, y, **params)
        splits = [(rows[train], rows[test]) for train, test in folds]
    except (IndexError, TypeError, ValueError) as error:
        if "groups" not in params:
            _check_no_groups(cv, error)
        if isinstance(error, ValueError):
            raise
        raise ValueError(
            f"cv must yield the training and the test rows of each fold, got {error} "
            f"from {type(cv).__name__}. Pass the number of folds or a splitter."
        ) from error
    if not splits:
        raise ValueError(
            f"cv must yield at least one fold, got none from {type(cv).__name__}. Pass "
            "the number of folds or a splitter."
        )
    _check_training_classes(classes, [y[train] for train, _ in splits])
    return splits


def group_codes(groups: Any, n_samples: int) -> Ints | None:
    """Return the number of the group of each sample, or None without groups."""
    if groups is None:
        return None
    frame = group_frame(groups, n_samples)
    codes = encode_groups(frame, distinct_values(frame))
    return np.unique(codes, axis=0, return_inverse=True)[1].ravel()


def _group_folds(n_folds: int, n_repeats: int, y: Array, groups: Any) -> Folds:
    """Return folds that do not divide groups, from several draws.

    The folds are stratified by the classes that a group contains, not by their
    frequencies: large groups of different frequencies would be drawn alike.
    """
    codes: Any = group_codes(groups, len(y))
    # Of each group, one sample of each class that it contains.
    labels = y if y.ndim == 1 else np.zeros(len(y))
    pairs = np.column_stack([codes, np.unique(labels, return_inverse=True)[1]])
    _, kept = np.unique(pairs, axis=0, return_index=True)
    _check_class_sizes(n_folds, labels[kept], "groups")
    folds: Folds = []
    rng = np.random.RandomState(0)
    for _ in range(n_repeats):
        splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=rng)
        for _, test in splitter.split(kept, labels[kept], codes[kept]):
            is_test = np.isin(codes, codes[kept[test]])
            folds.append((np.flatnonzero(~is_test), np.flatnonzero(is_test)))
    return folds


def held_out_splits(
    estimator: Any, cv: Any, X: Any, y: Array, classes: Any, **params: Any
) -> Folds:
    """Return the splits; for a frozen classifier, all samples are held out."""
    if isinstance(estimator, FrozenEstimator):
        return [(slice(None), np.arange(len(y)))]
    return make_splits(cv, X, y, classes, **params)


def _check_no_groups(cv: Any, error: Exception) -> None:
    """Raise ValueError if the splitter takes groups, without which it failed."""
    if get_routing_for_object(cv).consumes("split", ["groups"]):
        raise ValueError(
            f"cv must be given the groups of the samples, got {type(cv).__name__} "
            f"without groups: {shorten(str(error)).rstrip('.')}. Use an "
            "integer cv, or call sklearn.set_config(enable_metadata_routing=True), and "
            "pass groups to fit, or pass the folds, cv=list(cv.split(X, y, groups))."
        ) from error


def _check_class_sizes(n_folds: int, y: Array, what: str = "samples") -> None:
    """Raise ValueError if stratified folds outnumber the samples of each class."""
    labels, counts = np.unique(y, return_counts=True)
    label, count = shown(labels.tolist()[counts.argmin()]), counts.min()
    way_out = f"Add {what} of this class"
    if count > 1:
        way_out = f"Use cv={count} or fewer folds, or add {what} of this class"
    if counts.max() < n_folds:
        raise ValueError(
            f"cv must not be larger than the number of {what} of each class, got "
            f"{n_folds} folds, and class {label} has {count}. {way_out}."
        )


def _check_training_classes(classes: Any, targets: list[Array]) -> None:
    """Warn of classes that are absent from the training part of some folds."""
    absent = []
    for fold, target in enumerate(targets):
        missing = np.setdiff1d(classes, target)
        if len(missing) > max(len(classes) - 2, 0):
            raise ValueError(
                "y must have at least two classes in the training part of each fold, "
                f"got only {shown(np.unique(target).tolist())} in fold {fold} of "
                f"{len(targets)}, counted from 0. Use fewer folds, or stratified ones "
                "if the order of the samples does not matter."
            )
        if len(missing):
            absent.append(f"{shown(missing.tolist())} in fold {fold}")
    if absent:
        warnings.warn(
            "y contains no samples of some classes in the training part of a fold: "
            f"{shorten(', '.join(absent))} of {len(targets)}, counted from 0. The "
            "classifier of the fold gives them the smallest positive probability of "
            "each row. Use fewer folds, or stratified ones if the order of the samples "
            "does not matter, or add samples of these classes.",
            UserWarning,
        )


def fit_and_predict(
    estimator: Any,
    X: Any,
    y: Array,
    splits: Folds,
    refit: bool,
    fit_params: dict[str, Any],
    response_method: str,
    classes: Any,
    *,
    takes_margins: bool = False,
    held_out_as: HeldOutAs = None,
    tasks: list[Any] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[list[Any], list[Floats], str]:
    """Fit a clone to each training part, and predict each test part.

    Parameters
    ----------
    splits : list of tuples (train, test)
        Row indices or slices.

    refit : bool
        Whether to fit another clone to all data and return only that one.

    classes : ndarray of shape (n_classes,) or list of ndarray
        Classes of the columns of the scores.

    tasks : list, default=None
        The task of each fit for callbacks, from `begin_folds`.

    Returns
    -------
    classifiers : list
        The fitted clones, one for each split, or only the one for all data.

    scores : list of ndarrays
        Logits, margins or probabilities of each test part.

    response : {"logits", "margins", "probabilities"}
        What the scores are.
    """
    options = classes, response_method, takes_margins, held_out_as
    # The classifiers of the folds are not sent back if they are not needed.
    parts: list[Any] = [(*split, not refit) for split in splits]
    parts += [(slice(None), None, True)] * refit
    tasks = [None] * len(parts) if tasks is None else tasks
    try:
        fitted = Parallel(n_jobs=n_jobs, verbose=verbose)(
            delayed(_fit_fold)(estimator, X, y, *part, fit_params, task, *options)
            for part, task in zip(parts, tasks, strict=True)
        )
    except pickle.PicklingError as error:
        raise ValueError(
            f"n_jobs must be 1 for {type(estimator).__name__}, which cannot be sent "
            f"between processes, got {shown(n_jobs)}: {shorten(str(error))}. Put "
            "classes that are defined in a notebook or in a function into a file and "
            "import them, or use n_jobs=1."
        ) from error
    classifiers, responses, returned = zip(*fitted, strict=True)
    response, scores = _unify(responses, returned[: len(splits)])
    return list(classifiers[-1:] if refit else classifiers), scores, response


def _fit_fold(
    estimator: Any,
    X: Any,
    y: Array,
    train: Any,
    test: Any,
    keep: bool,
    fit_params: dict[str, Any],
    task: Any,
    classes: Any,
    response_method: str,
    takes_margins: bool,
    held_out_as: HeldOutAs,
) -> tuple[Any, str, Floats | None]:
    """Fit a clone to the training part, and predict the test part unless it is None.

    Return the clone if `keep`, what the scores are, and the scores.
    """
    params = {name: _take(v, train, len(y)) for name, v in fit_params.items()}
    held_out = _name_held_out(held_out_as, X, y, train, test)
    classifier, X_train, y_train = clone_classifier(estimator), take(X, train), y[train]
    with run_fold(task, classifier, X=X_train, y=y_train):
        classifier = classifier.fit(X_train, y_train, **params, **held_out)
    # Without a valid response, this raises before the next classifier is fitted.
    response = find_response(classifier, response_method, takes_margins=takes_margins)
    if test is None:
        return classifier, response, None
    from_logits = response != "probabilities"
    options = from_logits, classes, response_method
    scores = predict_scores(classifier, take(X, test), *options)
    return classifier if keep else None, response, scores


def check_held_out_as(names: Any, estimator: Any, is_ensemble: bool) -> None:
    """Raise ValueError for bad names, and if no or untransformed data are passed."""
    is_pair = isinstance(names, tuple) and len(names) == 2
    if not isinstance(names, str) and not (
        is_pair and all(isinstance(name, str) for name in names)
    ):
        raise ValueError(
            "held_out_as must be the name of one argument of fit or a tuple of two, "
            f'got {shown(names)}. Pass "eval_set" or ("X_val", "y_val"), for example.'
        )
    if not is_ensemble:
        raise ValueError(
            "held_out_as must be None unless all classifiers are trained on folds, got "
            f"{shown(names)}. A classifier trained on all data has no held-out part: "
            "set ensemble=True, and pass a classifier that is not frozen."
        )
    for each in unwrap(estimator):
        if isinstance(each, Pipeline) and not _transforms(each, names):
            raise ValueError(
                "held_out_as must name data that a pipeline transforms, got "
                f"{shown(names)}, which would reach the last step untransformed. Put "
                "the pipeline outside, as in make_pipeline(StandardScaler(), "
                'CalibratedClassifier(classifier, held_out_as="eval_set")). For two '
                "arguments, you can also enable metadata routing and set "
                'Pipeline(..., transform_input=["X_val"]).'
            )


def _transforms(pipeline: Pipeline, names: str | tuple[str, str]) -> bool:
    """Return whether the held-out part reaches the last step as X does."""
    if isinstance(names, tuple) and names[0] in (pipeline.transform_input or []):
        return True
    # Steps that resample the training data only have no `transform`.
    return not any(hasattr(step, "transform") for _, step in pipeline.steps[:-1])


@contextmanager
def naming_held_out_as(names: HeldOutAs, estimator: Any) -> Iterator[None]:
    """Raise a ValueError that names `held_out_as` if early stopping lacks data."""
    try:
        yield
    except ValueError as error:
        # The words of LightGBM and XGBoost.
        if names is not None or "early stopping" not in str(error):
            raise
        raise ValueError(
            "held_out_as must be given for a classifier with early stopping, got None "
            f"for {type(estimator).__name__}: {shorten(str(error)).rstrip('.')}. Pass "
            'held_out_as="eval_set" and ensemble=True, or turn early stopping off.'
        ) from error


def _name_held_out(
    names: HeldOutAs, X: Any, y: Array, train: Any, test: Any
) -> dict[str, Any]:
    """Return the held-out part as arguments of `fit`.

    Samples of classes that are absent from the training part are left out, as boosting
    libraries reject their labels.
    """
    if names is None:
        return {}
    known = test if y.ndim == 2 else test[np.isin(y[test], y[train])]
    if isinstance(names, str):
        return {names: [(take(X, known), y[known])]}
    return dict(zip(names, (take(X, known), y[known]), strict=True))


def _unify(responses: Sequence[str], scores: Any) -> tuple[str, list[Floats]]:
    """Return one kind of response, and all scores as that kind.

    Classifiers of different kinds are found by a search, or with one-vs-rest logistic
    regression if a fold has two classes.
    """
    kinds = set(responses)
    if len(kinds) == 1:
        return responses[0], list(scores)
    if "margins" in kinds:
        raise ValueError(
            "estimator must have predict_proba in all folds or in none, got "
            f"{', '.join(responses)}. Use classifiers of one kind."
        )
    pairs = zip(responses, scores, strict=False)
    return "probabilities", [softmax(s) if r == "logits" else s for r, s in pairs]


def _take(value: Any, rows: Any, n_samples: int) -> Any:
    """Return rows of a fit parameter that has one value for each sample."""
    is_list = isinstance(value, list | tuple)
    shape = (len(value),) if is_list else getattr(value, "shape", ())
    return take(value, rows) if shape[:1] == (n_samples,) else value


def fit_and_predict_cached(memory: MemoryLike, *arguments: Any, **options: Any) -> Any:
    """Call `fit_and_predict`, cached if `memory` is not None."""
    if memory is None:
        return fit_and_predict(*arguments, **options)
    ignore = ["n_jobs", "verbose", "takes_margins", "tasks"]
    remember = remembered(_fit_and_pickle, memory, ignore=ignore)
    return pickle.loads(remember(*arguments, **options))


def _fit_and_pickle(
    *arguments: Any,
    n_jobs: int | None,
    verbose: int,
    takes_margins: bool,
    held_out_as: HeldOutAs,
    tasks: list[Any] | None = None,
) -> bytes:
    """Return the results of `fit_and_predict` as one pickle.

    joblib reads an object array by array, which takes twice as long for a random forest
    and ten times as long for gradient boosting.
    """
    results = fit_and_predict(
        *arguments,
        takes_margins=takes_margins,
        held_out_as=held_out_as,
        tasks=tasks,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    return pickle.dumps(results, protocol=5)


def remembered(function: Function, memory: MemoryLike, **options: Any) -> Function:
    """Return a function with results cached in a `joblib.Memory` or a folder."""
    if isinstance(memory, os.PathLike):
        memory = os.fspath(memory)
    with _naming_folder(memory):
        opened = check_memory(memory)
    folder = getattr(opened, "location", None)

    def call(*arguments: Any, **keywords: Any) -> Any:
        with _naming_folder(folder):
            return opened.cache(function, **options)(*arguments, **keywords)

    return cast(Function, call)


@contextmanager
def _naming_folder(folder: Any) -> Iterator[None]:
    """Raise a ValueError that names `memory` if its folder cannot be written."""
    try:
        yield
    except OSError as error:
        # The cached function may fail with other files.
        if folder is None or str(folder) not in str(error.filename):
            raise
        raise ValueError(
            f"memory must be a writable folder, got {shorten(repr(str(folder)))}: "
            f"{shorten(str(error))}. Pass another folder, or None."
        ) from error
