"""The document's session, end to end: a lab, the service, its command line, and real TCP."""

import sys
from pathlib import Path

import pytest

from conftest import REAL_TIME
from perhop.errors import UnsupportedError

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from validation.demo import chart, table  # noqa: E402
from validation.session import BEST_EFFORT, RESERVED, Session, story  # noqa: E402


@REAL_TIME
def test_what_was_reserved_is_what_is_sent_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    steps: list[str] = []
    session = Session(tmp_path, steps.append)
    try:
        with session.running():
            number, runs = story(session, 2, both=False)
            series = session.series(number)
    except UnsupportedError as error:
        pytest.skip(f"this machine cannot emulate: {error}")
    best_effort, at_10, at_1, small, over = runs
    assert (best_effort.port, over.port) == (BEST_EFFORT, RESERVED)
    # A policer lets through its burst and its rate and no more; a window more is under way.
    burst_before = {"10 Mb/s, 1 MB": 1e6, "1 Mb/s, 1 MB": 1e6, "1 Mb/s, 100 kB": 1e5}
    for run, rate in ((at_10, 10e6), (at_1, 1e6), (small, 1e6)):
        assert run.counters is not None
        assert run.counters["exceeded_packets"] > 0
        # To the byte, but for what the ends did not tell: duplicates of probes for lost tails.
        assert abs(run.difference) < 0.01, run
        most = burst_before[run.what] + rate / 8 * (run.seconds + 5)
        assert 0 < run.counters["conformed_bytes"] <= most
    # Neither the rate that was reserved nor the burst is in the way of others, or of afterwards.
    for run in (best_effort, over):
        assert 15e6 < run.rate < 50e6 * 1448 / 1500, run
    assert small.payload < at_10.payload
    assert {each.epoch for each in series} == {0, 1}
    assert series[-1].conformed_bytes >= small.counters["conformed_bytes"]  # type: ignore[index]
    assert any("--clear" in step for step in steps)

    lines = table(runs).splitlines()
    assert len(lines) == 2 + len(runs)
    assert chart(series)["data"]["values"]
