"""Confidence-based out-of-distribution detection."""

from collections.abc import Callable
from typing import Any

from sklearn_calib._numerics.confidence import (
    check_confidence,
    get_confidence,
    needs_logits,
)
from sklearn_calib._sklearn.response import find_response, predict_scores
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.types import Floats
from sklearn_calib.metrics import (
    fpr_at_tpr,
    ood_aupr_score,
    ood_auroc_score,
    ood_detection_error,
)


def evaluate_ood(
    estimator: Any,
    X_in: Any,
    X_out: Any,
    *,
    confidence: str | Callable[..., Any] = "msp",
    tpr: float = 0.95,
    pos: str = "in",
    balanced: bool = False,
) -> dict[str, float]:
    """Evaluate confidence-based out-of-distribution (OOD) detection.

    The :term:`in-distribution (ID)` and :term:`out-of-distribution (OOD)` samples are
    ranked by the :term:`confidence` of the classifier [1]_.

    Parameters
    ----------
    estimator : object
        Fitted classifier with `predict_proba`.

    X_in : array-like of shape (n_in, ...)
        In-distribution samples: held-out data from the distribution of the training
        data.

    X_out : array-like of shape (n_out, ...)
        Out-of-distribution samples, from another distribution.

    confidence : str or callable, default="msp"
        Confidence score: "msp" (maximum softmax probability), "margin",
        "negative_entropy", "negative_gini", "l2_norm", or a function of the
        probabilities that returns one number for each sample. "max_logit" and "p_norm"
        require a classifier whose `decision_function` is known to return logits, see
        :class:`~sklearn_calib.SelectiveClassifier`.

    tpr : float, default=0.95
        True positive rate of "fpr_at_tpr", in (0, 1].

    pos : {"in", "out"}, default="in"
        Whether ID ("in") or OOD samples are the positive class of "fpr_at_tpr".

    balanced : bool, default=False
        Whether ID and OOD samples have the same total weight in "aupr_in" and
        "aupr_out".

    Returns
    -------
    measures : dict of str to float
        Values of "fpr_at_tpr" and "detection_error" (lower is better), and of "auroc",
        "aupr_in" and "aupr_out" (higher is better). ``pandas.DataFrame({name:
        measures}).T`` is a row of a table.

    Raises
    ------
    ValueError
        If the confidence is unknown or NaN, `tpr` or `pos` is out of range, or
        `confidence` needs logits and the classifier is not known to return them.

    See Also
    --------
    sklearn_calib.metrics.fpr_at_tpr : FPR95 and its different definitions in papers.

    References
    ----------
    .. [1] D. Hendrycks and K. Gimpel, "A Baseline for Detecting Misclassified and
       Out-of-Distribution Examples in Neural Networks", ICLR 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_calib.evaluation import evaluate_ood
    >>> X, y = load_digits(return_X_y=True)
    >>> known = y < 8
    >>> classifier = LogisticRegression(C=0.001, max_iter=1000)
    >>> _ = classifier.fit(X[known][::2], y[known][::2])
    >>> measures = evaluate_ood(classifier, X[known][1::2], X[~known])
    >>> round(measures["auroc"], 2)
    0.95
    """
    scores = [_score(estimator, X, confidence) for X in (X_in, X_out)]
    return {
        "fpr_at_tpr": fpr_at_tpr(*scores, tpr=tpr, pos=pos),
        "detection_error": ood_detection_error(*scores),
        "auroc": ood_auroc_score(*scores),
        "aupr_in": ood_aupr_score(*scores, pos="in", balanced=balanced),
        "aupr_out": ood_aupr_score(*scores, pos="out", balanced=balanced),
    }


def _score(estimator: Any, X: Any, confidence: str | Callable[..., Any]) -> Floats:
    """Return the confidence scores of the samples."""
    function = get_confidence(confidence)
    wants_logits = needs_logits(confidence)
    response = "auto" if wants_logits else "predict_proba"
    from_logits = find_response(estimator, response) == "logits"
    if wants_logits and not from_logits:
        raise ValueError(
            'confidence must be computed from probabilities, such as "msp", for a '
            "classifier that is not known to return logits, got "
            f'"{confidence}" and {shown(estimator)}. To evaluate your own scores, use '
            "sklearn_calib.metrics.ood_auroc_score."
        )
    responses = predict_scores(estimator, X, from_logits)
    return check_confidence(function(responses), len(responses))
