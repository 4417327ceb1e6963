"""Write the tables of doc/deploy.md, the schema of saved models, from the code.

python tools/file_schema.py
"""

from pathlib import Path

from sklearn_calib import CalibratedClassifier, NeuralClassifier, TemperatureScaling
from sklearn_calib._state.schema import DERIVED_SIZES
from sklearn_calib.calibrators import (
    DirichletCalibrator,
    MulticalibrationBoosting,
    PerGroupCalibrator,
    PerLabelCalibrator,
    TemperatureAccumulator,
    get_calibrator,
    get_calibrator_names,
)
from sklearn_calib.deployment import CalibrationMonitor, PriorShiftClassifier
from sklearn_calib.metrics import CalibrationAccumulator
from sklearn_calib.persistence._documents import CLASSES

PAGE = Path(__file__).parent.parent / "doc" / "deploy.md"
START = "### Fitted attributes\n"

# Depends on a parameter, so it is shown for both values.
DIAGONAL = DirichletCalibrator(diagonal=True)


def describe(schema, left_out=()):
    """Return the keys of a schema with their descriptions."""
    return "; ".join(
        f"`{name}`{'*' * spec.is_optional}: {spec}"
        for name, spec in schema.items()
        if name not in left_out
    )


def table(head, rows):
    return [f"| {head} | value |", "|---|---|", *rows, ""]


def render():
    """Return the page."""
    calibrators = [get_calibrator(name)() for name in get_calibrator_names()]
    own = {"_past", "temperature_"}
    common = {
        name: spec
        for name, spec in TemperatureScaling()._state_schema.items()
        if name not in own
    }
    rows = [
        f"| `{name}`{'*' * spec.is_optional} | {spec} |"
        for name, spec in common.items()
    ]
    lines = table("key of every calibrator", rows)
    others = [
        PerLabelCalibrator(TemperatureScaling()),
        MulticalibrationBoosting(),
        PerGroupCalibrator(),
        NeuralClassifier(),
        CalibratedClassifier(NeuralClassifier(), None),
        PriorShiftClassifier(NeuralClassifier()),
        CalibrationAccumulator(labels=["a", "b"]),
        CalibrationMonitor(labels=["a", "b"]),
        TemperatureAccumulator(labels=["a", "b"]),
    ]
    rows = [
        f"| `{model!r}` | {describe(model._state_schema, common)} |"
        for model in sorted([*calibrators, DIAGONAL], key=repr)
    ]
    rows += [
        f"| `{type(model).__name__}()` | {describe(model._state_schema)} |"
        for model in others
    ]
    shown = {type(model).__name__ for model in [*calibrators, *others]}
    if shown != set(CLASSES):
        raise ValueError(f"The page must show {set(CLASSES) - shown}.")
    lines += table("class", rows)
    two, three = ({n: size(k) for n, size in DERIVED_SIZES.items()} for k in (2, 3))
    sizes = ", ".join(
        f"`{name}` is {two[name]} for two classes and "
        f"{'`n_classes`' if three[name] == 3 else three[name]} otherwise"
        for name in DERIVED_SIZES
    )
    lines.append(f"Sizes: {sizes}. `n` is any size, the same within an entry.")
    return "\n".join(lines) + "\n"


def page():
    """Return the page with new tables."""
    head = PAGE.read_text(encoding="utf-8").split("| key of every calibrator")[0]
    return head + render()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
