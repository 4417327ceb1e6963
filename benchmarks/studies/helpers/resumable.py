"""Results in a CSV file, of which an interrupted run computes only the missing rows."""

import csv
from contextlib import contextmanager


@contextmanager
def open_results(path, fields, n_keys):
    """Yield the keys of the existing rows, and a function that appends a row.

    The first `n_keys` fields of a row identify it. Keys are strings.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", newline="") as file:
        file.seek(0)
        keys = {tuple(row[:n_keys]) for row in csv.reader(file)}
        writer = csv.writer(file, lineterminator="\n")

        def append(row):
            writer.writerow(row)
            file.flush()

        if not keys:
            append(fields)
        yield keys, append


def add_missing(path, fields, keys, measure):
    """Append a row for each key without one: the key, and what `measure(*key)` returns.

    All keys have as many elements.
    """
    keys = list(keys)
    with open_results(path, fields, len(keys[0])) as (done, append):
        for key in keys:
            if tuple(map(str, key)) not in done:
                append([*key, *measure(*key)])
