"""The plugin of pytest: a test for each expectation of each file ``*.perhop.yaml``.

It is loaded by every pytest where perhop is installed, so that it imports perhop at first use.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from perhop.testing import Result

SUFFIX = ".perhop.yaml"


class UnmetError(Exception):
    """An expectation that fails, is undecided or was not reached."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of runs of a scenario."""
    parser.getgroup("perhop").addoption(
        "--perhop-seeds",
        type=int,
        help="The number of runs of each scenario, 1 or 6 to 1000; by default as its file says.",
    )
    parser.addini("perhop_seeds", "The number of runs of each scenario.", default="")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect scenarios."""
    if file_path.name.endswith(SUFFIX):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture
def perhop_test(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that runs a scenario, and fails unless each of its expectations holds.

    It takes a path or a name of the gallery, and the arguments of `perhop.testing.run`.
    """

    def run(source: str | Path, **options: Any) -> None:
        __tracebackhide__ = True  # of interest are the line of the test, and the table
        from perhop import gallery, testing
        from perhop.report import ensemble_table
        from perhop.testing.formats import plain

        options = {"seeds": _seeds(request.config), **options}
        [tested] = testing.run([gallery.read(source)], **options)
        if tested.error is not None:
            raise tested.error
        if tested.exit_code:
            raise UnmetError(plain(ensemble_table(tested.verdicts)))

    return run


class ScenarioFile(pytest.File):
    """A scenario, which runs when the first of its expectations is tested."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each expectation."""
        from perhop.scenario import parse

        scenario = parse(self.path.read_bytes(), str(self.path))
        if not scenario.expect:
            yield Expectation.from_parent(self, name="expectations", index=0)
        for index, expectation in enumerate(scenario.expect):
            yield Expectation.from_parent(self, name=expectation.text, index=index)

    @cached_property
    def tested(self) -> Result:
        """The results of the scenario."""
        from perhop import gallery, testing

        [tested] = testing.run([gallery.read(str(self.path))], seeds=_seeds(self.config), jobs=1)
        return tested

    def repr_failure(  # type: ignore[override]  # pytest's own collectors have no style, either
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> Any:
        """Show problems of the file as perhop does."""
        return _shown(excinfo) or super().repr_failure(excinfo)


class Expectation(pytest.Item):
    """A test of an expectation."""

    def __init__(self, *, index: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.index = index

    @property
    def _tested(self) -> Result:
        assert isinstance(self.parent, ScenarioFile)
        return self.parent.tested

    def runtest(self) -> None:
        """Run the scenario, if no other expectation has."""
        from perhop.report import ensemble_table
        from perhop.testing.formats import plain

        if self._tested.error is not None:
            raise self._tested.error
        if self._tested.verdicts[self.index].state != "holds":
            raise UnmetError(plain(ensemble_table(self._tested.verdicts)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the table of expectations, without perhop's own code."""
        return _shown(excinfo) or super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the place of the expectation."""
        return self.path, None, self.name


def _shown(excinfo: pytest.ExceptionInfo[BaseException]) -> str | None:
    from perhop.errors import PerhopError

    return str(excinfo.value) if isinstance(excinfo.value, (PerhopError, UnmetError)) else None


def _seeds(config: pytest.Config) -> int | None:
    given = config.getoption("--perhop-seeds") or config.getini("perhop_seeds")
    return int(given) if given else None
