"""How well the confidence tells right predictions from wrong ones."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._core.risk_coverage import RANKING, rank
from sklearn_calib._core.typing import Confidence
from sklearn_calib._core.validation import validate_params


@validate_params(RANKING, prefer_skip_nested_validation=True)
def failure_auroc_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the ROC curve of telling right from wrong predictions by confidence.

    The probability that a right prediction is more confident than a wrong one, ties
    counting half. 1 is best, 0.5 is chance. It says nothing about how many predictions
    are right.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any kind.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array holds those of the positive class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        What the samples are ranked by, as in :func:`risk_coverage_curve`.

    labels : array-like of shape (n_classes,), default=None
        The label of each column, by default the sorted distinct values of `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples.

    Returns
    -------
    auroc : float
        Area in [0, 1]; NaN, with an `UndefinedMetricWarning`, if all predictions are
        right or all are wrong.

    Raises
    ------
    ValueError
        If the labels do not match the columns, or `y_proba` holds anything but
        probabilities, or the confidence is unknown or NaN.

    See Also
    --------
    excess_aurc_loss : What the ranking costs, in units of the error rate.
    refinement_error : Refinement in units of a proper loss.
    sklearn.metrics.roc_auc_score : The same of classes instead of right and wrong.

    Notes
    -----
    Also known as refinement AUC [3]_, after which there is a scorer "refinement_auc".
    The AUC in the tables of [3]_ is another one, of classes: each against the rest, or
    in the code of the authors each against each other, averaged over the classes.
    scikit-learn has the scorers "roc_auc_ovr" and "roc_auc_ovo". These may be near 1
    where most predictions are wrong, for most of many classes are told apart easily.

    Between classifiers it may mislead: one that errs on easy samples too has the higher
    score for the same failures on hard ones [2]_. To choose one, prefer
    :func:`augrc_loss` or :func:`aurc_loss`.

    References
    ----------
    .. [1] D. Hendrycks and K. Gimpel, "A Baseline for Detecting Misclassified and
       Out-of-Distribution Examples in Neural Networks", ICLR 2017.

    .. [2] P. F. Jaeger, C. T. Lüth, L. Klein and T. J. Bungert, "A Call to Reflect on
       Evaluation Practices for Failure Detection in Image Classification", ICLR 2023.

    .. [3] R. Hebbalaguppe, A. Shastry, S. S. Ghosal and C. Arora, "Enhancing DNN
       Reliability with Refinement and Calibration", ICLR Workshop on Trustworthy AI
       2026, figure 1 and table 1.

    Examples
    --------
    >>> from sklearn_calib.metrics import failure_auroc_score
    >>> failure_auroc_score([0, 1, 0, 1], [0.1, 0.9, 0.8, 0.7])
    0.6666666666666666
    """
    mass, wrong, _ = rank(
        y_true, y_proba, confidence, "zero_one", labels, sample_weight
    )
    right = mass - wrong
    pairs = right.sum() * wrong.sum()
    if not pairs:
        warnings.warn(
            "failure_auroc_score is not defined, for all predictions are "
            f"{'right' if right.sum() else 'wrong'}. It is set to NaN.",
            UndefinedMetricWarning,
        )
        return float("nan")
    more_confident = np.cumsum(right) - right / 2
    return float((wrong * more_confident).sum() / pairs)
