"""`AutoCalibrator` against its members and against no calibration.

python benchmarks/bench_auto.py results tune
"""

import io
import warnings
import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from bench_public_logits import DATA
from bench_trees import MOST_ROWS, read_tables
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_calib._core.predicted_scores import holds_logits, predict_scores

CLASSIFIERS = {
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "forest": RandomForestClassifier(random_state=0),
    "naive_bayes": make_pipeline(StandardScaler(), GaussianNB()),
    "net": make_pipeline(StandardScaler(), MLPClassifier(max_iter=100, random_state=0)),
}
N_COMPONENTS = 50
# Names of all tables, so that none has to be read to know the halves.
TABLES = [
    "adult",
    "breast_cancer",
    "cifar10",
    "digits",
    "fashion_mnist",
    "german_credit",
    "krkopt",
    "letter",
    "mnist",
    "newsgroups",
    "pendigits",
    "satimage",
    "segment",
    "spambase",
]
# The method was chosen with the first half, and evaluated once on the second half.
HALVES = {"tune": TABLES[::2], "evaluate": TABLES[1::2]}


def read_images_and_text():
    """Yield the name of each data set, its features and its labels."""
    for name in ("fashion_mnist", "mnist"):
        file = np.load(DATA / "images" / f"{name}_test.npz", allow_pickle=False)
        yield name, lambda file=file: (reduced(file["images"]), file["labels"])
    yield "cifar10", read_cifar10
    yield "newsgroups", read_newsgroups


def reduced(images):
    """Return the principal components of images."""
    pixels = images.reshape(len(images), -1) / 255
    return PCA(N_COMPONENTS, random_state=0).fit_transform(pixels)


def read_cifar10():
    from PIL import Image

    file = np.load(DATA / "images" / "cifar10_jpeg_test.npz", allow_pickle=False)
    data, ends = file["jpeg"].tobytes(), file["offsets"]
    images = [
        np.asarray(Image.open(io.BytesIO(data[low:high])).convert("RGB"))
        for low, high in zip(ends[:-1], ends[1:], strict=True)
    ]
    return reduced(np.stack(images)), file["labels"]


def read_newsgroups():
    frame = pd.read_csv(DATA / "text" / "20news_bydate_test.csv.gz")
    counts = TfidfVectorizer(min_df=5, sublinear_tf=True).fit_transform(frame["text"])
    svd = TruncatedSVD(N_COMPONENTS, random_state=0)
    return svd.fit_transform(counts), frame["label"].to_numpy()


def read_half(half):
    """Yield the name, the features and the labels of each table of a half."""
    for name, read in read_images_and_text():
        if name in HALVES[half]:
            yield name, *read()
    for name, X, y in read_tables():
        if name in HALVES[half]:
            yield name, X, y


def predict_all(folder, half):
    """Train the missing classifiers, and save their scores for the other rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, X, y in read_half(half):
        X, rest, y, y_rest = train_test_split(
            X, y, train_size=1 / 3, stratify=y, random_state=0
        )
        for kind, classifier in CLASSIFIERS.items():
            path = folder / f"{name}_{kind}.npz"
            if path.exists():
                continue
            classifier.fit(X, y)
            from_logits = holds_logits(classifier)
            scores = predict_scores(classifier, rest, from_logits)
            np.savez(path, scores=scores, labels=y_rest, from_logits=from_logits)


if __name__ == "__main__":
    import sys, time

    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        predict_all(Path(sys.argv[1]) / "scores", sys.argv[2])
    print(time.process_time())
