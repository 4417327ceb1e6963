"""Time of trainings and searches by the number of torch's threads.

    python benchmarks/speed/bench_threads.py --repeats 5

Trains networks of several sizes for an epoch of 4 batches, with one thread, with all
threads of torch (two on a machine with two cores), and with the number that
`n_threads="auto"` chooses. The three are interleaved, and the median of the repeats is
printed: seconds, and seconds of CPU time of all threads. Then a grid search of small
networks on the digits, with `n_jobs` of 1 and 2, and the interval of an AURC, first
with new processes, then with those of the call before. The times of several threads
depend on what else the machine does, since threads of torch wait for each other; the
printed load average tells how busy it was. Run it without `OMP_NUM_THREADS`.
"""

import argparse
import math
import os
import time
from functools import partial

import numpy as np
import torch
from joblib.externals.loky import get_reusable_executor
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from sklearn_calib import NeuralClassifier
from sklearn_calib.estimators import ConvNet
from sklearn_calib.metrics import aurc_loss, bootstrap_interval

BATCH = 128
# Name, shape of a sample, parameters of the network.
NETWORKS = [
    ("MLP, 64 units", (64,), {"module__hidden_sizes": (64, 64)}),
    ("MLP, 256 units", (64,), {"module__hidden_sizes": (256, 256)}),
    ("MLP, 1024 units", (64,), {"module__hidden_sizes": (1024, 1024)}),
    ("ConvNet, 4 filters", (3, 32, 32), {"module": ConvNet, "module__n_filters": 4}),
    ("ConvNet, 32 filters", (3, 32, 32), {"module": ConvNet, "module__n_filters": 32}),
]


def make_data(shape, n_samples=4 * BATCH):
    """Return random samples of ten classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, *shape), dtype=np.float32)
    return X, rng.integers(10, size=n_samples)


def time_of(call):
    """Return the seconds of a call, and its seconds of CPU time in this process."""
    start, cpu_start = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - cpu_start


def compare(fit, settings, repeats):
    """Return the median times of a function for each number of threads."""
    times = [
        [time_of(lambda n=n_threads: fit(n)) for n_threads in settings]
        for _ in range(repeats)
    ]
    return np.median(times, axis=0)


def show(name, times):
    """Print one row: wall and CPU seconds for each number of threads."""
    cells = "".join(f"{wall:10.3f}{cpu:8.3f}" for wall, cpu in times)
    print(f"{name:<36}{cells}", flush=True)


def compare_networks(settings, repeats):
    """Print one row for each network."""
    for name, shape, params in NETWORKS:
        X, y = make_data(shape)
        net = NeuralClassifier(**params, max_epochs=1, warm_start=True, random_state=0)
        weights = sum(w.numel() for w in net.fit(X, y).module_.parameters())
        work = BATCH * weights * math.prod(shape[1:]) / 1e6

        def fit(n_threads, net=net, X=X, y=y):
            net.set_params(n_threads=n_threads).fit(X, y)

        times = compare(fit, settings, repeats)
        show(f"{name}, {work:.1f} M", times)


def compare_searches(settings, repeats, max_epochs):
    """Print one row for each `n_jobs`; CPU time is that of this process."""
    X, y = load_digits(return_X_y=True)
    net = NeuralClassifier(max_epochs=max_epochs, random_state=0)
    for n_jobs in (1, 2):

        def fit(n_threads, n_jobs=n_jobs):
            grid = {"loss": ["focal", "brier"], "n_threads": [n_threads]}
            GridSearchCV(net, grid, cv=2, n_jobs=n_jobs, refit=False).fit(X / 16, y)

        show(f"search, n_jobs={n_jobs}", compare(fit, settings, repeats))


def compare_draws():
    """Print the seconds of an interval for each number of samples and `n_jobs`."""
    for n_samples in (1000, 10_000, 100_000):
        rng = np.random.default_rng(0)
        data = rng.integers(3, size=n_samples), rng.dirichlet(np.ones(3), n_samples)
        # Processes that are started by the second call, and found by the third.
        get_reusable_executor().shutdown()
        walls = [
            time_of(partial(interval_of_aurc, *data, n_jobs=n_jobs))[0]
            for n_jobs in (1, 2, 2)
        ]
        cells = "".join(f"{wall:10.1f}" for wall in walls)
        print(f"{f'interval of {n_samples} samples: 1, 2, 2 jobs':<46}{cells}")


def interval_of_aurc(y_true, y_proba, n_jobs):
    bootstrap_interval(
        aurc_loss, y_true, y_proba, n_resamples=100, n_jobs=n_jobs, random_state=0
    )


def main():
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5, help="of the search's nets")
    args = parser.parse_args()
    n_all = torch.get_num_threads()
    settings = [1, n_all, "auto"]
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"# torch {torch.__version__}, {n_all} threads, load average {load}")
    heads = "".join(f"{each!s:>10}{'CPU':>8}" for each in settings)
    print(f"{'network, estimated work of a batch':<36}{heads}")
    compare_networks(settings, args.repeats)
    compare_searches(settings, args.repeats, args.epochs)
    compare_draws()
    print(f"# load average {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


if __name__ == "__main__":
    main()
