"""Count files, folders, stems, private bases, circles of imports and lines of the code.

    python tools/count_code.py
    python tools/count_code.py --list

It also counts what makes a reader change the file, which `--list` lists. Names are
those at the top of a file, and the names that topics export are left out:

- short functions with one caller: functions with a body of three lines or fewer, the
  docstring aside, whose name occurs once in the package besides its definition and
  imports; those that are called there, and not passed on, are also counted alone;
- names that one other file uses: what a file does not use itself and one other file
  imports, besides `__init__.py`;
- names with two homes: functions, classes and annotated names without an underscore
  that are defined in two files or more;
- hooks of calibrators: private names of base classes in `calibrators/_base`, or of
  mixins outside `calibrators`, that a calibrator overrides;
- solver loops: loops over a range of `MAX_STEPS` or another constant with `MAX`.
"""

import argparse
import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import sklearn_calib
from sklearn_calib import calibrators

PACKAGE = Path(sklearn_calib.__file__).parent
TREES = {
    path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
}
TOPICS = [getattr(sklearn_calib, name) for name in sklearn_calib.__all__]
PUBLIC = {name for topic in TOPICS for name in getattr(topic, "__all__", ())}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef


def module_of(path):
    """Return the dotted name of a file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_of(path): path for path in TREES}


def imported(node):
    """Yield the modules of the package that code imports, in functions or outside."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            for alias in child.names:
                full = f"{child.module}.{alias.name}"
                yield full if full in MODULES else child.module
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child)):
            yield from imported(child)


def circles():
    """Return the groups of files that import each other."""
    edges = {
        name: {m for m in imported(TREES[path]) if m in MODULES}
        for name, path in MODULES.items()
    }
    reached = {name: reachable(edges, name) for name in edges}
    groups = {
        frozenset(m for m in reached[name] if name in reached[m])
        for name in edges
        if name in reached[name]
    }
    return sorted(sorted(group) for group in groups)


def reachable(edges, start):
    """Return everything that can be reached from a node."""
    found, queue = set(), [start]
    while queue:
        new = edges[queue.pop()] - found
        found |= new
        queue += new
    return found


def single_bases():
    """Return the private classes with one heir."""
    classes = [
        node
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    heirs = Counter(ast.unparse(base) for node in classes for base in node.bases)
    names = {node.name for node in classes} - PUBLIC
    return sorted(name for name in names if heirs[name] == 1)


def definitions(tree):
    """Yield the names at the top of a file, with their nodes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for child in ast.walk(node):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    yield child.id, node


DEFINED = {
    (module, name): node
    for module, path in MODULES.items()
    for name, node in definitions(TREES[path])
    if name not in PUBLIC
}


def loaded(tree):
    """Count the names that code reads, attributes included."""
    return Counter(
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


LOADED = {module: loaded(TREES[path]) for module, path in MODULES.items()}
CALLED = {
    node.func.id
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
}


def short_functions():
    """Return the functions with one caller and a short body, by their names."""
    total = sum(LOADED.values(), Counter())
    return {
        name: place(module, node, name)
        for (module, name), node in DEFINED.items()
        if isinstance(node, ast.FunctionDef) and total[name] == 1 and length(node) <= 3
    }


def length(function):
    """Return the number of lines of the body, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def place(module, node, name):
    """Return the path and the line of a node, and its name."""
    return f"{MODULES[module].relative_to(PACKAGE.parent)}:{node.lineno} {name}"


def names_of_one_file():
    """Return the names that only one other file uses."""
    users = defaultdict(set)
    for module, path in MODULES.items():
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ImportFrom) and path.name != "__init__.py":
                for alias in node.names:
                    users[node.module, alias.name].add(module)
    return [
        f"{place(module, node, name)} -> {min(users[module, name])}"
        for (module, name), node in DEFINED.items()
        if len(users[module, name]) == 1 and not LOADED[module][name]
    ]


def doubled_names():
    """Return the names with two homes."""
    homes = defaultdict(list)
    for (module, name), node in DEFINED.items():
        if not name.startswith("_") and not isinstance(node, ast.Assign):
            homes[name].append(module)
    return [f"{name}: {', '.join(m)}" for name, m in homes.items() if len(m) > 1]


def hooks():
    """Return the private names of base classes that calibrators override."""
    for name in calibrators.__all__:
        getattr(calibrators, name)  # loads its module
    found, queue = set(), [calibrators.Calibrator]
    while queue:
        heirs = queue.pop().__subclasses__()
        queue += heirs
        for heir in heirs:
            for base in filter(is_base, heir.__mro__[1:]):
                found |= vars(heir).keys() & vars(base).keys()
    private = {name for name in found if re.match("_[^_]", name)}
    # Python's and scikit-learn's.
    return sorted(private - {"_abc_impl", "_parameter_constraints"})


def is_base(kind):
    """Return whether a class is a base class of calibrators, and of the package."""
    topic, _, home = kind.__module__.removeprefix("sklearn_calib.").partition(".")
    of_package = kind.__module__.startswith("sklearn_calib.")
    return of_package and (topic != "calibrators" or home.startswith("_base."))


def solver_loops():
    """Return the loops over the range of a constant."""
    return [
        place(module, node, ast.unparse(node.iter))
        for module, path in MODULES.items()
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.For) and "range(MAX" in ast.unparse(node.iter)
    ]


def lines():
    """Return the numbers of lines with code and with docstrings."""
    code, docs = 0, 0
    for path, tree in TREES.items():
        of_docs = set()
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
                of_docs.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        docs += len(of_docs)
        code += sum(
            bool(line.strip()) and not line.strip().startswith("#") and k not in of_docs
            for k, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        )
    return code, docs


def main():
    """Print all counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="list what is counted")
    listed = parser.parse_args().list
    folders = Counter(path.parent for path in TREES)
    inside = {
        folder: [p for p in folder.iterdir() if p.suffix == ".py" or p in folders]
        for folder in folders
    }
    largest = max(inside, key=lambda folder: len(inside[folder]))
    stems = Counter(path.stem.lstrip("_") for path in TREES if path.stem != "__init__")
    repeated = sorted(stem for stem, count in stems.items() if count > 1)
    code, docs = lines()
    bases, groups = single_bases(), circles()
    longest = max(TREES, key=lambda path: len(path.read_text("utf-8").splitlines()))
    print("files:", len(TREES))
    print("folders:", len(folders))
    print("largest folder:", module_of(largest), len(inside[largest]))
    print(
        "longest file:",
        module_of(longest),
        len(longest.read_text("utf-8").splitlines()),
    )
    print("stems with two meanings:", len(repeated), *repeated)
    print("private bases with one heir:", len(bases), *bases)
    print("circles of imports:", len(groups), *groups)
    print("lines of code:", code)
    print("lines of docstrings:", docs)
    short = short_functions()
    for title, found in {
        "short functions with one caller": list(short.values()),
        "of these called, not passed on": [short[n] for n in short if n in CALLED],
        "names that one other file uses": names_of_one_file(),
        "names with two homes": doubled_names(),
        "hooks of calibrators": hooks(),
        "solver loops": solver_loops(),
    }.items():
        print(f"{title}:", len(found))
        print(*(f"    {row}\n" for row in found if listed), sep="", end="")


if __name__ == "__main__":
    main()
