"""Automatic calibration: a weighted average of several calibrators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sklearn_calib._expressions.rows import softmax
from sklearn_calib._expressions.symbol import Values
from sklearn_calib._missing_packages import explain_missing
from sklearn_calib._numerics.sample_blocks import Block, Blocks
from sklearn_calib._sklearn.training_data import warn_of_absent_classes
from sklearn_calib._solvers.blas import one_blas_thread
from sklearn_calib._solvers.class_offsets import fit_offsets
from sklearn_calib._solvers.stacking import (
    LEAST_SHARE,
    Shares,
    probability_of_gain,
    random_folds,
    stacking_weights,
)
from sklearn_calib._state.schema import (
    FRACTION,
    NON_NEGATIVE,
    SAME,
    ListOf,
    Numbers,
    Object,
    read_parameters,
)
from sklearn_calib._validation.arrays import first_lines, shown
from sklearn_calib._validation.declarations import Interval
from sklearn_calib._validation.fit_warnings import without_warnings
from sklearn_calib._validation.types import Floats
from sklearn_calib.calibrators._base.calibrator import Calibrator
from sklearn_calib.calibrators._combined.boosting import BoostingCalibrator
from sklearn_calib.calibrators._linear.joint_beta import JointBetaCalibration
from sklearn_calib.calibrators._linear.joint_spline import (
    JointLogOddsSplineCalibration,
)
from sklearn_calib.calibrators._linear.linear_calibrator import _MultinomialCalibrator
from sklearn_calib.calibrators._linear.structured import (
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from sklearn_calib.calibrators._one_vs_rest.log_odds_spline import (
    LogOddsSplineCalibration,
)
from sklearn_calib.calibrators._temperature.temperature import TemperatureScaling

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Candidate(NamedTuple):
    """A default calibrator, its pseudo-count, and its numbers of classes.

    The upper limits bound the time.
    """

    calibrator: Calibrator
    pseudo_count: float
    least: float = 2
    most: float = np.inf


DEFAULTS = [
    Candidate(TemperatureScaling(), 3.0, least=3),
    Candidate(JointBetaCalibration(), 1.0, most=500),
    Candidate(LogOddsSplineCalibration(), 0.25, most=2),
    Candidate(JointLogOddsSplineCalibration(), 0.25, 3, 100),
    Candidate(StructuredMatrixScaling(lambd=1.0), 0.25, 3, 100),
    Candidate(StructuredMatrixScaling(), 0.25, 3, 100),
    Candidate(StructuredVectorScaling(), 0.25, 101),
]

# Pseudo-count of other calibrators.
COUNT = 0.5

# The weights change little if there are more misclassified samples in the folds.
ENOUGH_ERRORS = 400

# With fewer misclassified samples, calibrators are fitted again in the folds.
ERRORS_FOR_STEPS = 100

# Offsets are not fitted to more classes: their Hessian would take too long.
MAX_OFFSETS = 500


def defaults(n_classes: int) -> list[Candidate]:
    """Return the default calibrators for a number of classes."""
    return [row for row in DEFAULTS if row.least <= n_classes <= row.most]


class AutoCalibrator(Calibrator):
    r"""Automatic calibration: an average of calibrators, weighted by cross-validation.

    The calibrated probabilities are the weighted average of the probabilities before
    calibration and of several fitted calibrators. The weights maximise the likelihood
    of held-out samples, which is called stacking [1]_. Without evidence that
    calibration is better than none, most of the weight remains on the probabilities
    before calibration, which limits the harm of few samples.

    **Recommended if you do not want to choose**: on data that were put aside, its mean
    log loss is lower than that of each of its calibrators. :attr:`report_` and
    :attr:`explanation_` state the weights and the reasons.

    Parameters
    ----------
    calibrators : list of Calibrator, default=None
        The calibrators to average, whose parameter `from_logits` is set automatically.
        By default, those in the table below.

    cv : int, default=5
        Number of folds, from 2 to 1000. They are stratified by class and random, but do
        not depend on the order of the samples.

    prior_odds : float, default=1.0
        Prior odds that calibration is better than none. With None, the probabilities
        before calibration have no weight, as for scores without a scale:
        `CalibratedClassifier` uses None for margins of two classes or of labels.

    from_logits : bool, default=False
        Whether `X` contains logits. It is not inferred from the values.

    verbose : int, default=0
        If positive, `fit` prints the seconds of each calibrator and each fold.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The calibrators, fitted to all samples.

    weights_ : ndarray of shape (n_calibrators + 1,)
        Weights of the probabilities before calibration and of each calibrator.

    log_losses_ : ndarray of shape (n_calibrators + 1,)
        Cross-validated log losses, in the order of `weights_`.

    offset_ : ndarray of shape (n_classes,)
        Added to the logarithms of the average, to correct its class frequencies.

    report_ : dict of list
        Columns of a table with one row for each calibrator: `calibrator`, `log_loss`
        (cross-validated), `weight`, and `note`, which states why a calibrator was not
        used. `pandas.DataFrame(report_)` shows it.

    explanation_ : str
        The same in words, in at most 30 lines.

    classes_ : ndarray of shape (n_classes,)
        Class label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Number of misclassified samples in `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        Value substituted for zero probabilities before taking logarithms, see
        :class:`Calibrator`. Defined only if `from_logits=False`.

    preserves_argmax : bool
        False: the predicted class may change.

    See Also
    --------
    CalibratedClassifier : With `calibrator="auto"`, calibrates with this calibrator.
    TemperatureScaling : The simplest of its calibrators.

    Notes
    -----
    The default calibrators are

    ================================== ================= ============
    calibrator                         number of classes pseudo-count
    ================================== ================= ============
    TemperatureScaling()               3 or more         3
    JointBetaCalibration()             2 to 500          1
    LogOddsSplineCalibration()         2                 0.25
    JointLogOddsSplineCalibration()    3 to 100          0.25
    StructuredMatrixScaling(lambd=1.0) 3 to 100          0.25
    StructuredMatrixScaling()          3 to 100          0.25
    StructuredVectorScaling()          101 or more       0.25
    ================================== ================= ============

    Let :math:`p_{im}` be the probability of the true class of sample i that calibrator
    m predicts, fitted without the fold of the sample. The relative weights
    :math:`w_m` of the calibrators maximise

    .. math:: \sum_i \log \sum_m w_m p_{im} + \sum_m c_m \log w_m,

    with pseudo-counts :math:`c_m`, which are larger for calibrators with fewer
    parameters. For calibrators passed as `calibrators`, they are 0.5. Let g be the
    first sum minus the log-likelihood of the probabilities before calibration. The
    total weight of the calibrators is :math:`1 / (1 + e^{-g} / o)` with `prior_odds`
    o: the posterior probability that their average predicts better.

    The returned probabilities are proportional to :math:`e^{b_k}` times the average.
    The offsets b correct the class frequencies of the average. They maximise the
    log-likelihood minus :math:`\lambda \sum_k b_k^2 / 2`. The precision :math:`\lambda`
    of this normal prior, from 1 to 1e8, maximises the marginal likelihood (empirical
    Bayes) of the parabola that approximates the log-likelihood at b. Offsets are not
    fitted to more than 500 classes.

    The folds are random within each class. They are drawn for the ranks of the samples,
    sorted by the distance of the logit of the true class to the largest other logit, or
    of its probability to the largest other probability if `from_logits=False`.
    Therefore, the folds do not depend on the order of samples and classes, nor on the
    scale and the origin of the logits. A sample with a weight above one is split over
    several folds, like equal samples. In a fold, calibrators keep the strengths of the
    priors and start from the fit to all samples. With 100 misclassified samples or
    more, joint beta calibration, the joint spline, structured scaling and maps with the
    penalty "empirical_bayes" take one step of Newton's method from there, if they have
    up to 100 parameters, or 600 of a matrix. Folds are left out if the previous ones
    contain 400 misclassified samples.

    References
    ----------
    .. [1] D. H. Wolpert, "Stacked Generalization", Neural Networks 5, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import AutoCalibrator
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(1000, 3))
    >>> y = (logits + rng.gumbel(size=(1000, 3))).argmax(axis=1)
    >>> calibrator = AutoCalibrator(from_logits=True).fit(3 * logits, y)
    >>> calibrator.predict_proba(3 * logits[:2]).round(1)
    array([[0.2, 0.1, 0.6],
           [0.3, 0.1, 0.6]])
    >>> calibrator.weights_.round(1)
    array([0. , 0.6, 0.2, 0.1, 0.1, 0.1])
    """

    _errors_needed = 2, 0
    _fitted = {
        "calibrators_": ListOf(
            Object(Calibrator, classes_=SAME, from_logits=SAME), "n_calibrators"
        ),
        "weights_": Numbers("n_calibrators + 1", range=FRACTION, total=1),
        "log_losses_": Numbers("n_calibrators + 1", range=NON_NEGATIVE),
        "offset_": Numbers("n_classes"),
    }
    _parameter_constraints = {
        **Calibrator._parameter_constraints,
        "calibrators": [list, tuple, None],
        "cv": [Interval(Integral, 2, 1000, closed="both")],
        "prior_odds": [Interval(Real, 0, None, closed="neither"), None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        calibrators: Sequence[Calibrator] | None = None,
        *,
        cv: int = 5,
        prior_odds: float | None = 1.0,
        from_logits: bool = False,
        verbose: int = 0,
    ) -> None:
        self.calibrators = calibrators
        self.cv = cv
        self.prior_odds = prior_odds
        self.from_logits = from_logits
        self.verbose = verbose

    @property
    def report_(self) -> dict[str, list[Any]]:
        """Weight and cross-validated log loss of each calibrator."""
        check_is_fitted(self)
        table: dict[str, list[Any]] = {
            "calibrator": ["none", *map(_name, self.calibrators_)],
            "log_loss": self.log_losses_.tolist(),
            "weight": self.weights_.tolist(),
            "note": [""] * len(self.weights_),
        }
        candidates = [_name(c.calibrator) for c in defaults(len(self.classes_))]
        if table["calibrator"][1:] != candidates:
            return table
        for candidate in DEFAULTS:
            if not candidate.least <= len(self.classes_) <= candidate.most:
                limits = f"{candidate.least} to {candidate.most}"
                limits = limits.replace("to inf", "or more").replace("2 to 2", "two")
                row = _name(candidate.calibrator), np.nan, 0.0, f"for {limits} classes"
                for column, value in zip(table.values(), row, strict=True):
                    column.append(value)
        return table

    @property
    def explanation_(self) -> str:
        """The weights and the reasons, in words."""
        rows = zip(*self.report_.values(), strict=True)
        lines = [
            f"{weight:6.1%}  {name}: " + (note or f"log loss {loss:.4g}")
            for name, loss, weight, note in sorted(rows, key=lambda row: -row[2])
        ]
        text = (
            "Weighted average of the probabilities of each calibrator and of those "
            "before calibration (none).\nThe weights maximise the likelihood in "
            "cross-validation."
        )
        return first_lines([*text.splitlines(), *lines], "report_")

    def plot(self, ax: Any = None) -> Axes:
        """Draw the weights as bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default, those of a new figure.

        Returns
        -------
        ax : matplotlib Axes
            The axes.
        """
        with explain_missing("AutoCalibrator.plot"):
            from matplotlib import pyplot as plt

        names, losses, weights, _ = self.report_.values()
        if ax is None:
            _, ax = plt.subplots(
                figsize=(9, 0.5 * len(names) + 1), layout="constrained"
            )
        # Two calibrators may have the same name.
        index = np.arange(len(names))
        bars = ax.barh(index, weights)
        ax.set_yticks(index, names)
        labels = ["" if np.isnan(x) else f"log loss {x:.4g}" for x in losses]
        ax.bar_label(bars, labels, padding=4)
        ax.set(xlabel="Weight", xlim=(0, 1.4 * max(weights)))
        ax.invert_yaxis()
        return ax

    def _validate_params(self) -> None:
        super()._validate_params()
        given = self.calibrators
        if given is None:
            return
        is_allowed = [
            isinstance(item, Calibrator) and not isinstance(item, BoostingCalibrator)
            for item in given
        ]
        if not given or not all(is_allowed):
            raise TypeError(
                "calibrators must be None or a list of calibrators other than "
                f"BoostingCalibrator, got {shown(given)}. Pass [TemperatureScaling(), "
                "IsotonicCalibration()], for example."
            )
        for calibrator in given:
            calibrator._validate_params()

    def _fit(self, data: Blocks) -> None:
        warn_of_absent_classes(
            self.classes_[data.counts == 0],
            "AutoCalibrator makes their probabilities small",
        )
        (weight,) = data.collect(lambda block: (block.weight,))
        given = data.given
        if (counted := weight > 0).sum() < len(weight):
            # The others would change the folds of these.
            data, given = data.select(counted), given.select(counted)
            weight = weight[counted]
        # A calibrator with a poor fit gets a small weight. The many fits have small
        # matrices.
        with without_warnings(), one_blas_thread():
            self.calibrators_ = self._fit_each(data)
            held_out, weight = self._held_out(data, random_folds(given, self.cv))
        counts = np.array(
            [candidate.pseudo_count for candidate in self._candidates(len(data.sizes))]
        )
        relative = stacking_weights(held_out[:, 1:], counts, weight)
        average = held_out[:, 1:] @ relative
        total = 1.0
        if self.prior_odds is not None:
            none = held_out[:, 0]
            odds = float(self.prior_odds)
            total = probability_of_gain(none, average, weight, odds)
        self.weights_ = np.append(1 - total, total * relative)
        self.offset_: Floats = np.zeros(len(data.sizes))
        if len(data.sizes) <= MAX_OFFSETS:
            self.offset_ = fit_offsets(
                data.map(lambda block: block._replace(logits=self._mean(block.logits)))
            )
        self.log_losses_ = -(weight @ np.log(held_out)) / weight.sum()

    def _held_out(self, data: Blocks, folds: Shares) -> tuple[Floats, Floats]:
        """Return the held-out probabilities of the true classes, and their weights.

        There is a row for each sample and fold. The first column is before calibration;
        the others are of the calibrators. The last folds are left out if the others
        have enough errors.
        """
        codes, weight, is_wrong = data.collect(
            lambda block: (
                *(block.codes, block.weight),
                block.logits.argmax(axis=1) != block.codes,
            )
        )
        shares: list[Floats] = []
        n_errors: Any = 0.0
        for k in np.unique(folds.fold):
            in_k = folds.fold == k
            sums = np.bincount(folds.sample[in_k], folds.share[in_k], len(weight))
            shares.append(sums.astype(np.float64))
            n_errors += (weight * sums) @ is_wrong
            if n_errors >= ENOUGH_ERRORS:
                break
        rest: Floats = 1 - np.sum(shares, axis=0)
        rest[rest < LEAST_SHARE] = 0

        def select(share: Floats) -> Blocks:
            return data.reweighted(codes, weight * share).select(share > 0)

        parts = [select(share) for share in (*shares, rest) if share.any()]
        # A step may be far from the fit if few samples determine it.
        has_many = (weight * is_wrong).sum() >= ERRORS_FOR_STEPS
        fits = [
            leave_out(calibrator, parts, lambda k: select(1 - shares[k]), has_many)
            for calibrator in self.calibrators_
        ]
        held_out = []
        for k, (part, share) in enumerate(zip(parts, shares, strict=False), 1):
            with self._timed(f"fold {k} of {len(shares)}"):
                # Without training samples, the calibrators are as good as none.
                fitted = [next(fit) for fit in fits] if (share < 1).any() else []
                columns = part.collect(partial(self._likelihoods, fitted))
            columns += columns[:1] * (len(fits) - len(fitted))
            held_out.append(np.column_stack(columns))
        weights = [(weight * share)[share > 0] for share in shares]
        return np.concatenate(held_out), np.concatenate(weights)

    def _likelihoods(self, fitted: list[Any], block: Block) -> list[Floats]:
        """Return probabilities of the true classes, before and after calibration."""
        logits, rows = block.logits, np.arange(len(block.codes))
        proba = [softmax(logits), *(fit._calibrate(logits) for fit in fitted)]
        true = [p[rows, block.codes].astype(np.float64) for p in proba]
        return [np.maximum(p, np.finfo(logits.dtype).tiny) for p in true]

    def _fit_each(self, data: Blocks) -> list[Any]:
        """Return new calibrators, fitted to the samples."""
        fitted = []
        for candidate in self._candidates(len(data.sizes)):
            new = clone(candidate.calibrator).set_params(from_logits=self.from_logits)
            new._copy_input(self)
            with self._timed(_name(new)):
                new._fit_and_try(data)
            fitted.append(new)
        return fitted

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        """Print the seconds of the block if `verbose` is positive."""
        start = perf_counter()
        yield
        if self.verbose:
            seconds = perf_counter() - start
            print(f"[AutoCalibrator] {what}: {seconds:.1f} s")  # noqa: T201 - verbose

    def _candidates(self, n_classes: int) -> list[Candidate]:
        """Return the calibrators to fit, with their pseudo-counts."""
        if self.calibrators is not None:
            return [Candidate(calibrator, COUNT) for calibrator in self.calibrators]
        return defaults(n_classes)

    def _calibrate(self, logits: Values) -> Values:
        proba = self._mean(logits)
        if not self.offset_.any():
            return proba
        proba *= np.exp(self.offset_)
        proba /= proba.sum(axis=1, keepdims=True)
        return proba.astype(logits.dtype, copy=False)

    def _mean(self, logits: Values) -> Values:
        """Return the weighted mean of the probabilities."""
        none, *weights = self.weights_.tolist()
        proba = none * softmax(logits)
        for weight, calibrator in zip(weights, self.calibrators_, strict=True):
            proba += weight * calibrator._calibrate(logits)
            proba = proba.astype(logits.dtype, copy=False)
        return proba


def leave_out(
    fitted: Any,
    parts: Sequence[Blocks],
    read_others: Callable[[int], Blocks],
    may_step: bool,
) -> Iterator[Any]:
    """Yield a calibrator that is fitted without each part of the samples, in turn.

    A `_fit` that takes `fitted` keeps the strengths of its priors. A map fitted by the
    `_fit` of linear maps may be a Newton step from `fitted`.
    """
    fit = type(fitted)._fit
    if may_step and fit is _MultinomialCalibrator._fit and fitted._takes_steps(parts):
        yield from fitted._steps_without(parts)
        return
    known = {"fitted": fitted} if "fitted" in read_parameters(fit) else {}
    for k in range(len(parts)):
        new = clone(fitted)
        new._copy_input(fitted)
        new._fit(read_others(k), **known)
        yield new


def _name(calibrator: Any) -> str:
    """Return a calibrator as text, without the parameter that is set automatically."""
    text = repr(clone(calibrator).set_params(from_logits=False))
    return " ".join(text.split())
