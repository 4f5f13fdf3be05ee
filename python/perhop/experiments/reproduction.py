"""Experiments that were run, and their values compared with the published ones."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop import gallery
from perhop.analysis import Comparison, verdicts
from perhop.dataset import Dataset
from perhop.engines import check
from perhop.experiments import ensemble
from perhop.experiments.outcomes import Judged, score
from perhop.experiments.unfinished import Unfinished
from perhop.rights import REAL_ENGINES
from perhop.scenario import Scenario, Tcp, to_mapping
from perhop.workers import Task, pool_of, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perhop.experiments.model import Case, Experiment, Runs, Unknown
    from perhop.stores import Place
    from perhop.workers import Pool

_Shown = TypeVar("_Shown")

RUNS: Final = 100
"""The members of an ensemble unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Values that a variant measures, compared with the case that it is a variant of.

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
        experiment: The experiment.
        runs: Its datasets by case.
        values: The document's values beside the measured ones; those across runs last.
        members: The draws of the ensemble; none without one.
        variants: The same with one thing changed.
        failed: The expectations of its scenarios that do not hold, with their cases before them;
            those of variants do not count.
    """

    experiment: Experiment
    runs: Runs
    values: tuple[Judged, ...]
    variants: tuple[Changed, ...]
    failed: tuple[str, ...]
    members: tuple[ensemble.Member, ...] = ()

    @property
    def comparisons(self) -> list[Comparison]:
        """Comparisons of the document's values with those of single runs."""
        return [each.compared for each in self.values]

    @property
    def score(self) -> dict[str, int]:
        """The number of the document's numbers with each outcome."""
        return score(self.values)


def reproduce(
    experiments: Sequence[Experiment],
    folder: Place,
    *,
    engine: str = "sim",
    seed: int = 1,
    runs: int = RUNS,
    jobs: int | None = None,
    cluster: Pool | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> list[Reproduction]:
    """Make all runs of some experiments, each in ``folder/EXPERIMENT/runs/CASE``.

    In simulation, experiments with unknowns have an ensemble, too, of which nothing stays in the
    folder. If a reproduction is interrupted, another one of the same continues it.

    Engines in real time make those that the document has, with this machine's TCP in the place of
    that of another time. Their variants are what the simulator makes of the same, with hosts of
    that time and of this.

    Args:
        experiments: Experiments to run.
        folder: Where results go, on this machine or in an object store.
        engine: Engine that runs them.
        seed: The seed of every run, and of the draws of ensembles.
        runs: The members of each ensemble, less where an experiment's `effort` says so; 0 for none.
        jobs: Number of runs at once; one per core by default, and one alone in real time.
        cluster: Where simulations are made instead, as by `perhop.cluster.connect`.
        watch: Called with the number of runs that are done, and of all.

    Raises:
        ScenarioError: If a scenario is wrong; nothing is run then.
        UsageError: If the engine is unknown.
        UnsupportedError: If the engine cannot run one of the scenarios here; nothing is run then.
        OutputError: If the folder cannot be written.
        ClusterError: If processes or a cluster end before the runs do.
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
    many = jobs or (None if engine == "sim" else 1)
    drawn = {each.name: _members(each, runs, seed) for each in experiments if engine == "sim"}
    calls = [
        (ensemble.shortened(each), member)
        for each in experiments
        for member in drawn.get(each.name, ())
    ]
    for each in experiments:
        # Errors in a range are found before any run.
        for member in drawn.get(each.name, ())[:1]:
            deque(ensemble.scenarios(each, member), maxlen=0)
    unfinished = Unfinished(folder, _definition(engine, tasks, calls))
    todo = [task for task in tasks if not unfinished.made(task)]
    rest_of = [number for number in range(len(calls)) if number not in unfinished.results]
    every = len(tasks) + len(calls)
    done = every - len(todo) - len(rest_of)
    with unfinished.saving():
        with closing(work(todo, pool_of(many, cluster, len(todo)), _nothing)) as made:
            for _ in made:
                done += 1
                if watch is not None:
                    watch(done, every)
        remaining = [calls[number] for number in rest_of]
        pool = pool_of(many, cluster, len(remaining))
        with closing(pool.call(ensemble.evaluate, remaining)) as came:
            for number, measured in came:
                unfinished.add(rest_of[number], measured)
                done += 1
                if watch is not None:
                    watch(done, every)
    found, rest = [], (unfinished.results[number] for number in range(len(calls)))
    for each in experiments:
        read = {case: Dataset.read(places[each.name, case]) for case in each.cases}
        members = drawn.get(each.name, [])
        found.append(compare(each, read, members, [next(rest) for _ in members]))
    return found


def _definition(
    engine: str,
    tasks: Sequence[Task],
    calls: Sequence[tuple[Experiment, ensemble.Member]],
) -> str:
    """Return a text that is the same for reproductions that have the same results."""
    runs = [(str(task.folder), to_mapping(task.scenario), task.engine, task.seed) for task in tasks]
    drawn = [(experiment.name, member) for experiment, member in calls]
    return sha256(repr((version("perhop"), engine, runs, drawn)).encode()).hexdigest()


def _nothing(_: Dataset) -> None:
    """Measure nothing of a run, whose dataset is read once all are there."""


def _members(experiment: Experiment, runs: int, seed: int) -> list[ensemble.Member]:
    """Return the draws of an experiment's ensemble; none if it has no unknowns."""
    if not experiment.unknowns or not runs:
        return []
    return ensemble.members(experiment, max(1, round(runs * experiment.effort)), seed)


def compare(
    experiment: Experiment,
    runs: Runs,
    members: Sequence[ensemble.Member] = (),
    results: Sequence[Sequence[float | None]] = (),
) -> Reproduction:
    """Return an experiment's values from its runs, and from the members of its ensemble."""
    variants = (
        Changed(name, case.of, case.change, tuple(experiment.of(case.of, runs[name])))
        for name, case in experiment.cases.items()
        if case.of is not None
    )
    values = experiment.measured(runs)
    spreads = (
        ensemble.spread(experiment.unknowns, members, of_one) if members else None
        for of_one in (zip(*results, strict=True) if members else [()] * len(values))
    )
    return Reproduction(
        experiment=experiment,
        runs=runs,
        values=tuple(
            Judged(case, compared, found)
            for (case, compared), found in zip(values, spreads, strict=True)
        ),
        variants=tuple(variants),
        failed=tuple(
            f"{name}: {verdict.text}"
            for name in experiment.main
            for verdict in verdicts(runs[name])
            if verdict.ok is False
        ),
        members=tuple(members),
    )


def summary(reproduced: Sequence[Reproduction]) -> dict[str, Any]:
    """Return the outcomes as one object of JSON types, by the names of experiments."""
    return {
        each.experiment.name: {
            "title": each.experiment.title,
            "source": each.experiment.source,
            "score": each.score,
            "unknowns": [_unknown(unknown) for unknown in each.experiment.unknowns],
            "members": len(each.members),
            "values": [_judged(value, each.experiment.unknowns) for value in each.values],
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


def _described(compared: Comparison, case: str) -> dict[str, Any]:
    return {"case": case, **asdict(compared), "agrees": compared.agrees}


def _judged(value: Judged, unknowns: Sequence[Unknown]) -> dict[str, Any]:
    found = value.spread
    return {
        **_described(value.compared, value.case),
        "verdict": value.verdict,
        "outcome": value.outcome,
        "ensemble": None if found is None else ensemble.described(found, unknowns),
    }


def _unknown(unknown: Unknown) -> dict[str, Any]:
    values: list[Any] = list(unknown.choices) or [unknown.low, unknown.high]
    return {
        "name": unknown.name,
        "choices" if unknown.choices else "range": values,
        "unit": unknown.unit,
        "reason": unknown.reason,
    }


def _cases(experiments: Sequence[Experiment]) -> Iterator[Case]:
    for each in experiments:
        yield from each.cases.values()


_SIMULATED: Final = "in simulation, with hosts of its time"
_MODELLED: Final = "in simulation, with hosts as of Linux 6"
"""Difference of the simulated variants of an experiment between real hosts."""


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
"""TCP settings that this machine's kernel supports for a flow, whatever stack set them."""


def _with_this_tcp(given: Tcp) -> Tcp:
    """Return the settings of this machine's TCP, with a flow's windows and options."""
    return Tcp().model_copy(update=_of_any(given))


def _with_modelled_tcp(given: Tcp) -> Tcp:
    """Return the settings of the modelled TCP with a flow's windows, without autotuning."""
    modelled = Tcp.model_validate({"stack": "linux-6", "autotuning": False})
    # Finding losses by time takes selective acknowledgements.
    without = {} if given.sack else {"loss_detection": "sack", "dsack": None, "prr": False}
    return modelled.model_copy(update={"stack": None, **_of_any(given), **without})


def _of_any(given: Tcp) -> dict[str, Any]:
    return {key: getattr(given, key) for key in _OF_ANY_TCP}


def _with_tcp(scenario: Scenario, tcp: Callable[[Tcp], Tcp]) -> Scenario:
    """Return a scenario whose flows have another TCP."""
    flows = {
        name: flow if flow.tcp is None else flow.model_copy(update={"tcp": tcp(flow.tcp)})
        for name, flow in scenario.flows.items()
    }
    return scenario.model_copy(update={"flows": flows})
