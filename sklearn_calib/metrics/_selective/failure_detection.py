"""AUROC of failure detection by confidence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_calib._numerics.risk_coverage import RANKING, rank
from sklearn_calib._validation.declarations import validate_params
from sklearn_calib._validation.fit_warnings import warn
from sklearn_calib._validation.types import Confidence


@validate_params(RANKING)
def failure_auroc_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence: Confidence = "msp",
    pos_label: Any = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the ROC curve (AUROC) of failure detection by confidence.

    The probability that a correct prediction is more confident than a wrong one, where
    ties count half. Higher is better: 1 is best, 0.5 is chance level. It does not
    measure accuracy.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of any type.

    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. A 1-d array contains the probabilities of the positive
        class.

    confidence : str, callable or array-like of shape (n_samples,), default="msp"
        Confidence by which the samples are ranked, as in :func:`risk_coverage_curve`.

    pos_label : label, default=None
        Label of the class whose probabilities a 1-d array contains. By default, the
        second of the two labels.

    labels : array-like of shape (n_classes,), default=None
        Labels of the columns of `y_proba`. By default, the sorted distinct values of
        `y_true`.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    auroc : float
        Area in [0, 1]. If all predictions are correct or all are wrong, it is NaN and
        an `UndefinedMetricWarning` is raised.

    Raises
    ------
    ValueError
        If the labels do not match the columns of `y_proba`, or `y_proba` contains
        values that are not probabilities, or the confidence is unknown or NaN.

    See Also
    --------
    excess_aurc_loss : Cost of an imperfect ranking, in units of the error rate.
    refinement_error : Refinement in units of a proper loss.
    sklearn.metrics.roc_auc_score : AUROC of the positive class, or of all classes.

    Notes
    -----
    This is also known as refinement AUC [3]_; the scorer "refinement_auc" is named
    after it. The AUC in the tables of [3]_ is different: it is the AUC of each class,
    one-vs-rest (one-vs-one in the code of the authors), averaged over classes. The
    scorers "roc_auc_ovr" and "roc_auc_ovo" of scikit-learn compute it. It may be near 1
    even if most predictions are wrong, because most pairs of many classes are easily
    separated.

    The score may be misleading for comparing classifiers: of two classifiers with the
    same failures on hard samples, one with additional failures on easy samples may have
    a higher score [2]_. To select a classifier, prefer :func:`augrc_loss` or
    :func:`aurc_loss`.

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
        y_true, y_proba, confidence, "zero_one", labels, sample_weight, pos_label
    )
    correct = mass - wrong
    pairs = correct.sum() * wrong.sum()
    if not pairs:
        warn(
            "failure_auroc_score is not defined because all predictions are "
            f"{'correct' if correct.sum() else 'wrong'}. It is set to NaN.",
            UndefinedMetricWarning,
        )
        return float("nan")
    more_confident = np.cumsum(correct) - correct / 2
    return float((wrong * more_confident).sum() / pairs)
