"""perhop: a laboratory for network quality of service.

>>> import perhop
>>> scenario = perhop.load("qbss-1-70", overrides={"flows.best_effort.streams": "10"})
>>> scenario.flows["best_effort"].streams
10

Heavy modules are imported at the first use of a name that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perhop.errors import (
    OutputError,
    PerhopError,
    Problem,
    ScenarioError,
    UnsupportedError,
    UsageError,
)

if TYPE_CHECKING:
    from perhop import analysis, charts, ensembles, metrics, topologies, units
    from perhop.dataset import Dataset
    from perhop.engines import Progress, run
    from perhop.gallery import load
    from perhop.scenario import Scenario, dump, json_schema, parse
    from perhop.sweep import Sweep

    __version__: str

__all__ = [
    "Dataset",
    "OutputError",
    "PerhopError",
    "Problem",
    "Progress",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "analysis",
    "charts",
    "dump",
    "ensembles",
    "json_schema",
    "load",
    "metrics",
    "parse",
    "run",
    "topologies",
    "units",
]

_HOMES = {
    "Dataset": "perhop.dataset",
    "Progress": "perhop.engines",
    "run": "perhop.engines",
    "load": "perhop.gallery",
    "Scenario": "perhop.scenario",
    "dump": "perhop.scenario",
    "Sweep": "perhop.sweep",
    "json_schema": "perhop.scenario",
    "parse": "perhop.scenario",
}
"""Modules of the names that are imported on first use."""

_MODULES = ("analysis", "charts", "ensembles", "metrics", "topologies", "units")
"""Those that are public themselves."""


def __getattr__(name: str) -> Any:
    """Import `name` from its module, or read the version of the installed package."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("perhop")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"perhop.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *__all__})
