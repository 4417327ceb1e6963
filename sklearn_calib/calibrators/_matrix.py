"""Matrix scaling: an affine map of the logits."""

from sklearn_calib._core.multinomial_maps import FullMap
from sklearn_calib.calibrators._multinomial import _PenalisedCalibrator


class MatrixScaling(_PenalisedCalibrator):
    r"""Map the logits by a matrix, and add an intercept for each class.

    The calibrated probabilities are softmax(W x + b), where x are the logits, of mean
    zero in each row, and W is a full matrix [1]_. With K classes there are K (K + 1)
    parameters: without a penalty they overfit unless each class has many times K
    samples. For many classes use :class:`StructuredMatrixScaling`.

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
    coef_ : ndarray of shape (n_classes, n_classes)
        The weights W, a row for each class that comes out.

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
    DirichletCalibrator : The same of the logarithms of the probabilities.
    StructuredMatrixScaling : Held near temperature scaling, for many classes.

    Notes
    -----
    Logits are centred first, x = z minus the mean of its row, which is the same for
    logits and logarithms of probabilities: a constant added to a row would change the
    result otherwise, though it changes no probability. This is where it differs from
    :class:`DirichletCalibrator`.

    Without penalty the log loss is minimised to full precision by Newton's method, and
    is never above that before the fit. Where it has no smallest value, as classes can
    be separated, or where a class has fewer samples than parameters, normal priors hold
    the map near temperature scaling, with a `ConvergenceWarning`: independent ones, by
    which the scores vary by about one through all weights, and by one through b. Adding
    the same to a column of W for all classes changes nothing: of the maps that are the
    same, it is the one closest to temperature scaling. Weights count samples: a weight
    of 2 is two samples.

    The penalty is, with K classes [2]_,
    "l2": :math:`\lambda (\sum_{ij} W_{ij}^2 + \sum_i b_i^2)`,
    "odir": :math:`\frac{\lambda}{K(K-1)} \sum_{i \ne j} W_{ij}^2 + \frac{\mu}{K}
    \sum_i b_i^2`, in which all classes are alike: there is no class of reference. It
    pulls towards zero, and may raise the log loss on the data of the fit;
    `log_loss_before_` and `log_loss_after_` say so.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern
       Neural Networks", ICML 2017, section 4.2.

    .. [2] M. Kull, M. Perello-Nieto, M. Kängsepp, T. Silva Filho, H. Song and P. Flach,
       "Beyond Temperature Scaling: Obtaining Well-Calibrated Multiclass Probabilities
       with Dirichlet Calibration", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.calibrators import MatrixScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> mixed = logits + [1, 0, -1] + 0.5 * logits[:, ::-1]
    >>> y = (mixed + rng.gumbel(size=(5000, 3))).argmax(axis=1)
    >>> calibrator = MatrixScaling(penalty="odir", lambd=0.01, from_logits=True)
    >>> calibrator = calibrator.fit(logits, y)
    >>> round(calibrator.log_loss_before_, 2), round(calibrator.log_loss_after_, 2)
    (0.98, 0.69)
    """

    _errors_needed = 10, 2
    _kind = FullMap
