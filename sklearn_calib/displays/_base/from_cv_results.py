"""Displays of the folds of a cross-validation, each on its test fold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import indexable

from sklearn_calib._missing_packages import explain_missing
from sklearn_calib._sklearn.training_data import take
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import StrOptions, validate_params
from sklearn_calib._validation.types import Array
from sklearn_calib.displays._base.from_predictions import FromEstimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In place of axes: `from_cv_results` draws the display later.
UNDRAWN: Any = object()


@dataclass(frozen=True)
class FoldFields:
    """What the parameters of a display mean in the average of several folds.

    Attributes
    ----------
    curve : str
        The curve whose standard deviation over the folds is shown.

    shared : str
        The places of the curve, equal in all folds.

    averaged : tuple of str
        Parameters whose weighted mean is drawn.

    summed : tuple of str
        Parameters that are added up.

    pooled : tuple of str
        Parameters whose mean is weighted by the samples of each fold in `histogram`.

    weight : callable, default=None
        Returns the weights of a fold in the averages at each place; by default, all
        are equal.

    limits : tuple of two floats, default=None
        Limits of the band.
    """

    curve: str
    shared: str
    averaged: tuple[str, ...]
    summed: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()
    weight: Callable[[Any], Array] | None = None
    limits: tuple[float, float] | None = None


class FromCVResults(FromEstimator):
    """Mixin that adds `from_cv_results` to a display with `_arrange`."""

    plot: Callable[..., Self]
    _fold_fields: ClassVar[FoldFields]
    # Options of `from_predictions` for each fold.
    _fold_options: ClassVar[dict[str, Any]] = {}
    # The scores in the legend, as pairs of label and attribute, and their decimals.
    _scores: ClassVar[tuple[tuple[str, str], ...]] = ()
    _decimals: ClassVar[int] = 3

    @classmethod
    @validate_params(
        {
            "cv_results": [dict],
            "kind": [StrOptions({"individual", "average"})],
            "sample_weight": ["array-like", None],
            "name": [str, list, None],
            "curve_kwargs": [dict, list, None],
        },
        prefer_skip_nested_validation=False,
    )
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        kind: str = "individual",
        sample_weight: ArrayLike | None = None,
        name: str | list[str] | None = None,
        ax: Axes | None = None,
        curve_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        **options: Any,
    ) -> list[Self]:
        """Draw the curves of the classifiers of a cross-validation.

        Each classifier predicts the test part of its fold. The parameters are those of
        :meth:`sklearn.metrics.RocCurveDisplay.from_cv_results`, and `kind`.

        Parameters
        ----------
        cv_results : dict
            Result of :func:`~sklearn.model_selection.cross_validate` with
            `return_estimator=True` and `return_indices=True`.

        X : array-like of shape (n_samples, n_features)
            The data of the cross-validation.

        y : array-like of shape (n_samples,)
            The labels of the cross-validation.

        kind : {"individual", "average"}, default="individual"
            Whether to draw a curve for each fold, or the mean curve with a band of one
            standard deviation over the folds. In bins and on smooth curves, folds with
            more samples at a place have a larger weight in the mean there.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        name : str or list of str, default=None
            Name in the legend. A list names each fold and needs a list as
            `curve_kwargs`. By default, the class name of the classifiers.

        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure.

        curve_kwargs : dict or list of dict, default=None
            Properties of the lines, such as `{"color": "C0", "alpha": 0.3}`. A dict is
            for all folds, which have one entry in the legend, with the mean and the
            standard deviation of the score. With a list of one dict for each fold, each
            fold has its entry.

        **options
            Further arguments of :meth:`from_predictions`, such as `pos_label`. By
            default, folds have no interval.

        Returns
        -------
        displays : list
            The drawn displays: one for each fold, or the one of the average.

        Raises
        ------
        ValueError
            If `cv_results` does not contain the classifiers and the indices, the names
            or `curve_kwargs` do not match the folds, or the folds have different bins
            with `kind="average"`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.model_selection import cross_validate
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn_calib.displays import RiskCoverageDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> cv_results = cross_validate(
        ...     GaussianNB(), X, y, return_estimator=True, return_indices=True
        ... )
        >>> displays = RiskCoverageDisplay.from_cv_results(cv_results, X, y)
        >>> len(displays)
        5
        >>> displays[0].line_.get_label()
        'GaussianNB (AURC 0.0130 ± 0.0151)'
        """
        folds = list(_folds(cv_results, X, y, sample_weight))
        n_curves = len(folds) if kind == "individual" else 1
        styles = _styles(curve_kwargs, n_curves)
        if name is None:
            name = type(folds[0][0]).__name__
        names = _names(name, curve_kwargs, n_curves)
        drawing = {key: options.pop(key) for key in {"histogram"} & {*options}}
        one_color, marker = options.pop("color", None), None
        options = {"ax": UNDRAWN, **cls._fold_options, **options}
        displays: list[Any] = [
            cls.from_estimator(estimator, *data, sample_weight=weight, **options)
            for estimator, *data, weight in folds
        ]
        scores = cls._mean_scores(displays)
        if kind == "average":
            displays = [cls._average(displays)]
        is_list = isinstance(curve_kwargs, list)
        color = one_color
        for display, style, label in zip(displays, styles, names, strict=True):
            color = style.get("color", one_color if is_list else color)
            display.name = label
            display.plot(ax, color=color, **drawing)
            ax, line = display.ax_, display.line_
            if not is_list:
                marker = marker or line.get_marker()
                label = f"{label} ({scores})" if scores else label
                line.set_label("_nolegend_" if display is not displays[0] else label)
                line.set(marker=marker, alpha=0.5 if n_curves > 1 else None)
                color = line.get_color()
            line.set(**style)
        displays[-1]._arrange()
        return displays

    def _draw_on(self, ax: Any, **options: Any) -> Self:
        """Draw the display, or only check the options if it is drawn later."""
        if ax is not UNDRAWN:
            return self.plot(ax, **options)
        inspect.signature(self.plot).bind(ax, **options)
        return self

    @classmethod
    def _mean_scores(cls, folds: list[Self]) -> str:
        """Return the text of the means and standard deviations of the scores."""
        values = [(word, [getattr(f, at) for f in folds]) for word, at in cls._scores]
        n = cls._decimals
        return ", ".join(
            f"{word} {np.mean(each):.{n}f} ± {np.std(each):.{n}f}"
            for word, each in values
        )

    @classmethod
    def _average(cls, folds: list[Self]) -> Self:
        """Return the display of the mean curve, with a band of its deviation."""
        of = cls._fold_fields
        first: Any = folds[0]
        if any(
            not np.array_equal(getattr(fold, of.shared), getattr(first, of.shared))
            for fold in folds
        ):
            raise ValueError(
                f"The folds must have the same {of.shared} for kind='average', got "
                "others in some folds. Use strategy='uniform' and an integer as "
                "n_bins, or kind='individual'."
            )
        weight = None if of.weight is None else np.array([*map(of.weight, folds)])
        changes: dict[str, Any] = {
            name: _mean(_stack(folds, name), weight) for name in of.averaged
        }
        changes |= {name: np.sum(_stack(folds, name), axis=0) for name in of.summed}
        for name in of.pooled:
            n_samples = _stack(folds, "histogram").sum(axis=1)
            changes[name] = np.average(_stack(folds, name), axis=0, weights=n_samples)
        for _, name in cls._scores:
            changes[name] = float(_stack(folds, name).mean())
        mean = changes[of.curve]
        spread = np.sqrt(_mean((_stack(folds, of.curve) - mean) ** 2, weight))
        band = mean + [[-1.0], [1.0]] * spread
        changes["band"] = band if of.limits is None else np.clip(band, *of.limits)
        known = {field.name for field in fields(first)}
        reset = {"interval", "confidence_level", "operating_point"}
        changes |= dict.fromkeys(reset & known)
        average: Self = replace(first, **changes)
        return average

    def _arrange(self) -> None:
        """Adapt limits and legend to all curves on the axes."""
        raise NotImplementedError


def _stack(folds: list[Any], name: str) -> Array:
    return np.array([getattr(fold, name) for fold in folds], dtype=float)


def _mean(values: Array, weight: Array | None) -> Array:
    """Return the weighted mean over the folds; nan where no fold has a value."""
    known = ~np.isnan(values)
    weight = known if weight is None else known * weight
    total = weight.sum(axis=0)
    summed = (np.where(known, values, 0) * weight).sum(axis=0)
    return np.divide(summed, total, out=np.full(summed.shape, np.nan), where=total > 0)


def _folds(
    cv_results: dict[str, Any], X: Any, y: Any, sample_weight: Any
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield the classifier of each fold, and X, y and the weights of its test part."""
    indices = cv_results.get("indices")
    has_tests = isinstance(indices, dict) and "test" in indices
    if "estimator" not in cv_results or not has_tests:
        raise ValueError(
            "cv_results must contain 'estimator' and 'indices' with 'test', got only "
            f"{shown(sorted(cv_results))} and the indices {shown(indices)}. Pass "
            "return_estimator=True and return_indices=True to cross_validate."
        )
    X, y, sample_weight = indexable(X, y, sample_weight)
    tests = [np.asarray(rows) for rows in cv_results["indices"]["test"]]
    are_rows = [
        each.ndim == 1 and each.size > 0 and each.dtype.kind in "iu" for each in tests
    ]
    n_folds = len(cv_results["estimator"])
    if not all(are_rows) or not len(tests) == n_folds > 0:
        raise ValueError(
            "cv_results['indices']['test'] must contain an array of row numbers, not "
            f"empty, for each of {n_folds} classifiers, at least one, got "
            f"{shown(tests)}. Pass the result of cross_validate, with a cv whose test "
            "folds contain samples."
        )
    n_samples = 1 + max(int(rows.max()) for rows in tests)
    n_labels = 0 if y is None else len(y)
    if n_samples > n_labels:
        raise ValueError(
            "X and y must contain all samples of the cross-validation, at least "
            f"{n_samples}, got {n_labels} labels. Pass those that cross_validate had."
        )
    for estimator, rows in zip(cv_results["estimator"], tests, strict=True):
        weight = None if sample_weight is None else take(sample_weight, rows)
        yield estimator, take(X, rows), take(y, rows), weight


def _styles(curve_kwargs: Any, n_curves: int) -> list[dict[str, Any]]:
    """Return the properties of each line, with their long names."""
    with explain_missing("A display"):
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

    styles = curve_kwargs
    if not isinstance(styles, list):
        styles = [styles or {}] * n_curves
    if len(styles) != n_curves or not all(isinstance(each, dict) for each in styles):
        raise ValueError(
            "curve_kwargs must be None, a dictionary or a list of dictionaries, of "
            f"length {n_curves}, got {shown(styles)} of length {len(styles)}. Pass a "
            "dictionary for each curve."
        )
    return [normalize_kwargs(style, Line2D) for style in styles]


def _names(name: str | list[str], curve_kwargs: Any, n_curves: int) -> list[str]:
    """Return the name of each curve."""
    if isinstance(name, str):
        return [name] * n_curves
    if len(name) == n_curves and isinstance(curve_kwargs, list):
        return name
    raise ValueError(
        f"name must be a string, or a list of length {n_curves} together with a list "
        f"of dictionaries as curve_kwargs, got {shown(name)}. Curves of the same "
        "appearance have one name."
    )
