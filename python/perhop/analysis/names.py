"""The names of flows and pings of a run; an unknown name is an error, never a zero."""

from collections.abc import Collection

from perhop.dataset import Dataset
from perhop.errors import UsageError
from perhop.hints import did_you_mean, listed
from perhop.units import quote


def flow_named(dataset: Dataset, name: str, *also: str) -> str:
    """Return the name of a flow, or one of the words for several flows.

    Args:
        dataset: The run.
        name: The name to check.
        *also: Words that stand for several flows, such as "total".

    Raises:
        UsageError: Unknown flow.
    """
    flows = dataset.scenario.flows
    return name if name in flows else _named("flow", name, [*flows, *also])


def ping_named(dataset: Dataset, name: str) -> str:
    """Return the name of a ping.

    Raises:
        UsageError: Unknown ping.
    """
    return _named("ping", name, dataset.scenario.pings)


def is_flow(dataset: Dataset, name: str) -> bool:
    """Return whether a name is that of a flow, not that of a ping.

    Raises:
        UsageError: Unknown name.
    """
    flows, pings = dataset.scenario.flows, dataset.scenario.pings
    return name in flows or _named("flow or ping", name, [*flows, *pings]) in flows


def _named(kind: str, name: str, known: Collection[str]) -> str:
    if name in known:
        return name
    hint = did_you_mean(name, known) or listed(known).removeprefix("; ")
    message = f"{quote(name)} is not a {kind} of this run"
    raise UsageError(f"{message}; {hint}" if hint else message)
