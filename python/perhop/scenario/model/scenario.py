"""The scenario: what is connected to what, who sends what, and what each class is promised.

Read it from the bottom: a `Scenario` has nodes, links between them, policies at the links' ends,
flows and pings across them, and what is expected of the run. Files say everything in text with
units; the model holds whole numbers of base units (see `perhop.units`).

Models are frozen. A model made in Python takes the same text that a file does, under the same
names: ``Link(ends=("a", "b"), rate="10 Mbps")``.
"""

from collections.abc import Iterator
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from itertools import count, pairwise
from typing import Annotated, Any, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationInfo, model_validator

from perhop.scenario.model.base import Model
from perhop.scenario.model.changes import Change
from perhop.scenario.model.classes import Class, Policy
from perhop.scenario.model.expectations import Expectation, Published
from perhop.scenario.model.names import Name
from perhop.scenario.model.quantities import PositiveDuration, Version
from perhop.scenario.model.topology import Link, Node
from perhop.scenario.model.traffic import Flow, Ping
from perhop.scenario.rules.validation import validate
from perhop.units import SECOND

FIRST_PORT = 5001
"""The receiver's port of the first flow that names none; the next flow's is one more."""


class Report(Model):
    """How results are laid out."""

    interval: PositiveDuration = SECOND
    """The time between two reports of a flow."""


class Scenario(Model):
    """An experiment: a network, what is sent across it and when, and what should come of it.

    However it is made, from a file or in Python, a scenario that exists is sound: names refer to
    something, hosts reach each other, classes can be reached, and times lie in the scenario.

    Raises:
        ScenarioError: On construction, with everything that is wrong.
    """

    perhop: Version
    """The version of the scenario format."""

    name: Name
    """What the scenario is called in commands and results."""

    title: str = ""
    """One line for the head of a report."""

    source: str = ""
    """Where the experiment was published."""

    description: str = ""
    """What the experiment shows, what is assumed, and where results may differ and why."""

    nodes: Annotated[dict[Name, Node], Field(min_length=1, max_length=1000)]
    """Hosts and routers by name."""

    links: Annotated[tuple[Link, ...], Field(max_length=2000)]
    """What connects them."""

    policies: Annotated[dict[Name, Policy], Field(max_length=100)] = Field(default_factory=dict)
    """How links' ends treat packets, by name."""

    flows: Annotated[dict[Name, Flow], Field(max_length=1000)] = Field(default_factory=dict)
    """Who sends what, by name; a network alone, for labs and reservations, has none."""

    pings: Annotated[dict[Name, Ping], Field(max_length=1000)] = Field(default_factory=dict)
    """Who measures round trips, by name."""

    duration: PositiveDuration | None = None
    """How long it lasts; by default until the last flow or ping stops."""

    report: Report = Report()
    """How results are laid out."""

    changes: Annotated[tuple[Change, ...], Field(max_length=1000)] = ()
    """What changes in the network while it runs."""

    expect: Annotated[tuple[Expectation, ...], Field(max_length=1000)] = ()
    """What must come of it."""

    published: Annotated[tuple[Published, ...], Field(max_length=1000)] = ()
    """What a document says came of it."""

    @model_validator(mode="wrap")
    @classmethod
    def _sound(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        return validate(cls, data, handler, info.context)

    def __copy__(self) -> Self:
        """Copy the fields, which `model_copy` then changes, and nothing that follows from them."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @cached_property
    def end_ps(self) -> int:
        """When the scenario ends, in picoseconds: its `duration`, or the last stop."""
        if self.duration is not None:
            return self.duration
        senders: list[Flow | Ping] = [*self.flows.values(), *self.pings.values()]
        return max((sender.stop for sender in senders if sender.stop is not None), default=0)

    @cached_property
    def changes_ps(self) -> list[int]:
        """When flows start or stop or the network changes, sorted, each instant once."""
        spans = [self.active_ps(flow) for flow in self.flows.values()]
        network = {change.at for change in self.changes if change.clear is None}
        return sorted(network.union(*spans))

    @cached_property
    def phases_ps(self) -> list[tuple[int, int]]:
        """The stretches between changes, from 0 to the end: the same flows in the same network."""
        instants = sorted({0, *self.changes_ps, self.end_ps})
        return list(pairwise(instants))

    @cached_property
    def marks_ps(self) -> list[int]:
        """Where results are cut, sorted, each instant once, from 0 to the end.

        The report's grid, every change, and both edges of every stretch that an expectation or a
        published figure is about, so that each such stretch is a union of results. Of the grid
        those are left out that results, in seconds, could not tell from another one.
        """
        measured = (*self.expect, *self.published)
        edges = (edge for item in measured if item.during for edge in item.during)
        cleared = (change.at for change in self.changes)
        wanted = {*self.changes_ps, *cleared, *edges, self.end_ps}
        taken = {mark / 1e12 for mark in wanted}
        grid = range(0, self.end_ps, self.report.interval)
        return sorted(wanted.union(mark for mark in grid if mark / 1e12 not in taken))

    @cached_property
    def cuts_ps(self) -> list[int]:
        """The edges of windows over which a delay is expected or published, sorted."""
        measured = (*self.expect, *self.published)
        delays = (item.during for item in measured if item.metric.name.startswith("owd"))
        return sorted({edge for during in delays if during for edge in during})

    @cached_property
    def directions(self) -> dict[str, tuple[Link, str]]:
        """Both directions of every link by their names in results: the link, and who sends.

        The direction in which r1 sends to r2 is ``r1>r2``; of a link with a name ``r1>r2#name``, of
        the second one without a name between them ``r1>r2#2``.
        """
        found: dict[str, tuple[Link, str]] = {}
        numbers: dict[frozenset[str], int] = {}
        for link in self.links:
            number = numbers[frozenset(link.ends)] = numbers.get(frozenset(link.ends), 0) + 1
            which = f"#{link.name or number}" if link.name or number > 1 else ""
            found |= {f"{end}>{link.other(end)}{which}": (link, end) for end in link.ends}
        return found

    def active_ps(self, sender: Flow | Ping) -> tuple[int, int]:
        """When `sender` starts and, at the latest, stops."""
        return sender.start, self.end_ps if sender.stop is None else sender.stop

    def address_of(self, node: str) -> IPv4Address:
        """The address of `node`: its own, or the one it gets by its place in the file."""
        return self.addresses[node]

    @cached_property
    def addresses(self) -> dict[str, IPv4Address]:
        """The address of every node."""
        taken = {node.address for node in self.nodes.values() if node.address}
        free = (a for a in map(_FIRST_ADDRESS.__add__, count()) if a not in taken)
        return {name: node.address or next(free) for name, node in self.nodes.items()}

    def prefixes(
        self, ends: tuple[str | IPv4Network | IPv6Network, ...]
    ) -> tuple[IPv4Network | IPv6Network, ...]:
        """The address prefixes of a match's `ends`, nodes replaced by their address."""
        addresses = self.addresses
        return tuple(IPv4Network(addresses[e]) if isinstance(e, str) else e for e in ends)

    def all_policies(self) -> Iterator[tuple[tuple[str, ...], Policy]]:
        """Every policy, and every one that the `classes` of a class make, with its place."""
        todo: list[tuple[tuple[str, ...], Policy]]
        todo = [((name,), policy) for name, policy in self.policies.items()]
        while todo:
            path, policy = todo.pop(0)
            yield ("policies", path[0], "classes", *path[1:]), policy
            for key, part in policy.classes.items():
                inside = policy.inside(part)
                if inside is not None:
                    todo.append(((*path, key, "classes"), inside))

    def divided(self, policy: Policy, part: Class) -> Policy | None:
        """The policy that divides a class of `policy`; None if it has a queue."""
        if part.policy is not None:
            return self.policies.get(part.policy)
        return policy.inside(part)

    def port_of(self, flow: str) -> int:
        """The receiver's port of `flow`: its own, or the one it gets by its place in the file."""
        own = self.flows[flow].port
        return FIRST_PORT + list(self.flows).index(flow) if own is None else own


_FIRST_ADDRESS = IPv4Address("10.0.0.1")
