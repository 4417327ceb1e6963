"""Rebuild the inputs of CalArena whose logits are in the shared data.

    python benchmarks/studies/calarena/make_inputs.py FOLDER

Two of the 1,791 experiments can be rebuilt: the ResNet-110 on CIFAR-10 of
`cv-multiclass`, and the same network in `cv-binary`, where the classes are animals and
machines. Both come from the file `cifar10_resnet110_kull.npz` of the shared data
(`SKLEARN_CALIB_DATA`). Writes an HDF5 file and a list of experiments for each of the
two benchmarks, in the form that CalArena's `run_benchmark.py --benchmarks_dir FOLDER`
reads. Needs h5py.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logsumexp, softmax

DATA = Path(__file__).parents[4] / "shared" / "data"
DATA = Path(os.environ.get("SKLEARN_CALIB_DATA", DATA))
ANIMALS = np.array([2, 3, 4, 5, 6, 7])  # classes of CIFAR-10
MACHINES = np.array([0, 1, 8, 9])


def to_animals(logits, y):
    """Return the probability of an animal, and whether the label is one."""
    scores = [logsumexp(logits[:, part], axis=1) for part in (ANIMALS, MACHINES)]
    return expit(scores[0] - scores[1]), np.isin(y, ANIMALS).astype(int)


def write(folder, benchmark, parts):
    """Write the calibration and test set of the ResNet-110."""
    import h5py  # only these files need it

    (proba, y), (proba_test, y_test) = parts
    sets = {
        "probas_cal": proba.astype(np.float32),
        "labels_cal": y.astype(np.int32),
        "probas_test": proba_test.astype(np.float32),
        "labels_test": y_test.astype(np.int32),
    }
    with h5py.File(folder / f"{benchmark}.h5", "w") as file:
        group = file.create_group("c10/resnet110")
        for name, values in sets.items():
            group.create_dataset(name, data=values)
    row = {"dataset": "c10", "model": "resnet110"}
    row |= {"cal_size": len(y), "test_size": len(y_test)}
    if proba.ndim == 2:
        row["n_classes"] = proba.shape[1]
    pd.DataFrame([row]).to_csv(folder / f"{benchmark}-experiments.csv", index=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    file = np.load(DATA / "logits" / "cifar10_resnet110_kull.npz")
    parts = [(file[f"{p}_logits"], file[f"{p}_labels"]) for p in ("val", "test")]
    write(folder, "cv-binary", [to_animals(*part) for part in parts])
    write(folder, "cv-multiclass", [(softmax(x, axis=1), y) for x, y in parts])


if __name__ == "__main__":
    main()
