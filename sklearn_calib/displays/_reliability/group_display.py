"""Reliability diagrams of groups of samples, side by side."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_calib._validation.clusters import encode_clusters, is_one_of_several
from sklearn_calib._validation.declarations import (
    BINS,
    CLUSTERS,
    INTERVAL,
    TARGETS,
    StrOptions,
    validate_params,
)
from sklearn_calib._validation.groups import group_members, select_columns
from sklearn_calib._validation.labels import as_labels, column_classes
from sklearn_calib._validation.types import Array, Floats, Ints, Options, Seed
from sklearn_calib.displays._base.axes import artists, named_classes
from sklearn_calib.displays._base.from_predictions import (
    EVALUATED,
    confidence_and_correctness,
)
from sklearn_calib.displays._reliability.diagram import LINE
from sklearn_calib.displays._reliability.reliability_panels import (
    KINDS,
    ReliabilityPanels,
    check_panel_options,
)
from sklearn_calib.metrics import ece_interval

# Number of groups shown.
N_GROUPS = 12


@dataclass(eq=False, repr=False)
class GroupReliabilityDisplay(ReliabilityPanels):
    r"""Reliability diagram of each group: one panel for each group of samples.

    A classifier can be calibrated over all samples, and overconfident for one group and
    underconfident for another. The last panel shows all samples. With bins, the title
    of a panel contains the expected calibration error (ECE) and its confidence
    interval, because the ECE of a small group is large even for calibrated predictions.
    At most 12 groups are shown, those with the most samples.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create one. Several
    classifiers for the same samples can share axes.

    Parameters
    ----------
    displays : list of displays
        One display for each group shown and for all samples: `ReliabilityDisplay`,
        `SmoothReliabilityDisplay` or `CorpReliabilityDisplay`.

    groups : ndarray of shape (n_shown,)
        Names of the groups shown and "overall"; they are the titles of the panels.

    n_samples : ndarray of shape (n_shown,)
        Number of samples of each group, shown in the titles.

    error_intervals : ndarray of shape (n_shown, 2) or None, default=None
        Limits of the interval of each error, shown in the titles.

    name : str, default=None
        Name of the classifier, shown in the legend.

    Attributes
    ----------
    axes_ : ndarray of shape (n_shown,)
        Axes of the panels, all with the same scale. Each histogram has its own scale.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    See Also
    --------
    sklearn_calib.metrics.per_group : The errors as a table.
    sklearn_calib.metrics.multicalibration_error : Largest error over the groups.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_calib.displays import GroupReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> nb = GaussianNB().fit(X[::2], y[::2])
    >>> display = GroupReliabilityDisplay.from_estimator(
    ...     nb, X[1::2], y[1::2], groups=X[1::2, 0] > 14, random_state=0
    ... )
    >>> for ax in display.axes_:
    ...     print(ax.get_title().replace("\n", ", "))
    False, 167 samples, ECE 0.053 [0.001, 0.095]
    True, 117 samples, ECE 0.084 [0.023, 0.144]
    overall, 284 samples, ECE 0.059 [0.030, 0.089]
    """

    _parts = "groups"
    _column = "group"
    _way_out = "Pass axes of a display of the same samples and groups."
    # The sizes of groups differ too much.
    _has_one_scale = False

    displays: list[Any]
    groups: Array
    n_samples: Ints
    _: KW_ONLY
    error_intervals: Floats | None = None
    name: str | None = None

    @classmethod
    @validate_params(
        {
            **TARGETS,
            "groups": ["array-like"],
            "kind": [StrOptions(set(KINDS))],
            "mode": EVALUATED["mode"],
            **CLUSTERS,
            **INTERVAL,
        },
        prefer_skip_nested_validation=False,
    )
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        groups: ArrayLike,
        kind: str = "bins",
        confidence_level: float = 0.95,
        n_resamples: int = 1000,
        random_state: Seed = None,
        mode: str | None = None,
        pos_label: Any = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the reliability diagrams of groups of samples.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of any type.

        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities. A 1-d array contains those of the positive class,
            which is the second of the two labels.

        groups : array-like of shape (n_samples,) or (n_samples, n_features)
            Group of each sample, as in :func:`~sklearn_calib.metrics.per_group`. If
            there are several columns, each combination of values that occurs is a
            group. :meth:`from_estimator` also takes the name or the index of a column
            of X.

        kind : {"bins", "smooth", "corp"}, default="bins"
            Kind of the panels: :class:`ReliabilityDisplay`,
            :class:`SmoothReliabilityDisplay` or :class:`CorpReliabilityDisplay`.

        confidence_level : float, default=0.95
            Confidence level of the bands and of the intervals of the errors, in (0, 1).

        n_resamples : int, default=1000
            Number of random draws for each of these.

        random_state : int, RandomState instance or None, default=None
            Controls the random draws. Pass an int for reproducible results.

        mode : {"top_label", "positive", "confidence"}, default=None
            Which probability to show, as in :class:`ReliabilityDisplay`. By default,
            the predicted class for a 2-d array and the positive class for a 1-d array.

        pos_label : label, default=None
            Label of the positive class of a binary problem. It sets the mode to
            "positive"; a 1-d array contains the probabilities of this class. By
            default, the second label.

        labels : array-like of shape (n_classes,), default=None
            Class label of each column, such as `estimator.classes_`. By default, the
            sorted distinct values of `y_true`, which must then contain every class.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        clusters : array-like of shape (n_samples,), default=None
            Cluster of each sample, such as the patient, if the samples of a cluster are
            not independent. They are passed to the panels, and to
            :func:`~sklearn_calib.metrics.ece_interval`. A group that is one cluster has
            no intervals. By default, all samples are independent.

        name : str, default=None
            Name in the legend. By default, no name is shown.

        ax : array-like of matplotlib Axes, default=None
            Axes for the panels: the `axes_` of an earlier display of the same samples
            and groups, to show both classifiers, or one axes for each panel. By
            default, a new figure.

        **options
            Further arguments of the panels' `from_predictions`, such as `n_bins`,
            `strategy`, `interval`, `color` and `histogram="log"`.

        Returns
        -------
        display : GroupReliabilityDisplay
            The drawn display.

        Raises
        ------
        ValueError
            If the labels do not match the columns, `y_proba` does not contain
            probabilities, `groups` does not contain one group for each sample, or `ax`
            shows other groups.

        Examples
        --------
        >>> from sklearn_calib.displays import GroupReliabilityDisplay
        >>> display = GroupReliabilityDisplay.from_predictions(
        ...     [0, 1, 1, 1], [0.2, 0.6, 0.9, 0.9], groups=["a", "a", "b", "b"]
        ... )
        >>> [ax.get_title().splitlines()[:2] for ax in display.axes_]
        [['a', '2 samples'], ['b', '2 samples'], ['overall', '4 samples']]
        """
        check_panel_options(options)
        mode, pos_label, (confidence, correct, weight) = confidence_and_correctness(
            y_true, y_proba, mode, pos_label, labels, sample_weight
        )
        rows = _rows_shown(groups, np.ones(len(correct)) if weight is None else weight)
        n_samples = np.array([len(members) for members in rows.values()])
        names = np.empty(len(rows), dtype=object)
        names[:] = [
            ", ".join(map(str, group)) if isinstance(group, tuple) else group
            for group in rows
        ]
        axes = cls._panels(ax, _headings(names, n_samples))
        draws: Options = {"n_resamples": n_resamples, "random_state": random_state}
        draws["confidence_level"] = confidence_level
        if clusters is not None:
            clusters = encode_clusters(clusters, len(correct))
        binary: Options = {"mode": "positive", "labels": [False, True]}
        same: Options = {"mode": "confidence"}
        y_shown = correct
        if mode == "positive":
            y_shown = as_labels(y_true, "y_true").ravel()
            same = {"pos_label": pos_label, "labels": column_classes(y_shown, labels)}
        bins = {key: options[key] for key in BINS.keys() & options}
        displays, intervals = [], []
        for part, panel in zip(rows.values(), axes, strict=True):
            draws["sample_weight"] = None if weight is None else weight[part]
            if clusters is not None:
                draws["clusters"] = clusters[part]
            is_one = is_one_of_several(clusters, part, weight)
            display = KINDS[kind].from_predictions(
                y_shown[part],
                confidence[part],
                ax=panel,
                name=name,
                **same,
                **draws,
                **({**options, "interval": None} if is_one else options),
            )
            displays.append(display)
            if is_one and kind == "bins":
                intervals.append((np.nan, np.nan))
            elif kind == "bins":
                given: Options = {**binary, **draws, **bins}
                intervals.append(ece_interval(correct[part], confidence[part], **given))
        shown = cls(
            displays,
            names,
            n_samples,
            error_intervals=np.array(intervals) if intervals else None,
            name=name,
        )
        return shown._finish(axes)

    @classmethod
    def _options_of(
        cls, _estimator: Any, X: Any, options: dict[str, Any], /
    ) -> dict[str, Any]:
        """Return the options, with groups from a column of X."""
        groups = options.get("groups")
        if isinstance(groups, str | Integral):
            return {**options, "groups": select_columns(X, groups)}
        return options

    def _headings(self) -> list[str]:
        return _headings(self.groups, self.n_samples)

    def _labels(self) -> tuple[str, str]:
        first = self.displays[0]
        if first.mode == "top_label":
            return "Confidence", "Accuracy"
        of_class, _ = named_classes(artists(first.ax_, LINE))
        return f"Probability{of_class}", "Frequency"

    def _interval_of(self, index: int) -> str:
        if self.error_intervals is None:
            return ""
        low, high = self.error_intervals[index]
        return f" [{low:.3f}, {high:.3f}]"

    def _columns(self) -> dict[str, Array]:
        """Return the columns of all panels."""
        return self._columns_of(self.groups)


def _rows_shown(groups: Any, weight: Floats) -> dict[Any, Ints]:
    """Return the samples of the largest groups and of all, without weights of zero."""
    seen = weight > 0
    rows = {
        name: members[seen[members]]
        for name, members in group_members(groups, len(weight)).items()
    }
    largest = sorted(rows, key=lambda name: -len(rows[name]))[:N_GROUPS]
    shown = {name: rows[name] for name in rows if name in largest and len(rows[name])}
    return {**shown, "overall": np.flatnonzero(seen)}


def _headings(names: Array, n_samples: Ints) -> list[str]:
    """Return the first lines of the title of each panel."""
    return [
        f"{name}\n{number:,} samples"
        for name, number in zip(names, n_samples, strict=True)
    ]
