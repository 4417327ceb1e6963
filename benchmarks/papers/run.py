"""Train what the papers train, with every loss of theirs, and measure it.

    python benchmarks/papers/run.py
    python benchmarks/papers/run.py --paper ghosh2022 --seeds 5 --n-jobs 2
    python benchmarks/papers/run.py --paper tao2023 --size paper --device cuda

Every run, a loss with a seed on a data set, appends its rows to `results/`, and what is
there is not trained again: a run that was interrupted goes on with the next. The logits
stay beside, in `results/logits_output`, for `--rescore`, which measures them anew.
`tables.py` makes the tables and pictures.

`pip install -e ".[papers]"` brings what it needs. The data are looked for in the folder
that the variable SKLEARN_CALIB_DATA names, or in `shared/data` beside the checkout.
"""

import argparse
import time
import tomllib
from itertools import product
from pathlib import Path

import data
import pandas as pd
import score
import torch
import train
from joblib import Parallel, delayed
from tqdm import tqdm

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAPERS = ["ghosh2022", "tao2023", "liang2025", "zhou2025", "hebbalaguppe2026"]


def read_toml(name):
    """Return what a file of this folder says."""
    return tomllib.loads((HERE / f"{name}.toml").read_text())


def plan(options):
    """Return the wanted runs, all of one seed before the next."""
    papers = [options.paper] if options.paper else PAPERS
    if options.size == "paper":
        experiments = read_toml(options.paper)["experiments"]
        if options.network:
            experiments["cifar10"]["network"] = options.network
    else:
        experiments = read_toml("small")
    losses = {loss: None for paper in papers for loss in read_toml(paper)["losses"]}
    names = [name for name in experiments if name in (options.data or experiments)]
    wanted = product(range(options.seeds), names, options.losses or losses)
    return [
        {"data": name, "loss": loss, "seed": seed, "settings": experiments[name]}
        for seed, name, loss in wanted
    ]


def find_loss(run):
    """Return the parameters of a loss, those for its data before those for all."""
    params = read_toml("losses")[run["loss"]]
    general = {key: v for key, v in params.items() if not isinstance(v, dict)}
    return {**general, **params.get(run["data"], {})}


def do_run(run, folder, device):
    """Train, keep the logits, and return the rows of the results."""
    torch.set_num_threads(1)
    shares = data.read_shares(run["data"], **run["settings"]["shares"])
    start = time.perf_counter(), time.process_time()
    logits = train.train(
        run["settings"], find_loss(run), run["seed"], shares, device=device
    )
    seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    score.write_logits(logits_file(folder, run), logits)
    made = {
        "seconds": seconds[0],
        "cpu_seconds": seconds[1],
        **score.describe_machine(),
    }
    return [{**row, **made} for row in score_run(run, logits)]


def score_run(run, logits):
    """Return one row for each map of the logits."""
    key = {name: run[name] for name in ("data", "loss", "seed")}
    return [{**key, **row} for row in score.score(logits)]


def logits_file(folder, run):
    """Return where the logits of a run are kept."""
    name = "{data}-{loss}-{seed}.npz".format_map(run)
    return folder.parent / "logits_output" / folder.name / name


def read_results(path):
    """Return the rows of a file of results, none if there is no file."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def is_done(results):
    """Return the runs that results hold."""
    if results.empty:
        return set()
    return set(results[["data", "loss", "seed"]].itertuples(index=False, name=None))


def rescore(options, folder):
    """Measure the logits that are there anew, and write all rows again."""
    path = folder.with_suffix(".csv")
    old, rows = read_results(path), []
    made = ["seconds", "cpu_seconds", *score.describe_machine()]
    for run in tqdm(plan(options), unit="run"):
        if (file := logits_file(folder, run)).exists():
            key = old[["data", "loss", "seed"]].eq([run[k] for k in KEY]).all(axis=1)
            kept = old.loc[key, made].iloc[0].to_dict() if key.any() else {}
            rows += [{**row, **kept} for row in score_run(run, score.read_logits(file))]
    pd.DataFrame(rows).to_csv(path, index=False, float_format="%.6g")


KEY = ("data", "loss", "seed")


def do_missing(options, folder):
    """Do what the results lack, and append it run by run."""
    path = folder.with_suffix(".csv")
    done = is_done(read_results(path))
    missing = [run for run in plan(options) if tuple(run[k] for k in KEY) not in done]
    jobs = Parallel(n_jobs=options.n_jobs, return_as="generator_unordered")(
        delayed(do_run)(run, folder, options.device) for run in missing
    )
    for rows in tqdm(jobs, total=len(missing), unit="run"):
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(
            path,
            index=False,
            float_format="%.6g",
            mode="a",
            header=not path.exists(),
        )


def read_options(arguments=None):
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--paper", choices=PAPERS, help="default: all")
    parser.add_argument("--size", default="small", choices=["small", "paper"])
    parser.add_argument("--data", nargs="+", help="default: all of the size")
    parser.add_argument("--losses", nargs="+", help="default: all of the papers")
    parser.add_argument("--network", help="one of networks.py for images")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rescore", action="store_true", help="train nothing")
    options = parser.parse_args(arguments)
    if options.size == "paper" and options.paper is None:
        parser.error("--size paper needs --paper: their schedules differ")
    if options.network and options.size == "small":
        parser.error("--network is for --size paper")
    return options


def main():
    """Do what is missing, or measure again what is there."""
    options = read_options()
    parts = [options.paper, options.network] if options.size == "paper" else ["small"]
    folder = RESULTS / "-".join(filter(None, parts))
    (rescore if options.rescore else do_missing)(options, folder)


if __name__ == "__main__":
    main()
