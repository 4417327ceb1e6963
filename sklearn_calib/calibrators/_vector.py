"""Vector scaling: a slope and an intercept for each class."""

from sklearn_calib._core.multinomial_maps import DiagonalMap
from sklearn_calib.calibrators._multinomial import _PenalisedCalibrator


class VectorScaling(_PenalisedCalibrator):
    r"""Multiply the logit of each class by its own slope, and add an intercept.

    The calibrated probabilities are softmax(w * x + b), where x are the logits, of mean
    zero in each row, and w and b hold a slope and an intercept for each class [1]_. It
    repairs what :class:`TemperatureScaling` cannot: classes that are predicted too
    often, or with too much confidence. Two parameters for each class need about ten
    errors for each class among the samples of `fit`.

    Parameters
    ----------
    penalty : {"none", "l2", "odir"}, default="none"
        What is added to the mean log loss, see Notes: nothing, lambd times the sum of
        all squared weights and intercepts, or off-diagonal and intercept
        regularisation, which leaves the diagonal of W free.

    lambd : float, array-like or "cv", default="cv"
        Strength of the penalty. Of a sequence, or of 1e-4, 1e-3, ..., 1e3 for "cv", the
        one with the smallest log loss in a cross-validation inside of `fit`, with five
        stratified folds in the order of the data. Not used with `penalty="none"`.

    mu : float, array-like, "cv" or None, default=None
        Strength of the pull on the intercepts for `penalty="odir"`. None stands for the
        same as `lambd`; of a sequence, each is tried with each `lambd`.

    from_logits : bool, default=False
        Whether X holds logits. Never guessed.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,)
        The slopes w.

    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    lambd_, mu_ : float
        The strengths that were used. Only with a penalty, mu with "odir".

    log_loss_before_, log_loss_after_ : float
        The log loss on the data of `fit`, as it came and by the fitted map.

    classes_ : ndarray of shape (n_classes,)
        The label of each column.

    n_features_in_ : int
        Number of columns of X: `n_classes`, or 1.

    n_errors_ : float
        Errors among the samples of `fit`, see :class:`Calibrator`.

    zero_replacement_ : float
        What a probability of zero is taken for, see :class:`Calibrator`. Only with
        `from_logits=False`.

    preserves_argmax : bool
        False: the most probable class may change.

    See Also
    --------
    StructuredVectorScaling : The same map, held near temperature scaling.
    MatrixScaling : Lets the logits of all classes matter for each.

    Notes
    -----
    Logits are centred first, x = z minus the mean of its row, which is the same for
    logits and logarithms of probabilities: a constant added to a row would change the
    result otherwise, though it changes no probability. The same of the logarithms of
    the probabilities is ``DirichletCalibrator(diagonal=True)``.

    Without penalty the log loss is minimised to full precision by Newton's method, and
    is never above that before the fit. Where it has no smallest value, as classes can
    be separated, or where a class has fewer samples than parameters, normal priors hold
    the map near temperature scaling, with a `ConvergenceWarning`: independent ones, by
    which the scores vary by about one through all weights, and by one through b. Adding
    the same to all intercepts changes nothing: of the maps that are the same, it is the
    one closest to temperature scaling. Weights count samples: a weight of 2 is two
    samples.

    The penalty is, with K classes,
    "l2": :math:`\lambda (\sum_k w_k^2 + \sum_k b_k^2)`,
    "odir": :math:`\frac{\mu}{K} \sum_k b_k^2`; there is nothing off the diagonal.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> y = (logits + [1, 0, -1] + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> calibrator = VectorScaling(from_logits=True).fit(logits, y)
    >>> calibrator.intercept_.round(1)
    array([ 1. ,  0.1, -1. ])
    """

    _errors_needed = 10, 1
    _kind = DiagonalMap
