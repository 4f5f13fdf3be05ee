"""The page of the Python API, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES: Final = (
    "perhop",
    "perhop.units",
    "perhop.topologies",
    "perhop.metrics",
    "perhop.charts",
    "perhop.ensembles",
    "perhop.analysis",
    "perhop.errors",
)
"""Modules whose public names are documented."""

_SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:", "Yields:")
_ENTRY = re.compile(r"^ {4}(\*{0,2}[\w]+): (.*)")


def page() -> str:
    """Return the page of all public names."""
    parts = ["# Python API", "", "[perhop in Python](../python.md) shows how to use it.", ""]
    for module in MODULES:
        parts += [f"## {module}", "", prose(inspect.getdoc(import_module(module)) or ""), ""]
        for name, thing in public(module):
            prefix = "" if module == "perhop" else f"{module.removeprefix('perhop.')}."
            parts += [f"### {prefix}{name}", "", *_described(f"{prefix}{name}", thing)]
    return "\n".join(parts)


def public(module: str) -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes of a module."""
    home = import_module(module)
    names = getattr(home, "__all__", None) or sorted(n for n in vars(home) if not n.startswith("_"))
    for name in names:
        thing = getattr(home, name)
        of_us = getattr(thing, "__module__", "").startswith("perhop")
        if of_us and (inspect.isclass(thing) or inspect.isfunction(thing)):
            yield name, thing


def attributes(thing: type) -> dict[str, str]:
    """Return the descriptions in the section `Attributes` of a docstring."""
    found: dict[str, str] = {}
    section, name = "", ""
    for line in (inspect.getdoc(thing) or "").splitlines():
        if line in _SECTIONS:
            section = line
        elif section == "Attributes:" and (entry := _ENTRY.match(line)):
            name = entry[1]
            found[name] = entry[2]
        elif section == "Attributes:" and line.startswith("     ") and name:
            found[name] += f" {line.strip()}"
    return {name: inline(text) for name, text in found.items()}


def prose(text: str) -> str:
    """Return a docstring as Markdown: sections as lists, examples and tables as blocks."""
    lines: list[str] = []
    section = ""
    block = False
    for line in inspect.cleandoc(text).splitlines():
        verbatim = bool(
            section == "" and re.match(r">>> |\.\.\. |=====| {4}|[├└│]|PerhopError$", line)
        )
        verbatim = verbatim or (block and bool(line) and section == "")
        if verbatim != block:
            lines += ["", "```text"] if verbatim else ["```", ""]
            block = verbatim
        if block:
            lines.append(line)
        elif line in _SECTIONS:
            section = line
            lines += ["", f"**{line.removesuffix(':')}**", ""]
        elif section and (entry := _ENTRY.match(line)):
            lines.append(f"* `{entry[1]}`: {inline(entry[2])}")
        elif section and line.startswith("    "):
            lines.append(
                inline(line.strip())
                if not lines[-1].startswith("* ")
                else f"  {inline(line.strip())}"
            )
        elif line == "::":
            continue
        else:
            section = section if not line else ""
            lines.append(inline(line))
    return "\n".join([*lines, "```"] if block else lines)


def inline(text: str) -> str:
    """Return text of a docstring as Markdown: code is marked, and nothing else is."""
    parts = text.replace("``", "`").split("`")
    return "`".join(
        part if index % 2 else re.sub(r"([<*])", r"\\\1", part) for index, part in enumerate(parts)
    )


def _described(name: str, thing: Any) -> list[str]:
    lines = [*_signature(name, thing), prose(inspect.getdoc(thing) or ""), ""]
    if inspect.isclass(thing):
        for key, member in vars(thing).items():
            of_class = isinstance(member, (property, classmethod, staticmethod))
            if key.startswith("_") or not (of_class or inspect.isfunction(member)):
                continue
            function = getattr(thing, key)
            text = (inspect.getdoc(member) or "").partition("\n")[0]
            shown = key if isinstance(member, property) else f"{key}{_arguments(function)}"
            lines.append(f"* `{shown}`: {inline(text)}")
        lines.append("")
    return lines


def _signature(name: str, thing: Any) -> list[str]:
    if inspect.isclass(thing) and (issubclass(thing, Exception) or hasattr(thing, "model_fields")):
        return []
    return ["```python", f"{name}{_arguments(thing)}", "```", ""]


def _arguments(thing: Any) -> str:
    signature = inspect.signature(thing)
    plain = [
        each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()
    ]
    bare = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return str(bare)
