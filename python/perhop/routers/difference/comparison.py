"""Comparisons of configurations and scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perhop import gallery
from perhop.routers.difference.configurations import compare_configurations
from perhop.routers.difference.results import Difference
from perhop.routers.difference.scenarios import OWN, bare, in_place, with_traffic
from perhop.routers.difference.sides import Runs, Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.engines import Progress


def compare(
    old: Side, new: Side, *, seed: int = 1, watch: Callable[[Progress], None] | None = None
) -> Difference:
    """Run two policies under the same traffic.

    Configurations get flows that saturate each class alone, all classes that are not strict, and
    all together. A scenario runs with its own traffic; the first one's if both are scenarios. A
    configuration beside a scenario takes the place of its only policy.

    Args:
        old: The policy before the change.
        new: The policy after it.
        seed: The seed of random numbers.
        watch: A function to call with the progress of each run.

    Raises:
        UsageError: A file cannot be read, has no such policy, or the two do not fit each other.
        ScenarioError: A policy is not one that perhop can run.
    """
    names = _names(old.file, new.file)
    run = Runs(names, seed, watch)
    if not old.is_configuration and not new.is_configuration:
        first = gallery.load(old.file)
        pair = (
            with_traffic(scenario, first, side.file, old.file)
            for scenario, side in ((first, old), (gallery.load(new.file), new))
        )
        return Difference(names, (run(OWN, pair),), {}, (), ())
    if old.is_configuration and new.is_configuration:
        return compare_configurations(old, new, names, run)
    scenario, configuration = (new, old) if old.is_configuration else (old, new)
    remarks: list[str] = []
    loaded = bare(gallery.load(scenario.file))
    changed = in_place(loaded, scenario.file, configuration, remarks)
    same = with_traffic(loaded, loaded, scenario.file, scenario.file)
    ordered = (changed, same) if old.is_configuration else (same, changed)
    return Difference(names, (run(OWN, ordered),), {}, (), tuple(remarks))


def _names(old: str, new: str) -> tuple[str, str]:
    """Return short distinct names of two files."""
    first, second = Path(old).name, Path(new).name
    if first == second:
        first, second = old, new
    return (first, second) if first != second else (f"{first} (old)", f"{second} (new)")
