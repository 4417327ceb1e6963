"""Problems for which fits may not converge: separable, saturated or degenerate."""

import numpy as np
from scipy.special import softmax


def _labels(n_samples, n_classes):
    return np.arange(n_samples) % n_classes


def blobs(n_classes, n_samples, scale, seed=0):
    """Return logits of classes that are far apart, with noise."""
    rng = np.random.default_rng(seed)
    y = _labels(n_samples, n_classes)
    return scale * (
        np.eye(n_classes)[y] + 0.2 * rng.normal(size=(n_samples, n_classes))
    ), y


def saturated(n_classes, n_samples, scale):
    y = _labels(n_samples, n_classes)
    return scale * np.eye(n_classes)[y], y


def wrong(n_classes, n_samples, scale):
    logits, y = saturated(n_classes, n_samples, scale)
    return np.roll(logits, 1, axis=1), y


def constant(n_classes, n_samples, value):
    return np.full((n_samples, n_classes), float(value)), _labels(n_samples, n_classes)


def constant_columns(n_classes, n_samples, scale):
    logits, y = blobs(n_classes, n_samples, scale)
    logits[:, 1:] = -scale
    return logits, y


def alike(n_classes, n_samples, scale):
    """Return columns that are copies of each other."""
    logits, y = blobs(n_classes, n_samples, scale)
    return np.repeat(logits[:, :1], n_classes, axis=1), y


def noise(n_classes, n_samples, scale):
    logits = scale * np.random.default_rng(1).normal(size=(n_samples, n_classes))
    return logits, _labels(n_samples, n_classes)


KINDS = [blobs, saturated, wrong, constant, constant_columns, alike, noise]
SIZES = [(2, 2), (2, 30), (3, 3), (3, 60), (4, 300), (7, 70), (10, 10), (20, 40)]
SCALES = [1e-3, 1.0, 5.0, 50.0, 1e3, 1e8]


def problems():
    """Return (X, y) by name, as logits and as probabilities."""
    found = {}
    for make in KINDS:
        for n_classes, n_samples in SIZES:
            for scale in SCALES:
                logits, y = make(n_classes, n_samples, scale)
                name = f"{make.__name__} {n_samples}x{n_classes} times {scale:g}"
                found[f"{name}, logits"] = logits, y, True
                found[f"{name}, probabilities"] = softmax(logits, axis=1), y, False
    return found
