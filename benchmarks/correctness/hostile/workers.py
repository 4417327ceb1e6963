"""Tries in separate processes, which are ended if a try hangs."""

import multiprocessing
import os
import sys
import tempfile
from contextlib import chdir, suppress

from hostile.judge import HANG, RAW, Outcome

# Bytes of memory for a try; a small problem that needs more is a fault.
MEMORY = 6 * 2**30


def run(tries, *, seconds=10.0, context=None):
    """Yield each try with its outcome; those that take longer than `seconds` hang.

    A try is (name of a subject, changes, verdict). They run one by one in a child
    process, which is replaced by another when a try does not return or kills it: a
    loop within LAPACK heeds no signal. `context` starts the processes; by default, they
    are new interpreters.
    """
    context = context or multiprocessing.get_context("spawn")
    child = Child(context)
    try:
        for each in tries:
            outcome = child.judge(each, seconds)
            if outcome is None:
                child.stop()
                outcome = Outcome(HANG, f"more than {seconds:g} s")
                child = Child(context)
            elif outcome == DIED:
                child = Child(context)
            yield each, outcome
    finally:
        child.stop()


DIED = Outcome(RAW, "the process died")


class Child:
    """Process that runs tries."""

    def __init__(self, context):
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.connection.recv()

    def judge(self, each, seconds):
        """Return the outcome of a try, or None after the time limit."""
        self.connection.send(each)
        if not self.connection.poll(seconds):
            return None
        try:
            return self.connection.recv()
        except EOFError:
            return DIED

    def stop(self):
        self.process.kill()
        self.process.join()
        self.connection.close()


def serve(connection):
    """Run the tries from a connection until it is closed."""
    from hostile.tries import perform, rules, subjects

    quiet_and_modest()
    rules(), subjects()  # not counted in the time of the first try
    with (
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),  # for files written under a hostile name
        suppress(EOFError),
    ):
        for stream in (sys.__stdout__, sys.__stderr__):
            os.dup2(printed.fileno(), stream.fileno())
        connection.send("ready")
        n_printed = 0
        while True:
            outcome = perform(connection.recv())
            printed.seek(n_printed)
            if (text := printed.read()) and not outcome.is_fault:
                outcome = Outcome(RAW, f"printed: {text[:200].decode().strip()}")
            n_printed += len(text)
            connection.send(outcome)


def quiet_and_modest():
    """Use one thread, figures without a screen and a limit on memory if possible."""
    import matplotlib as mpl
    import torch

    mpl.use("Agg")
    torch.set_num_threads(1)
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
