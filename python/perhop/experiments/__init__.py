"""Published experiments, reproduced: what a document says beside what perhop measures.

An experiment is some runs of the gallery's scenarios, the values that the document has, and how to
measure each. `reproduce` makes the runs; `write` makes a page of each and an index of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError
from perhop.experiments.model import Case, Experiment, Runs, Value
from perhop.experiments.reproduction import Changed, Reproduction, reproduce, summary
from perhop.scenario.text import did_you_mean
from perhop.units import quote

if TYPE_CHECKING:
    from perhop.experiments.pages import write

__all__ = [
    "Case",
    "Changed",
    "Experiment",
    "Reproduction",
    "Runs",
    "Value",
    "get",
    "names",
    "reproduce",
    "summary",
    "write",
]

_DOCUMENTS: Final = ("qbss", "oscars", "bulk", "cbq", "cbq_traces", "transatlantic", "balancing")
"""The modules of this package that hold a document's experiments, in the order of the documents."""


def _all() -> dict[str, Experiment]:
    from importlib import import_module

    modules = (import_module(f"perhop.experiments.{name}") for name in _DOCUMENTS)
    return {each.name: each for module in modules for each in module.EXPERIMENTS}


def names() -> tuple[str, ...]:
    """The names of all experiments, in the order of their documents."""
    return tuple(_all())


def get(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        UsageError: If there is none.
    """
    there = _all()
    if name not in there:
        hint = did_you_mean(name, there) or f"there are {', '.join(there)}"
        raise UsageError(f"{quote(name)} is no experiment; {hint}")
    return there[name]


def __getattr__(name: str) -> Any:
    if name == "write":
        from perhop.experiments.pages import write

        return write
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
