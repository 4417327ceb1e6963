"""Time of the first import and of the first fit, compared with scikit-learn.

    OMP_NUM_THREADS=1 python benchmarks/speed/bench_start.py --repeats 15

Each program runs in a new process, and the programs are interleaved. Prints the median
milliseconds of CPU time, without the start of Python, and the ratio of the medians to
that of scikit-learn's program. The fit is the first one of the process: of logistic
regression on 1000 samples, calibrated with the defaults of both packages. Byte code is
written before, as pip does when it installs a package. No program may load torch.
"""

import argparse
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from tempfile import TemporaryDirectory

import numpy as np

PROGRAM = """
import sys, time
start = time.process_time()
{imports}
imported = time.process_time() - start
fitted = 0
if {fits}:
    import numpy as np
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 10))
    y = (X.sum(axis=1) + rng.normal(size=1000) > 0).astype(int)
    start = time.process_time()
    Calibrated(LogisticRegression()).fit(X, y)
    fitted = time.process_time() - start
assert "torch" not in sys.modules
print(1000 * imported, 1000 * fitted)
"""
IMPORTS = ["import sklearn", "import sklearn.calibration", "import sklearn_calib"]
CLASSIFIER = "from sklearn.linear_model import LogisticRegression"
FITS = [
    f"from {home} as Calibrated; {CLASSIFIER}"
    for home in (
        "sklearn.calibration import CalibratedClassifierCV",
        "sklearn_calib import CalibratedClassifier",
    )
]


def run(imports, environment):
    """Return the milliseconds of the imports of a program, and of its fit."""
    program = PROGRAM.format(imports=imports, fits="Calibrated" in imports)
    output = subprocess.check_output([sys.executable, "-c", program], env=environment)
    return [float(each) for each in output.split()]


def measure(programs, environment, repeats):
    """Return the times of each program, after one run that writes the byte code."""
    for program in programs:
        run(program, environment)
    return np.array(
        [[run(program, environment) for program in programs] for _ in range(repeats)]
    )


def show(name, times, others):
    """Print the median of a program, and its ratio to that of another one."""
    ratio = np.median(times) / np.median(others)
    print(f"{name:<46}{np.median(times):8.0f} ms   x{ratio:.2f}")


def main():
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    names = ("numpy", "scikit-learn", "sklearn-calib")
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"# Python {platform.python_version()}, {packages}, {repeats} repeats")
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        times = measure([*IMPORTS, *FITS], environment, repeats).transpose(1, 2, 0)
    imported = times[:, 0]
    print("# torch is not loaded\n\n# imports, compared with `import sklearn`")
    for name, milliseconds in zip(IMPORTS, imported[:3], strict=True):
        show(name, milliseconds, imported[0])
    ratio = np.median(imported[2]) / np.median(imported[1])
    print(f"import sklearn_calib to import sklearn.calibration: x{ratio:.2f}")
    print("\n# CalibratedClassifier, compared with CalibratedClassifierCV")
    (imports_of_cv, fit_of_cv), (imports, fit) = times[3:]
    show("imports and fit", imports + fit, imports_of_cv + fit_of_cv)
    show("imports", imports, imports_of_cv)
    show("fit", fit, fit_of_cv)


if __name__ == "__main__":
    main()
