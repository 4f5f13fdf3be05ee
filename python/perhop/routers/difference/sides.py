"""The two policies of a comparison, and runs of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perhop import analysis, engines
from perhop.routers.difference.results import Load
from perhop.routers.reading import detect, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perhop.engines import Progress
    from perhop.routers.reading import Attachment, Configuration, Direction
    from perhop.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        file: A scenario, or the configuration of a router.
        is_configuration: True for a configuration.
        family: The family of the configuration; detected by default.
        interface: The interface whose policy is meant; by default the first with a policy.
        direction: The direction of the policy.
        rate: The rate of the interface in bit/s; by default that in the configuration.
    """

    file: str
    is_configuration: bool = False
    family: str | None = None
    interface: str | None = None
    direction: Direction | None = None
    rate: int | None = None

    def read(self) -> tuple[Configuration, Attachment]:
        """Return the configuration, and the policy that is meant.

        Raises:
            UsageError: The file cannot be read, or has no such policy.
        """
        configuration = detect.read_at(
            self.rate,
            [self.file],
            self.family,
            interface=self.interface,
            direction=self.direction,
        )
        return configuration, select(
            configuration,
            self.file,
            interface=self.interface,
            direction=self.direction,
            any_of_several=True,
        )


@dataclass(slots=True)
class Runs:
    """Runs two scenarios and compares them.

    Attributes:
        names: Names of the two sides.
        seed: The seed.
        watch: A function to call with the progress of each run.
    """

    names: tuple[str, str]
    seed: int
    watch: Callable[[Progress], None] | None

    def __call__(self, load: str, scenarios: Iterable[Scenario]) -> Load:
        """Run both scenarios."""
        datasets = []
        for scenario in scenarios:
            datasets.append(engines.run(scenario, seed=self.seed, watch=self.watch))
            if not datasets[-1].manifest.complete:
                raise KeyboardInterrupt
        return Load(load, analysis.compare(datasets, self.names))

    def one_by_one(self, load: str, pairs: Iterable[Iterable[Scenario]]) -> Load:
        """Run pairs of scenarios with different flows and pings, as one load.

        The result has the flows and pings of all pairs, and nothing that several have in common:
        no phases and classes.
        """
        first, *more = (self(load, pair).compared for pair in pairs)
        for compared in more:
            first.flows.update(compared.flows)
            first.pings.update(compared.pings)
        return Load(load, replace(first, phases=(), classes={}, codepoints={}))
