"""Settings of the documentation: python -m sphinx -W -n doc build/html.

It needs `pip install -c constraints.txt -e ".[doc]"` and no network. The examples run
while it builds, for five minutes on two cores; with `-t quick` their code is shown
without their pictures. They take images from the folder that SKLEARN_CALIB_DATA names.
"""

import os
import pkgutil
import re
import runpy
import tomllib
from importlib import import_module
from pathlib import Path

import sklearn_calib
from sklearn_calib._sklearn.scorer_objects import metric_of
from sklearn_calib.calibrators import get_calibrator, get_calibrator_names
from sklearn_calib.losses import get_loss, get_loss_names
from sklearn_calib.metrics import get_scorer, get_scorer_names

HERE = Path(__file__).parent
URLS = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["urls"]
os.environ.setdefault("SKLEARN_CALIB_DATA", str(HERE.parents[1] / "shared" / "data"))
PACKAGES = pkgutil.iter_modules(sklearn_calib.__path__)
TOPICS = [name for _, name, _ in PACKAGES if name[0] != "_"]

project = "sklearn-calib"
author = "The sklearn_calib developers"
copyright = author  # noqa: A001 - it is Sphinx's name
release = version = sklearn_calib.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["generated/gallery/**.ipynb", "generated/gallery/**.py"]
templates_path = ["templates"]
default_role = "literal"

# What lives elsewhere: there is no network to look it up in.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|sklearn|skorch|numpy|scipy|pandas|matplotlib|joblib)\..*"),
    ("py:mod", "pickle"),
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# The page of a topic lists its __all__, and the page of a class its own methods.
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": "/plot_",
    "doc_module": "sklearn_calib",
    "reference_url": {"sklearn_calib": None},
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "download_all_examples": False,
}
plot_gallery = str(not tags.has("quick"))  # noqa: F821 - Sphinx puts the tags there

html_theme = "pydata_sphinx_theme"
html_title = f"sklearn-calib {version}"
html_baseurl = URLS["Documentation"]
html_static_path = ["images", "static"]
html_css_files = ["pages.css"]
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "logo": {
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
        "text": "sklearn-calib",
    },
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "icon_links": [
        {"name": name, "url": URLS[name], "icon": icon}
        for name, icon in [
            ("Source", "fa-solid fa-code-branch"),
            ("Issues", "fa-solid fa-bug"),
        ]
    ],
}

WITHOUT_SIDEBAR = ["changelog", "developing", "generated/bibliography", "index"]
WITHOUT_SIDEBAR += ["claims", "coming_from", "compatibility", "deploy", "glossary"]
WITHOUT_SIDEBAR += ["getting_started", "losses", "onnx", "results_*"]
WITHOUT_SIDEBAR += ["security", "what_to_use"]
WITHOUT_SIDEBAR += ["generated/gallery/plot_*"]
html_sidebars = {page: [] for page in WITHOUT_SIDEBAR}


def public_names():
    """Return the full names by the short ones; those of two topics have two."""
    names = {}
    for topic in TOPICS:
        for name in import_module(f"sklearn_calib.{topic}").__all__:
            for short in (name, f"{topic}.{name}"):
                names.setdefault(short, []).append(f"sklearn_calib.{topic}.{name}")
    return names


def registered_names():
    """Return the public objects by the names that users pass as strings."""
    for topic, names, get in [
        ("losses", get_loss_names(), get_loss),
        ("losses", get_loss_names(multilabel=True), get_loss),
        ("calibrators", get_calibrator_names(), get_calibrator),
    ]:
        for name in names:
            yield topic, name, get(name).__name__
    for name in get_scorer_names():
        metric, _ = metric_of(get_scorer(name))
        yield "metrics", name.removeprefix("neg_"), metric.func.__name__


NAMES = public_names()
NAMES |= {
    f"losses.{name}": [f"sklearn_calib.losses.{loss}"]
    for topic, name, loss in registered_names()
    if topic == "losses"
}

# The page that the search shows first for a word, if this is not the word of its title.
SEARCH_TERMS = {
    name: f"generated/api/sklearn_calib.{topic}.{target}"
    for topic, name, target in registered_names()
} | {
    "abstain": "guide/selective",
    "benchmark": "claims",
    "conformal": "guide/prediction_sets",
    "deploy": "deploy",
    "huggingface": "recipes/hugging_face",
    "install": "getting_started",
    "latex": "generated/api/sklearn_calib.evaluation.compare",
    "lightgbm": "recipes/trees",
    "llm": "recipes/language_models",
    "load": "deploy",
    "onnx": "onnx",
    "resume": "recipes/resume",
    "save": "deploy",
    "sigmoid": "generated/api/sklearn_calib.calibrators.PlattScaling",
    "subgroup": "recipes/groups",
    "svm": "guide/calibrators",
    "tabpfn": "recipes/tabular_foundation_models",
    "transformers": "recipes/hugging_face_trainer",
    "tripod": "recipes/clinical_validation",
    "xgboost": "recipes/trees",
}


def write_tables(app, docname, source):  # noqa: ARG001 - Sphinx hands them over
    """Put tables of the code in place of comments such as <!-- table: files -->."""

    def table(match):
        tool = runpy.run_path(str(HERE.parent / "tools" / "page_tables.py"))
        return tool[match[1]](*match[2].split())

    source[0] = re.sub(r"<!-- table: (\w+) ?(.*) -->", table, source[0])


def index_search_terms(app, docname, source):
    """Add the search terms of a page to the index, whose entries the search prefers."""
    terms = [f"! {term}" for term, page in SEARCH_TERMS.items() if page == docname]
    if not terms:
        return
    entries = ", ".join([*terms, *(t.replace("_", " ") for t in terms if "_" in t)])
    if Path(app.env.doc2path(docname)).suffix == ".md":
        heading, _, rest = source[0].partition("\n")
        source[0] = f"{heading}\n\n```{{index}} {entries}\n```\n{rest}"
    else:
        place = "\n.. currentmodule::"
        source[0] = source[0].replace(place, f"\n.. index:: {entries}\n{place}", 1)


def link_names(app, docname, source):
    """Let names in code font link to their pages, and keep "1 ± 2" on one line.

    So the pages stay plain Markdown.
    """
    if Path(app.env.doc2path(docname)).suffix != ".md":
        return
    topic, is_code, lines = docname, False, []

    def link(match):
        found = NAMES.get(f"{topic}.{match[1]}") or NAMES.get(match[1], [])
        if len(found) != 1:
            return match[0]
        return f"{{py:obj}}`{match[1]} <{found[0]}>`"

    for line in source[0].splitlines():
        is_code ^= line.startswith("```")
        if line.startswith("## sklearn_calib."):
            topic = line.rpartition(".")[2]
        if not is_code and not line.startswith("#"):
            line = re.sub(r"(?<!`)`([\w.]+)`(?!`)", link, line)
            line = line.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
        lines.append(line)
    source[0] = "\n".join(lines)


def resolve_short_name(app, env, node, contnode):
    """Find a name that a docstring of one topic takes from another."""
    found = NAMES.get(node.get("reftarget", "").removeprefix("sklearn_calib."), [])
    if node.get("refdomain") != "py" or len(found) != 1:
        return None
    python = env.get_domain("py")
    place = env, node["refdoc"], app.builder
    return python.resolve_xref(*place, "obj", found[0], node, contnode)


def skip_foreign(app, what, name, obj, skip, options):  # noqa: ARG001 - Sphinx hands them over
    """Leave out the methods that scikit-learn, skorch and torch define."""
    home = getattr(obj, "__module__", None) or ""
    return True if callable(obj) and not home.startswith("sklearn_calib") else None


def write_bibliography(app):  # noqa: ARG001 - Sphinx hands it over
    """Write the page of references, read from all docstrings."""
    page = HERE / "generated" / "bibliography.md"
    page.parent.mkdir(exist_ok=True)
    tool = runpy.run_path(str(HERE.parent / "tools" / "bibliography.py"))
    text = tool["render"]()
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def setup(app):
    """Connect the steps above."""
    app.connect("source-read", write_tables)
    app.connect("source-read", link_names)
    app.connect("source-read", index_search_terms)
    app.connect("missing-reference", resolve_short_name)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("builder-inited", write_bibliography, priority=100)
