"""Run the experiments of the papers with every loss, and compute the metrics.

    python benchmarks/papers/run.py
    python benchmarks/papers/run.py --size medium
    python benchmarks/papers/run.py --paper ghosh2022 --seeds 5 --n-jobs 2
    python benchmarks/papers/run.py --paper tao2023 --size paper --device cuda

A run is a loss with a seed on a data set. It appends its rows to `results/`, and runs
with rows there are not repeated, so only an interrupted run starts again. Changes of
the code or the settings are not detected: remove the rows of runs to repeat.
Several processes can work at the same time, with different data or losses. The logits
are kept in `results/logits_output`. From these, `--rescore` computes the metrics again;
rows without logits do not change. `verdicts.py` prints what the results say.

`pip install -e ".[plot]" --group papers` installs the requirements. The data are read
from the folder in the environment variable SKLEARN_CALIB_DATA, or from `shared/data`
next to the checkout.
"""

import argparse
import time
import tomllib
from contextlib import contextmanager
from itertools import chain, product
from pathlib import Path

import data
import pandas as pd
import score
import torch
import train
from filelock import FileLock
from joblib import Parallel, delayed
from tqdm import tqdm

from sklearn_calib._state.whole_file import whole_file

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SIZES = ["small", "medium", "paper"]
PAPERS = ["ghosh2022", "tao2023", "liang2025", "zhou2025", "hebbalaguppe2026"]
KEY = ("data", "loss", "seed")
FORMAT = {"index": False, "float_format": "%.6g", "lineterminator": "\n"}


def read_toml(name):
    """Return the content of a TOML file in this folder."""
    return tomllib.loads((HERE / "inputs" / f"{name}.toml").read_text("utf-8"))


def plan(options):
    """Return the requested runs, seed by seed."""
    size = read_toml(options.paper if options.size == "paper" else options.size)
    experiments, losses = size["experiments"], size["losses"]
    if options.network:
        experiments["cifar10"]["network"] = options.network
    if options.paper:
        of_paper = read_toml(options.paper)["losses"]
        losses = [loss for loss in losses if loss in of_paper]
    names = [name for name in experiments if name in (options.data or experiments)]
    seeds = range(size["seeds"] if options.seeds is None else options.seeds)
    wanted = product(seeds, names, options.losses or losses)
    return [
        {"data": name, "loss": loss, "seed": seed, "settings": experiments[name]}
        for seed, name, loss in wanted
    ]


def find_loss(run):
    """Return the parameters of a run from its size, its loss and its data set."""
    params = read_toml("losses")[run["loss"]]
    general = {key: v for key, v in params.items() if not isinstance(v, dict)}
    shared = run["settings"].get("params", {})
    return {**shared, **general, **params.get(run["data"], {})}


def do_run(run, folder, device):
    """Train a network, write its logits, and return the rows of the results."""
    torch.set_num_threads(1)
    splits = data.read_splits(run["data"], **run["settings"]["splits"])
    start = time.perf_counter(), time.process_time()
    logits = train.train(
        run["settings"], find_loss(run), run["seed"], splits, device=device
    )
    seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    score.write_logits(logits_file(folder, run), logits)
    made = {"seconds": seconds[0], "cpu_seconds": seconds[1]}
    return [{**row, **made} for row in score_run(run, logits)]


def score_run(run, logits):
    """Return one row for each calibrator."""
    key = dict(zip(KEY, key_of(run), strict=True))
    return [{**key, **row} for row in score.score(logits)]


def key_of(run):
    """Return the columns that identify a run, or a row of its results."""
    return tuple(run[name] for name in KEY)


def logits_folder(folder):
    """Return the folder of the logits."""
    return folder.parent / "logits_output" / folder.name


def logits_file(folder, run):
    """Return the file with the logits of a run."""
    return logits_folder(folder) / "{data}-{loss}-{seed}.npz".format_map(run)


def read_results(path):
    """Return the rows of a file of results, grouped by run."""
    runs = {}
    if path.exists() and path.stat().st_size:
        table = pd.read_csv(path, dtype={"revision": str})  # some are all digits
        for row in table.to_dict("records"):
            runs.setdefault(key_of(row), []).append(row)
    return runs


def rescore(options, folder):
    """Compute the metrics of all stored logits again, and replace their rows."""
    path = folder.with_suffix(".csv")
    results, measured = read_results(path), {}
    made = ["seconds", "cpu_seconds", *score.describe_machine()]
    runs = [run for run in plan(options) if logits_file(folder, run).exists()]
    if not runs:
        raise SystemExit(f"{logits_folder(folder)} holds no logits of these runs")
    for run in tqdm(runs, unit="run"):
        old = results.get(key_of(run), [{}])[0]
        kept = {name: old[name] for name in made if name in old}
        rows = score_run(run, score.read_logits(logits_file(folder, run)))
        measured[key_of(run)] = [{**row, **kept} for row in rows]
    with alone(path):
        rewrite({**read_results(path), **measured}, path)


@contextmanager
def alone(path):
    """Lock the results. The lock of a killed process is released."""
    folder = logits_folder(path.with_suffix(""))
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "results.lock"):
        yield


def rewrite(results, path):
    """Write all rows."""
    write(pd.DataFrame(chain(*results.values())).to_csv(**FORMAT), path)


def write(text, path):
    """Replace the text of a file in one step."""
    with whole_file(path) as part:
        part.write_text(text, newline="")


def do_missing(options, folder):
    """Do the missing runs, and append the rows of each."""
    path = folder.with_suffix(".csv")
    done = read_results(path)
    missing = [run for run in plan(options) if key_of(run) not in done]
    machine = score.describe_machine()  # of the code that was loaded, as it was then
    jobs = Parallel(n_jobs=options.n_jobs, return_as="generator")(
        delayed(do_run)(run, folder, options.device) for run in missing
    )
    for rows in tqdm(jobs, total=len(missing), unit="run"):
        append([{**row, **machine} for row in rows], path)


def append(rows, path):
    """Append the rows of a run, unless another process has appended them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        results, key = read_results(path), key_of(rows[0])
        if key in results:
            return
        if any(list(old[0]) != list(rows[0]) for old in results.values()):
            rewrite({**results, key: rows}, path)  # more is measured than before
            return
        text = pd.DataFrame(rows).to_csv(**FORMAT, header=not results)
        # If rows were appended in place, a killed process could leave half of a row.
        write(path.read_text("utf-8") + text if results else text, path)


def read_options(arguments=None):
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--paper", choices=PAPERS, help="default: all")
    parser.add_argument("--size", default="small", choices=SIZES)
    several = {"nargs": "+", "metavar": "NAME"}
    parser.add_argument("--data", choices=data.READERS, **several)
    parser.add_argument("--losses", choices=read_toml("losses"), **several)
    parser.add_argument("--network", help="one of networks.py for images")
    parser.add_argument(
        "--seeds", type=int, help="how many; default: those of the size"
    )
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rescore", action="store_true", help="train nothing")
    options = parser.parse_args(arguments)
    if options.size == "paper" and options.paper is None:
        parser.error("--size paper needs --paper: their schedules differ")
    if options.network and options.size != "paper":
        parser.error("--network is for --size paper")
    if options.network and not hasattr(train.networks, options.network):
        parser.error(f"--network must be in networks.py, got {options.network!r}")
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error(f"--device must be one that torch sees, got {options.device!r}")
    if not plan(options):
        parser.error("no runs are left: --seeds must be 1 or more, --data of the size")
    return options


def main():
    """Do the missing runs, or compute the metrics of stored logits again."""
    options = read_options()
    parts = (
        [options.paper, options.network] if options.size == "paper" else [options.size]
    )
    folder = RESULTS / "-".join(filter(None, parts))
    if not options.rescore and not data.DATA.exists():
        raise SystemExit(
            f"SKLEARN_CALIB_DATA must name the folder of the data, got {data.DATA}, "
            "which is not there. Set it, or put the data there."
        )
    (rescore if options.rescore else do_missing)(options, folder)


if __name__ == "__main__":
    main()
