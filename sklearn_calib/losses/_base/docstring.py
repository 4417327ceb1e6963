"""Complete the docstring of a loss class from that of its function."""

import re
from collections.abc import Iterable

ORDER = ("Parameters", "Attributes", "See Also", "Notes", "References", "Examples")
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def complete_docstring(own: str, function: str, names: Iterable[str]) -> str:
    """Return the docstring of a class, completed from that of its function.

    The summary, the descriptions of the parameters in `names` and the references come
    from the docstring of the function. A class docstring that has a Parameters section
    is returned unchanged. Both docstrings are given without indentation.
    """
    text, sections = _split(own)
    if "Parameters" in sections:
        return own
    summary, described = _split(function)
    sections["Parameters"] = _pick(described["Parameters"], names)
    sections.setdefault("References", described.get("References", ""))
    shown = [
        f"{title}\n{'-' * len(title)}\n{sections[title].rstrip()}"
        for title in ORDER
        if sections.get(title)
    ]
    return "\n\n".join([summary.partition("\n")[0], text.rstrip(), *shown])


def _split(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and a dict of sections by title."""
    text, *parts = SECTION.split(docstring)
    return text, dict(zip(parts[::2], parts[1::2], strict=True))


def _pick(parameters: str, names: Iterable[str]) -> str:
    """Return the descriptions of the parameters in `names`."""
    entries = re.split(r"^(?=\S)", parameters, flags=re.MULTILINE)[1:]
    by_name = {entry.partition(" :")[0].strip("*"): entry for entry in entries}
    return "".join(f"{by_name[name].rstrip()}\n" for name in names)
