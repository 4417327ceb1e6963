"""Architecture: which topics import each other, and what every topic contains."""

import ast
import inspect
import pkgutil
import re
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

import sklearn_calib
from sklearn_calib import calibrators, losses, metrics

PACKAGE = Path(sklearn_calib.__file__).parent
CHECKOUT = Path(__file__).parent.parent

# What may import what: in each folder, a package or file those to its right.
GUIDE = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LINES = re.search("```text\n(sklearn_calib: .*?)```", GUIDE, re.DOTALL)[1]
ORDER = {
    folder: names.split()
    for folder, names in (line.split(": ") for line in LINES.splitlines())
}
PRIVATE = {name for name in ORDER["sklearn_calib"] if name.startswith("_")}
# They do not import torch. What does is loaded by them in functions only.
WITHOUT_TORCH = {"calibrators", "displays", "evaluation", "metrics"}
WITHOUT_TORCH |= {"deployment", "persistence"} | PRIVATE - {"_torch"}
WITH_TORCH = {"_torch", "callbacks", "datasets", "losses"}
MOST_ENTRIES = 12
OF_ONNX = {"onnx", "onnxruntime", "onnxscript", "skl2onnx"}
OF_DASK = {"dask", "distributed"}
# The only files that know scikit-learn's private names.
KNOW_SKLEARN_PRIVATES = {
    "_sklearn/scorer_names.py",
    "_validation/arrays.py",
    "_validation/declarations.py",
    "_validation/probabilities.py",
}

# What `read_samples` does for labels, probabilities and weights of users.
READERS = {"as_proba_array", "as_proba_numbers", "check_columns", "check_lengths"}
READERS |= {"check_proba", "check_proba_shape", "check_sample_weight"}
READERS |= {"encode_array", "encode_labels", "positive_code", "resolve_mode"}
EVALUATE = {"_numerics", "deployment", "displays", "evaluation", "metrics"}
# Files of these topics that read them without it, and why.
WITHOUT_DOOR = {
    "deployment/_label_shift.py": "new probabilities without labels",
    "deployment/_monitor.py": "labels of a batch without samples",
    "deployment/_performance.py": "no labels",
    "deployment/_prior_shift.py": "fits a classifier, without probabilities",
    "deployment/_priors.py": "no labels",
    "evaluation/_comparison.py": "names each array; the metrics read the samples",
    "evaluation/_table.py": "weights of groups of samples that are read already",
    "metrics/_accumulator/accumulator.py": "names of columns, before samples are split",
    "metrics/_binned_sums/sample_sums.py": "splits samples before it reads them",
    "metrics/_calibration_errors/known_posterior.py": "no labels",
    "metrics/_draws.py": "draws samples that the metric reads",
    "metrics/_groups/group_metrics.py": "splits samples that the metric reads",
    "metrics/_intervals/ece_interval.py": "no labels",
    "metrics/_model_selection/difference.py": "names each array; the metric reads it",
}

# Calls of what `predict_scores` calls for classifiers of any library, not in examples.
RESPONSES = re.compile(
    r"^(?! +(?:>>>|\.\.\.) ).*(?<!self)(?<!super\(\))"
    r"\.(?:decision_function|predict_logits|predict_proba)\(",
    re.MULTILINE,
)
# Files with such calls, and what they call.
WITHOUT_RESPONSE = {
    "calibrators/_combined/per_label_calibrator.py": "calibrators of the package",
    "calibrators/_groups/group_calibrator.py": "a calibrator of the package",
    "deployment/_density_ratio.py": "a CalibratedClassifier",
    "deployment/_repairs.py": "a calibrator of the package",
    "estimators/_calibrated/calibrated.py": "pairs, which call it",
    "estimators/_calibrated/fold_calibrators.py": "calibrators of the package",
    "estimators/_refcal/refcal.py": "the head, a NeuralClassifier",
    "onnx/_export.py": "the model that is compared with its graph",
}

REGISTRIES = {
    "calibrators": "calibrators/_base/calibrator_names.py",
    "losses": "losses/_base/loss_names.py",
}

# The laws run on what inherits from them.
BASE_CLASSES = {"Calibrator", "CalibrationLoss"}

ALL_LOSSES = [*losses.get_loss_names(), *losses.get_loss_names(multilabel=True)]

MODULES = sorted(PACKAGE.rglob("*.py"))
TOPICS = sorted(
    path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()
)
PUBLIC_TOPICS = [topic for topic in TOPICS if not topic.startswith("_")]

all_topics = pytest.mark.parametrize("topic", PUBLIC_TOPICS)


@cache
def trees():
    """Return the parsed files of the package by name."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in MODULES
    }


# Attributes with the statements inside of a statement.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@cache
def imported_names(tree):
    """Return the dotted name of everything that the code imports.

    It looks at statements only, of which there are far fewer than expressions.
    """
    names, nodes = [], [tree]
    for node in nodes:
        nodes += chain.from_iterable(getattr(node, block, ()) for block in BLOCKS)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def imported_when_loaded(tree):
    """Yield the dotted name of everything imported outside of functions.

    What stands under `if TYPE_CHECKING` is imported by type checkers only.
    """
    for node in tree.body:
        is_if = isinstance(node, ast.If)
        is_for_types = is_if and ast.unparse(node.test) == "TYPE_CHECKING"
        if not (isinstance(node, ast.FunctionDef | ast.ClassDef) or is_for_types):
            yield from imported_names(node)


def test_each_package_is_in_the_order():
    for folder, order in ORDER.items():
        path = PACKAGE if folder == PACKAGE.name else PACKAGE / folder
        inside = {p.parent.name for p in path.glob("*/__init__.py")}
        inside |= {p.stem for p in path.glob("*.py")} - {"__init__"}
        assert inside == set(order)


def test_imports_point_to_the_right():
    wrong = []
    for name, tree in trees().items():
        parts = [PACKAGE.name, *name.removesuffix(".py").split("/")]
        for full in imported_names(tree):
            pairs = list(zip(parts, full.split("."), strict=False))
            k = next((k for k, (one, other) in enumerate(pairs) if one != other), 0)
            order = ORDER.get(parts[k - 1]) if 0 < k < 3 else None
            if order is None or parts[k] == "__init__":
                continue
            one, other = pairs[k]
            if other not in order or order.index(one) > order.index(other):
                wrong.append(f"{name} imports {full}")
    assert not wrong


def test_no_files_import_each_other():
    homes = {
        ".".join([PACKAGE.name, *name.removesuffix(".py").split("/")]).removesuffix(
            ".__init__"
        ): name
        for name in trees()
    }
    graph = {
        name: {
            homes.get(full) or homes.get(full.rpartition(".")[0])
            for full in imported_names(tree)
        }
        - {None}
        for name, tree in trees().items()
    }
    TopologicalSorter(graph).prepare()  # raises an error that shows a circle


def test_names_of_files_are_unique():
    stems = Counter(path.stem.lstrip("_") for path in MODULES)
    assert not {stem for stem, count in stems.items() if count > 1} - {"init__"}


def test_no_folder_has_too_many_entries():
    entries = Counter(path.parent for path in MODULES)
    entries.update(path.parent.parent for path in MODULES if path.stem == "__init__")
    del entries[PACKAGE]
    assert max(entries.values()) <= MOST_ENTRIES


def test_packages_without_torch():
    found = {}
    for name, tree in trees().items():
        if name.split("/")[0].removesuffix(".py") in WITHOUT_TORCH:
            imported = {n.split(".")[0] for n in imported_names(tree)}
            loaded = {
                n.split(".")[1]
                for n in imported_when_loaded(tree)
                if n.startswith("sklearn_calib.")
            }
            if names := imported & {"torch", "skorch"} | loaded & WITH_TORCH:
                found[name] = names
    assert not found


def test_no_package_imports_a_module_of_another():
    """What several share is public in its package, or lies in a private one."""
    found = {
        name: [
            full
            for full in imported_names(tree)
            if (parts := full.split("."))[0] == "sklearn_calib"
            and len(parts) > 2
            and parts[1] not in {name.split("/")[0], *PRIVATE}
            and any(part.startswith("_") for part in parts[2:])
        ]
        for name, tree in trees().items()
    }
    assert not {name: names for name, names in found.items() if names}


@pytest.mark.parametrize(
    "packages", [{"matplotlib"}, OF_ONNX, OF_DASK], ids=["plot", "onnx", "dask"]
)
def test_packages_of_extras_are_imported_inside_functions(packages):
    loaded = {name: set(imported_when_loaded(tree)) for name, tree in trees().items()}
    assert not {
        name: found
        for name, names in loaded.items()
        if (found := {n for n in names if n.split(".")[0] in packages})
    }


def test_pandas_is_imported_inside_functions():
    """Except in one file, which is imported inside functions itself."""
    slow = re.compile(r"pandas\b|sklearn_calib\.evaluation\._table\b")
    found = {
        name
        for name, tree in trees().items()
        if any(map(slow.match, imported_when_loaded(tree)))
    }
    assert found == {"evaluation/_table.py"}


def test_onnx_is_imported_in_its_package_only():
    found = {name for name, tree in trees().items() if OF_ONNX & roots(tree)}
    assert {name.split("/")[0] for name in found} == {"onnx"}


def test_dask_is_imported_in_one_module_only():
    found = {name for name, tree in trees().items() if OF_DASK & roots(tree)}
    assert found == {"_validation/dask_arrays.py"}


def roots(tree):
    """Return the packages that the code imports."""
    return {name.split(".")[0] for name in imported_names(tree)}


def test_privates_of_scikit_learn_are_known_in_few_files():
    privates = {
        name: [
            n for n in imported_names(tree) if re.match(r"sklearn\..*(?<=\.)_(?!_)", n)
        ]
        for name, tree in trees().items()
        if name not in KNOW_SKLEARN_PRIVATES
    }
    found = {name: names for name, names in privates.items() if names}
    assert not found, "import them from the files that know them"


def test_filters_of_warnings_are_changed_by_exports_only():
    """Filters are those of the process, and `catch_warnings` is not safe in threads.

    An export is no fit, and other packages warn in it of what users cannot change.
    """
    words = re.compile("catch_warnings|simplefilter|filterwarnings")
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        if words.search(path.read_text("utf-8"))
    ]
    expected = ["onnx/_onnx_graph.py"]
    assert found == expected, "use _validation.fit_warnings or numpy.errstate"


def test_fits_warn_by_one_function():
    """Their warnings are left out inside of other fits."""
    found = [
        name
        for name, tree in trees().items()
        if name.startswith(("calibrators/", "_solvers/"))
        and "warnings" in imported_names(tree)
    ]
    assert not found, "use warn of _validation.fit_warnings"


def test_samples_are_read_by_one_function():
    found = {
        name
        for name, tree in trees().items()
        if name.split("/")[0] in EVALUATE
        and READERS & {full.rpartition(".")[2] for full in imported_names(tree)}
    }
    assert found == set(WITHOUT_DOOR)


def test_classifiers_are_called_by_one_function():
    texts = {path: path.read_text(encoding="utf-8") for path in MODULES}
    found = {path for path, text in texts.items() if RESPONSES.search(text)}
    assert found == {PACKAGE / name for name in WITHOUT_RESPONSE}


@all_topics
def test_init_only_reexports(topic):
    """A docstring, imports or the homes of lazy names, and nothing is forgotten."""
    docstring, *body = ast.parse(
        (PACKAGE / topic / "__init__.py").read_text("utf-8")
    ).body
    assert isinstance(docstring.value, ast.Constant)
    # What only type checkers see stands under `if TYPE_CHECKING`.
    body += [line for node in body if isinstance(node, ast.If) for line in node.body]
    kinds = ast.ImportFrom | ast.Assign | ast.If
    assert all(isinstance(node, kinds) for node in body)
    package = import_module(f"sklearn_calib.{topic}")
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    imported = [alias.name for node in imports for alias in node.names]
    assert sorted(package.__all__) == sorted(getattr(package, "_HOMES", imported))


def test_top_level_names_load():
    for name in sklearn_calib.__all__:
        assert getattr(sklearn_calib, name) is not None


def fail_for(**forgotten):
    """Print the rows that are forgotten, by the place for them, and nothing else."""
    lines = [
        line
        for place, rows in forgotten.items()
        for line in ([f"Add to {place}:", *rows] if rows else [])
    ]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


def row(member):
    """Return the row of a registry: `"focal": "_focal.focal:FocalLoss",`."""
    name = snake_case(re.sub("(Loss|Scaling|Calibration)$", "", member.__name__))
    module = member.__module__.split(".", 2)[2]
    return f'        "{name}": "{module}:{member.__name__}",'


def snake_case(name):
    """Return FocalLoss as focal_loss and AURCLoss as aurc_loss."""
    words = re.findall("[A-Z][a-z]+|[A-Z]+(?![a-z])", name)
    return "_".join(words).lower()


def topic_of(member):
    """Return the name of the package of a topic that a member is from."""
    return ".".join(member.__module__.split(".")[:2])


def public_subclasses(base):
    """Return all classes of a topic that inherit from its base class, by name."""
    topic = import_module(topic_of(base))
    for module in pkgutil.walk_packages(topic.__path__, f"{topic.__name__}."):
        import_module(module.name)
    found, queue = {}, [base]
    while queue:
        queue += (children := queue.pop().__subclasses__())
        found |= {
            c.__name__: c for c in children if c.__module__.startswith(topic.__name__)
        }
    return {name: c for name, c in sorted(found.items()) if not name.startswith("_")}


def can_be_made_by_name(member):
    """Return whether no parameter is required, such as a classifier to wrap."""
    values = inspect.signature(member).parameters.values()
    return all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in values)


@pytest.mark.parametrize(
    ("base", "get", "names"),
    [
        (losses.CalibrationLoss, losses.get_loss, ALL_LOSSES),
        (
            calibrators.Calibrator,
            calibrators.get_calibrator,
            calibrators.get_calibrator_names(),
        ),
    ],
)
def test_every_member_has_a_row_and_an_export(base, get, names):
    members, registered = public_subclasses(base), {get(name) for name in names}
    topic = topic_of(base)
    rows = [
        row(member)
        for member in members.values()
        if member not in registered and can_be_made_by_name(member)
    ]
    listed = import_module(topic).__all__
    exports = [
        f"from {c.__module__} import {name}"
        for name, c in members.items()
        if name not in listed
    ]
    fail_for(**{REGISTRIES[topic.split(".")[1]]: rows, topic: exports})


def test_every_loss_has_its_function():
    functions = {f"{name}_loss" for name in ALL_LOSSES}
    assert functions <= set(losses.__all__)


@pytest.mark.parametrize("topic", ["displays", "metrics"])
def test_every_metric_and_display_has_an_export(topic):
    """A metric is a function of y_true and y_proba with the option labels."""
    package = f"sklearn_calib.{topic}"
    exports = [
        f"from sklearn_calib.{module} import {node.name}"
        for path, tree in trees().items()
        for module in [path.removesuffix(".py").replace("/", ".")]
        for node in tree.body
        if path.startswith(f"{topic}/")
        if is_metric(node) or is_display(node)
        if node.name not in import_module(package).__all__
    ]
    fail_for(**{package: exports})


def is_metric(node):
    return (
        isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and "labels" in [argument.arg for argument in node.args.kwonlyargs]
    )


def is_display(node):
    return isinstance(node, ast.ClassDef) and node.name.endswith("Display")


def test_every_error_has_a_scorer():
    scorers = " ".join(repr(metrics.get_scorer(n)) for n in metrics.get_scorer_names())
    rows = [
        f'    "neg_{re.sub("_(error|loss)$", "", name)}": _negative({name}),'
        for name in metrics.__all__
        if name.endswith(("_error", "_loss")) and f"({name}," not in scorers
        # A scorer is asked about one set of samples, not about two.
        if "y_true" in inspect.signature(getattr(metrics, name)).parameters
    ]
    fail_for(**{"sklearn_calib.metrics._model_selection.metric_scorers": rows})


@all_topics
def test_every_public_name_has_a_test_file(topic):
    """Laws hold for all, numbers for one: they stand in a file that names it."""
    package, folder = (
        import_module(f"sklearn_calib.{topic}"),
        CHECKOUT / "tests" / topic,
    )
    files = [
        f for f in folder.glob("test_*.py") if not f.name.startswith("test_common")
    ]
    words = {word for f in files for word in re.findall(r"\w+", f.read_text("utf-8"))}
    rows = [
        f"test_{getattr(package, name).__module__.rpartition('.')[2]}.py, for {name}"
        for name in package.__all__
        if name not in words | BASE_CLASSES
    ]
    fail_for(**{f"tests/{topic}": rows})


def test_rows_are_what_the_registries_hold():
    """The rows that messages suggest are those that are there."""
    text = "".join((PACKAGE / path).read_text("utf-8") for path in REGISTRIES.values())
    assert row(losses.DualFocalLoss) in text
    assert row(calibrators.TemperatureScaling) in text


@all_topics
def test_type_checkers_see_what_loads_lazily(topic):
    """What stands under `if TYPE_CHECKING` is what the package gives at run time."""
    package = import_module(f"sklearn_calib.{topic}")
    body = ast.parse((PACKAGE / topic / "__init__.py").read_text("utf-8")).body
    seen = {
        alias.asname or alias.name: node.module
        for block in body
        if isinstance(block, ast.If)
        for node in block.body
        for alias in node.names
    }
    assert seen == getattr(package, "_HOMES", {})


def test_what_people_look_for_is_where_the_guide_says():
    rows = re.findall(r"^\| .* \| `(\S+\.py)` \| `(\w+)` \|$", GUIDE, re.M)
    texts = {file: (PACKAGE / file).read_text("utf-8") for file, _ in rows}
    lost = {
        (file, name)
        for file, name in rows
        if not re.search(rf"^ *(def|class) {name}\b|^{name}\b", texts[file], re.M)
    }
    assert len(rows) >= 10
    assert not lost
