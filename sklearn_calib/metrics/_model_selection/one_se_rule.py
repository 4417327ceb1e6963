"""Rules that select the candidate that a search refits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean, validate_params
from sklearn_calib._validation.types import Floats


@validate_params({"score": [str], "guard": [str]})
def lowest_error_within_one_se(
    score: str, *, guard: str
) -> Callable[[dict[str, Any]], int]:
    """Return a one-standard-error rule for `refit`: best score under a guard score.

    Selecting by calibration error alone may select bad models, such as one that
    predicts the class frequencies for every sample. This rule selects the best `score`
    among the candidates whose mean `guard` is within one standard error of the best.

    Parameters
    ----------
    score : str
        Name of the scorer to maximise, such as "neg_ece".

    guard : str
        Name of the scorer that measures the overall quality, such as "neg_log_loss".

    Returns
    -------
    refit : callable
        Callable to pass to a search as `refit`. The `scoring` of the search must
        contain both names.

    Raises
    ------
    ValueError
        Raised by the returned callable if a score is missing in the results of the
        search, or no candidate has finite values of both.

    Notes
    -----
    The standard error is that of the candidate with the best mean guard: the standard
    deviation over the folds, divided by the root of the number of folds. Candidates
    with scores that are not finite are ignored. Ties are resolved in favour of the
    first candidate.

    References
    ----------
    .. [1] L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone, "Classification and
       Regression Trees", 1984.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_calib.metrics import get_scorer, lowest_error_within_one_se
    >>> scoring = {name: get_scorer(name) for name in ["neg_ece", "neg_log_loss"]}
    >>> search = GridSearchCV(
    ...     LogisticRegression(max_iter=1000),
    ...     {"C": [1e-3, 1.0]},
    ...     scoring=scoring,
    ...     refit=lowest_error_within_one_se("neg_ece", guard="neg_log_loss"),
    ...     cv=3,
    ... )
    >>> X, y = load_iris(return_X_y=True)
    >>> search.fit(X, y).best_params_
    {'C': 1.0}
    """
    return _LowestErrorWithinOneSE(score, guard)


class _LowestErrorWithinOneSE:
    """The rule as a class instead of a closure, so that searches can be pickled."""

    def __init__(self, score: str, guard: str) -> None:
        self.score = score
        self.guard = guard

    def __repr__(self) -> str:
        return f"lowest_error_within_one_se({self.score!r}, guard={self.guard!r})"

    def __call__(self, cv_results: dict[str, Any]) -> int:
        score = _column(cv_results, "mean_test_", self.score)
        guard = _column(cv_results, "mean_test_", self.guard)
        valid = np.isfinite(score) & np.isfinite(guard)
        if not valid.any():
            raise ValueError(
                f"At least one candidate must have a finite {self.score} and "
                f"{self.guard}, got none of {len(score)}. Pass error_score='raise' to "
                "see the error."
            )
        best = np.argmax(np.where(valid, guard, -np.inf))
        spread = _column(cv_results, "std_test_", self.guard)[best]
        end = f"_test_{self.guard}"
        n_splits = sum(k.startswith("split") and k.endswith(end) for k in cv_results)
        standard_error = spread / np.sqrt(n_splits)
        passed = valid & (guard >= guard[best] - standard_error)
        return int(np.argmax(np.where(passed, score, -np.inf)))


def _column(cv_results: dict[str, Any], prefix: str, name: str) -> Floats:
    """Return a column of the results of a search."""
    if prefix + name in cv_results:
        return np.asarray(cv_results[prefix + name], dtype=np.float64)
    names = [key.removeprefix(prefix) for key in cv_results if key.startswith(prefix)]
    raise ValueError(
        f"scoring must contain {name!r}, which the refit rule compares, got "
        f"{shown(names)}.{did_you_mean(name, names)} Pass scoring as a list or a dict "
        "of names."
    )
