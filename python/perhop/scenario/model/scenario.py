"""The scenario: what is connected to what, who sends what, and what each class is promised.

Read it from the bottom: it has nodes, links between them, policies at the links' ends, flows and
pings across them, and what is expected of the run. Files say everything in text with units; the
model holds whole numbers of base units (see `perhop.units`).

Models are frozen. A model made in Python takes the same text that a file does, under the same
names: ``Link(ends=("a", "b"), rate="10 Mbps")``.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from perhop.scenario.model.agents import Agent
from perhop.scenario.model.background import Background, Backgrounds, backgrounds_of
from perhop.scenario.model.base import Model
from perhop.scenario.model.changes import Change
from perhop.scenario.model.channels import Channel
from perhop.scenario.model.classes import Policy
from perhop.scenario.model.expectations import Expectation, Published
from perhop.scenario.model.names import IpVersion, Name
from perhop.scenario.model.quantities import PositiveDuration, Seeds, Version
from perhop.scenario.model.topology import Link, Node
from perhop.scenario.model.traffic import Flow, Ping
from perhop.scenario.model.tunnels import Tunnel
from perhop.units import SECOND


class Report(Model):
    """Settings of the results."""

    interval: PositiveDuration = SECOND
    """The time between two reports of a flow."""


MAX_FLOWS = 1000
"""The most flows of a scenario."""


class ScenarioData(Model):
    """The data of a scenario, sound or not."""

    model_config = ConfigDict(defer_build=True)

    perhop: Version
    """The version of the scenario format."""

    name: Name
    """The name of the scenario in commands and results."""

    title: str = ""
    """The title of reports, one line."""

    source: str = ""
    """The publication of the experiment."""

    description: str = ""
    """A description: the purpose of the experiment, its assumptions, and reasons for different
    results."""

    ip: IpVersion = 4
    """The version of the internet protocol of flows, pings and background traffic: 4 or 6."""

    nodes: Annotated[dict[Name, Node], Field(min_length=1, max_length=2500)]
    """Hosts and routers by name."""

    links: Annotated[tuple[Link, ...], Field(max_length=2500)]
    """The links between nodes."""

    tunnels: Annotated[dict[Name, Tunnel], Field(max_length=100)] = Field(default_factory=dict)
    """The tunnels between nodes, by name."""
    channels: Annotated[dict[Name, Channel], Field(max_length=100)] = Field(default_factory=dict)
    """The radio channels that links share, by name."""

    policies: Annotated[dict[Name, Policy], Field(max_length=100)] = Field(default_factory=dict)
    """The policies of links' ends, by name."""

    flows: Annotated[dict[Name, Flow], Field(max_length=MAX_FLOWS)] = Field(default_factory=dict)
    """The flows by name; a network for labs and reservations needs none."""

    pings: Annotated[dict[Name, Ping], Field(max_length=1000)] = Field(default_factory=dict)
    """The pings by name."""

    background: Backgrounds | None = None
    """Background traffic on links: one such as ``{link: r1>r2, load: 40%}``, or several by name."""

    agents: Annotated[dict[Name, Agent], Field(max_length=1000)] = Field(default_factory=dict)
    """The agents of nodes on a live network, by node; for the engine `live` only."""

    duration: PositiveDuration | None = None
    """The duration; by default until the last flow or ping stops."""

    report: Report = Report()
    """Settings of the results."""

    changes: Annotated[tuple[Change, ...], Field(max_length=1000)] = ()
    """The timeline of changes of the network."""

    expect: Annotated[tuple[Expectation, ...], Field(max_length=1000)] = ()
    """The expected results."""

    seeds: Seeds = 1
    """The number of runs by whose median `perhop test` judges the expectations; 1, or 6 to 1000."""

    published: Annotated[tuple[Published, ...], Field(max_length=1000)] = ()
    """The published results."""

    @property
    def backgrounds(self) -> dict[str, Background]:
        """Background traffic by name: a flow has the same name in results."""
        return backgrounds_of(self.background)

    @property
    def background_hosts(self) -> set[str]:
        """The hosts that background traffic adds: those that its flows have beside its links."""
        ends = {
            (name, end)
            for name in self.backgrounds
            if name in self.flows
            for end in (self.flows[name].source, self.flows[name].destination)
        }
        return {end for name, end in ends if end in (f"{name}-from", f"{name}-to")}

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what background traffic adds: it is added again when the text is read."""
        written: dict[str, Any] = handler(self)
        names, hosts = self.backgrounds, self.background_hosts
        if not names:
            return written
        for key, added in (("nodes", hosts), ("flows", names)):
            if key in written:
                written[key] = {k: v for k, v in written[key].items() if k not in added}
        if "links" in written:
            written["links"] = [
                link for link in written["links"] if not hosts.intersection(link["ends"])
            ]
        if not written.get("flows", True):
            del written["flows"]
        return written
