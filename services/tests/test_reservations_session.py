"""The document's session, end to end: a lab, the service, its command line, and real TCP."""

from pathlib import Path

from conftest import MEASURES
from demo.__main__ import chart, table
from demo.session import BEST_EFFORT, RESERVED, Session, story
from perhop.errors import UnsupportedError
from tools import unable


@MEASURES
def test_what_was_reserved_is_what_is_sent_and_counted(lab_folder: Path) -> None:
    steps: list[str] = []
    session = Session(lab_folder, steps.append)
    try:
        with session.running():
            number, runs = story(session, 1, both=False)
            series = session.series(number)
    except UnsupportedError as error:
        unable(error)
    best_effort, at_10, at_1, small, over = runs
    assert (best_effort.port, over.port) == (BEST_EFFORT, RESERVED)
    for run, rate, burst in ((at_10, 10e6, 1e6), (at_1, 1e6, 1e6), (small, 1e6, 1e5)):
        assert run.counters is not None
        # 20 streams keep a policer busy.
        assert run.counters["exceeded_packets"] > 0
        # To the byte, but for what the ends did not tell each other of.
        assert abs(run.difference) < 0.01, run
        # A policer lets through its burst and its rate, and no more; but the receiver's first look
        # may be late.
        assert run.in_time * 1500 / 1448 <= burst + rate / 8 * (run.seconds + 5), run
    assert at_10.rate > 4 * small.rate
    # Neither the rate that was reserved nor the burst is in the way of others, or of afterwards.
    for run in (best_effort, over):
        assert run.rate > 15e6, run
    assert {each.epoch for each in series} == {0, 1}
    assert series[-1].conformed_bytes >= small.counters["conformed_bytes"]  # type: ignore[index]
    assert any("--clear" in step for step in steps)

    lines = table(runs).splitlines()
    assert len(lines) == 2 + len(runs)
    assert chart(series)["data"]["values"]
