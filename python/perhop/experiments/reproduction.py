"""Experiments run, and their values beside the published ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop import gallery
from perhop.analysis import Comparison, against_published, verdicts
from perhop.dataset import Dataset
from perhop.engines import check
from perhop.rights import REAL_ENGINES
from perhop.scenario import Scenario, Tcp
from perhop.workers import Task, cores, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from perhop.experiments.model import Case, Experiment, Runs

_Shown = TypeVar("_Shown")


@dataclass(frozen=True, slots=True)
class Changed:
    """What a variant says of the values of the case that it is a variant of.

    Attributes:
        case: The variant's name, …
        of: … that of the case, …
        change: … and what is different, in words.
        values: The values of the case, as they are in the variant.
    """

    case: str
    of: str
    change: str
    values: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """An experiment that was run.

    Attributes:
        experiment: What was run.
        runs: Its datasets by case.
        values: The document's values beside the measured ones, by case; those across runs last,
            with "".
        variants: The same with one thing changed.
        failed: The expectations of its scenarios that do not hold, with their cases before them;
            those of variants do not count.
    """

    experiment: Experiment
    runs: Runs
    values: tuple[tuple[str, Comparison], ...]
    variants: tuple[Changed, ...]
    failed: tuple[str, ...]

    @property
    def comparisons(self) -> list[Comparison]:
        """The document's values beside the measured ones."""
        return [compared for _, compared in self.values]

    @property
    def judged(self) -> tuple[int, int]:
        """How many values agree with the document, and how many could."""
        verdict = [compared.agrees for compared in self.comparisons]
        return verdict.count(True), len(verdict) - verdict.count(None)


def reproduce(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    engine: str = "sim",
    seed: int = 1,
    jobs: int | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> list[Reproduction]:
    """Make all runs of some experiments, each in ``folder/EXPERIMENT/runs/CASE``.

    Engines in real time make those that the document has, with this machine's TCP in the place of
    that of another time. Their variants are what the simulator makes of the same, with hosts of
    that time and of this.

    Args:
        experiments: What to run.
        folder: Where results go.
        engine: What runs them.
        seed: The seed of every run.
        jobs: How many runs at once; one a core by default, and one alone in real time.
        watch: Called with the number of runs that are done, and of all.

    Raises:
        ScenarioError: If a scenario is wrong; nothing is run then.
        UsageError: If the engine is unknown.
        UnsupportedError: If the engine cannot run one of the scenarios here; nothing is run then.
        OutputError: If the folder cannot be written.
    """
    real = engine in REAL_ENGINES
    if real:
        experiments = [_between_hosts(each) for each in experiments]
    places = {
        (each.name, case): folder / each.name / "runs" / case
        for each in experiments
        for case in each.cases
    }
    tasks = []
    for case, place in zip(_cases(experiments), places.values(), strict=True):
        scenario = gallery.load(case.scenario, overrides=case.settings)
        if real and case.of is None:
            tasks.append(Task(_with_tcp(scenario, _with_this_tcp), place, engine, seed))
        elif case.change == _MODELLED:
            tasks.append(Task(_with_tcp(scenario, _with_modelled_tcp), place, seed=seed))
        else:
            tasks.append(Task(scenario, place, "sim" if real else engine, seed))
    # Which may find that out for each as soon as it is run, after an hour of others.
    for task in tasks if engine != "sim" else ():
        check(task.scenario, task.engine)
    for task in tasks:
        Dataset.check_writable(task.folder)
    # Runs that take longest go first, so that none is left alone at the end.
    tasks.sort(key=lambda task: -task.scenario.end_ps)
    many = jobs or (cores() if engine == "sim" else 1)
    for done, _ in enumerate(work(tasks, many), 1):
        if watch is not None:
            watch(done, len(tasks))
    return [
        compare(each, {case: Dataset.read(places[each.name, case]) for case in each.cases})
        for each in experiments
    ]


def compare(experiment: Experiment, runs: Runs) -> Reproduction:
    """An experiment's values, from its runs."""
    main = [name for name, case in experiment.cases.items() if case.of is None]
    variants = (
        Changed(name, case.of, case.change, tuple(_values(experiment, case.of, runs[name])))
        for name, case in experiment.cases.items()
        if case.of is not None
    )
    return Reproduction(
        experiment=experiment,
        runs=runs,
        values=(
            *((name, value) for name in main for value in _values(experiment, name, runs[name])),
            *(("", value.compare_all(runs)) for value in experiment.values if value.case is None),
        ),
        variants=tuple(variants),
        failed=tuple(
            f"{name}: {verdict.text}"
            for name in main
            for verdict in verdicts(runs[name])
            if not verdict.ok
        ),
    )


def summary(reproduced: Sequence[Reproduction]) -> dict[str, Any]:
    """What was reproduced in one object of JSON types, by the names of experiments."""
    return {
        each.experiment.name: {
            "title": each.experiment.title,
            "source": each.experiment.source,
            "values": [_described(compared, case) for case, compared in each.values],
            "variants": [
                {
                    "case": variant.case,
                    "of": variant.of,
                    "change": variant.change,
                    "values": [_described(value, variant.case) for value in variant.values],
                }
                for variant in each.variants
            ],
            "failed": list(each.failed),
        }
        for each in reproduced
    }


def _values(experiment: Experiment, case: str, dataset: Dataset) -> Iterator[Comparison]:
    """The values of a case as a dataset has them: its scenario's, then the experiment's own."""
    yield from against_published(dataset)
    yield from (value.compare(dataset) for value in experiment.values if value.case == case)


def _described(compared: Comparison, case: str) -> dict[str, Any]:
    return {"case": case, **asdict(compared), "agrees": compared.agrees}


def _cases(experiments: Sequence[Experiment]) -> Iterator[Case]:
    for each in experiments:
        yield from each.cases.values()


_SIMULATED: Final = "in simulation, with hosts of its time"
_MODELLED: Final = "in simulation, with hosts as of Linux 6"
"""What an experiment between real hosts has different in its variants."""


def _between_hosts(experiment: Experiment) -> Experiment:
    """An experiment without its variants, and without what its page makes of them.

    Each of its cases has others instead, which the simulator makes.
    """

    def shown(show: Callable[[Runs], _Shown], nothing: _Shown) -> Callable[[Runs], _Shown]:
        def as_far_as_it_goes(runs: Runs) -> _Shown:
            try:
                return show(runs)
            except KeyError:
                return nothing

        return as_far_as_it_goes

    return replace(
        experiment,
        cases={
            called: each
            for name, case in experiment.cases.items()
            if case.of is None
            for called, each in (
                (name, case),
                (f"{name}-sim", replace(case, of=name, change=_SIMULATED)),
                (f"{name}-sim-6", replace(case, of=name, change=_MODELLED)),
            )
        },
        values=tuple(
            value if value.across is None else replace(value, across=shown(value.across, None))
            for value in experiment.values
        ),
        tables=shown(experiment.tables, ()),
        pictures=shown(experiment.pictures, {}),
    )


_OF_ANY_TCP = (
    "congestion_control",
    "window",
    "send_window",
    "receive_window",
    "window_scaling",
    "mss",
    "sack",
    "timestamps",
    "ecn",
)
"""What a flow's TCP can have from this machine's kernel, whatever the stack was that set it."""


def _with_this_tcp(given: Tcp) -> Tcp:
    """This machine's TCP, with a flow's windows and options."""
    return Tcp().model_copy(update=_of_any(given))


def _with_modelled_tcp(given: Tcp) -> Tcp:
    """The same as the simulator models it."""
    modelled = Tcp.model_validate({"stack": "linux-6"})
    # Finding losses by time takes selective acknowledgements.
    without = {} if given.sack else {"loss_detection": "sack", "dsack": None, "prr": False}
    return modelled.model_copy(update={"stack": None, **_of_any(given), **without})


def _of_any(given: Tcp) -> dict[str, Any]:
    return {key: getattr(given, key) for key in _OF_ANY_TCP}


def _with_tcp(scenario: Scenario, tcp: Callable[[Tcp], Tcp]) -> Scenario:
    """A scenario whose flows have another TCP."""
    flows = {
        name: flow if flow.tcp is None else flow.model_copy(update={"tcp": tcp(flow.tcp)})
        for name, flow in scenario.flows.items()
    }
    return scenario.model_copy(update={"flows": flows})
