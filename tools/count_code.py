"""Count files, folders, stems, private bases, circles of imports and lines of the code.

python tools/count_code.py
"""

import ast
from collections import Counter
from pathlib import Path

import sklearn_calib

PACKAGE = Path(sklearn_calib.__file__).parent
TREES = {
    path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
}
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
    topics = [getattr(sklearn_calib, name) for name in sklearn_calib.__all__]
    public = {name for topic in topics for name in getattr(topic, "__all__", ())}
    names = {node.name for node in classes} - public
    return sorted(name for name in names if heirs[name] == 1)


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


if __name__ == "__main__":
    main()
