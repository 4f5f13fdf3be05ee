"""Published experiments, reproduced: what a document says beside what perhop measures.

An experiment is some runs of the gallery's scenarios, the values that the document has, and how to
measure each. What the document leaves open is an `Unknown` of the experiment: a range or some
choices, with the reason. `reproduce` makes the runs, and an ensemble over the unknowns: each value
of the document is judged against the interval of the ensemble's results (see
`perhop.experiments.ensemble`). `write` makes a page of each experiment and an index of all.

To give an experiment unknowns::

    Experiment(
        …,
        unknowns=(
            Unknown(
                "delay of the path, each way",
                "the document says a round-trip time of about 170 ms",
                low=0.0825,
                high=0.0875,
                unit="s",
                sets={"links.1.delay={:.6f} s": 1.0},
            ),
            Unknown(
                "selective acknowledgements",
                "the document does not say; the system's default is on",
                choices={"on": (), "off": ("flows.bulk.tcp.sack=false",)},
            ),
        ),
    )

`Value.basis` says whether the document states the value (`stated`), the scenario puts it in
(`assumed`) or the document has no such figure (`unstated`); `Value.number` is the same for values
that are one number of the document. `measure` and `across` of values are functions of a module, or
partials of one, because worker processes are given them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError
from perhop.experiments.model import Case, Experiment, Runs, Unknown, Value
from perhop.experiments.outcomes import OUTCOMES, Judged, score
from perhop.experiments.reproduction import RUNS, Changed, Reproduction, reproduce, summary
from perhop.hints import did_you_mean
from perhop.units import quote

if TYPE_CHECKING:
    from perhop.experiments.pages import write

__all__ = [
    "OUTCOMES",
    "RUNS",
    "Case",
    "Changed",
    "Experiment",
    "Judged",
    "Reproduction",
    "Runs",
    "Unknown",
    "Value",
    "get",
    "names",
    "reproduce",
    "score",
    "summary",
    "write",
]

_DOCUMENTS: Final = (
    "qbss",
    "qbss_ping",
    "oscars",
    "bulk",
    "cbq",
    "cbq_traces",
    "transatlantic",
    "balancing",
)
"""The modules of this package whose `experiments` returns those of a document, in its order."""


@cache
def _all() -> dict[str, Experiment]:
    from importlib import import_module

    modules = (import_module(f"perhop.experiments.{name}") for name in _DOCUMENTS)
    return {each.name: each for module in modules for each in module.experiments()}


def names() -> tuple[str, ...]:
    """Return the names of all experiments, in the order of their documents."""
    return tuple(_all())


def get(name: str) -> Experiment:
    """Return the experiment of a name.

    Raises:
        UsageError: Unknown experiment.
    """
    there = _all()
    if name not in there:
        hint = did_you_mean(name, there) or f"there are {', '.join(there)}"
        raise UsageError(f"{quote(name)} is not an experiment; {hint}")
    return there[name]


def __getattr__(name: str) -> Any:
    if name == "write":
        from perhop.experiments.pages import write

        return write
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
