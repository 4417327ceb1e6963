"""Samples in the sum of accumulators after workers of a cluster have died.

    python benchmarks/memory/bench_lost_workers.py dask ray spark torch

Each engine adds 2000 samples in four parts, or ten blocks, on two local workers. The
worker that gets the last part ends without a word: at the first attempt, or at each
one. With Ray, it also raises an error while `max_errored_blocks` is 1; it is not asked
to end at each attempt, as Ray starts its task again forever. Prints the number of
samples in the sum, or the error. Ray and PySpark are to be installed for it.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from sklearn_calib.metrics import CalibrationAccumulator
from sklearn_calib.persistence import from_dict, to_dict

N_ROWS = 2000
LAST = 1600
rng = np.random.default_rng(0)
PROBA, LABELS = rng.dirichlet(np.ones(3), N_ROWS), rng.integers(3, size=N_ROWS)


def fail(rows, how, flag):
    """End this process, or raise an error, if it has the last part."""
    if LAST in rows and (how != "once" or not flag.exists()):
        flag.touch()
        if how == "error":
            raise ValueError("rows that cannot be read")
        os._exit(1)


def accumulate(rows, how, flag):
    """Return the sums of some rows as JSON, unless the worker dies."""
    fail(rows, how, flag)
    part = CalibrationAccumulator(labels=range(3)).update(LABELS[rows], PROBA[rows])
    return json.dumps(to_dict(part))


def total_of(states):
    parts = (from_dict(json.loads(state)) for state in states)
    return sum(parts, start=CalibrationAccumulator(labels=range(3)))


def fail_in_block(block, how, flag, block_id):
    fail([LAST] if block_id[0] == 8 else [], how, flag)
    return block


def run_dask(how, flag):
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    proba = da.from_array(PROBA, chunks=(200, 3))
    proba = proba.map_blocks(fail_in_block, how=how, flag=flag, dtype=float)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster):
        total = CalibrationAccumulator(labels=range(3))
        return total.update(da.from_array(LABELS, chunks=200), proba)


def run_ray(how, flag):
    import ray

    def reduce_batch(batch):
        return {"state": [accumulate(batch["item"], how, flag)]}

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.max_errored_blocks = int(how == "error")
        rows = ray.data.from_items([*range(N_ROWS)], override_num_blocks=4)
        states = rows.map_batches(reduce_batch, batch_size=500).take_all()
        return total_of(row["state"] for row in states)
    finally:
        ray.shutdown()


def run_spark(how, flag):
    import pyarrow as pa
    from pyspark.sql import SparkSession

    def reduce_partition(batches):
        for batch in batches:
            state = accumulate(batch["row"].to_numpy(), how, flag)
            yield pa.RecordBatch.from_pydict({"state": [state]})

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Four attempts, as on a cluster.
    spark = SparkSession.builder.master("local[2,4]").getOrCreate()
    try:
        frame = spark.createDataFrame(pa.table({"row": np.arange(N_ROWS)}))
        frame = frame.repartition(4).mapInArrow(reduce_partition, "state string")
        return total_of(row.state for row in frame.collect())
    finally:
        spark.stop()


def exchange(rank, how, flag, folder):
    import torch.distributed as dist

    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    state = accumulate(np.arange(rank, N_ROWS, 2), how, flag)
    states = [None, None]
    dist.all_gather_object(states, state)


def run_torch(how, flag):
    import torch

    torch.multiprocessing.spawn(exchange, (how, flag, flag.parent), nprocs=2)


RUNS = {
    "dask": (run_dask, ["once", "always"]),
    "ray": (run_ray, ["once", "error"]),
    "spark": (run_spark, ["once", "always"]),
    "torch": (run_torch, ["once"]),
}


def main():
    for engine in sys.argv[1:] or RUNS:
        run, ways = RUNS[engine]
        for how in ways:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    total = run(how, Path(folder) / "flag")
                    found = f"{total.n_samples_} of {N_ROWS} samples"
                except Exception as error:
                    found = f"{type(error).__name__}: {error}".split("\n")[0][:150]
            print(f"{engine}, {how}: {found}", flush=True)


if __name__ == "__main__":
    main()
