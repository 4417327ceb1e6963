"""What a display asks a fitted classifier for."""


def predictions_of(estimator, X, name):
    """Return the arguments that `from_predictions` takes from a classifier."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            "estimator must be a classifier with predict_proba, got "
            f"{estimator!r}. Calibrate it by scikit-learn's CalibratedClassifierCV."
        )
    return {
        "y_proba": estimator.predict_proba(X),
        "labels": estimator.classes_,
        "name": type(estimator).__name__ if name is None else name,
    }
