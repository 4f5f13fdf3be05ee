"""Sweeps: every combination once, the same result for any number of workers, and never twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import vl_convert

import perhop
from conftest import DEADLINES, SLOW, Outcome, Start
from perhop import rights
from perhop import sweep as module
from perhop.analysis import throughput
from perhop.dataset import Dataset
from perhop.errors import OutputError, ScenarioError, UnsupportedError, UsageError
from perhop.report.sweeps import chosen, sweep_chart, sweep_table
from perhop.scenario import to_mapping
from perhop.sweep import MOST_POINTS, Sweep, parse_vary

pytestmark = [DEADLINES, SLOW]

SCENARIO = """
perhop: 1
name: dumbbell
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 10 Mbps, loss: 0.1%}
flows:
  udp: {from: a, to: b, udp: {rate: 2 Mbps}, stop: 2 s}
  tcp: {from: a, to: b, stop: 2 s}
pings:
  probe: {from: a, to: b, every: 500 ms}
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "dumbbell.yaml"
    path.write_text(SCENARIO)
    return str(path)


def two_by_two(source: str, folder: Path) -> Sweep:
    vary = {"links.1.rate": ["10 Mbps", "20 Mbps"], "flows.udp.udp.rate": ["1 Mbps", "3 Mbps"]}
    return Sweep(source, vary, folder, seeds=[1, 2])


@pytest.mark.parametrize(("engine", "jobs"), [("sim", None), ("emu", 1), ("kernel", 1)])
def test_runs_with_real_hosts_are_made_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, source: str, tmp_path: Path, engine: str, jobs: int | None
) -> None:
    class AskedError(Exception):
        pass

    def asked(many: int | None, *_: object) -> None:
        raise AskedError(many)

    monkeypatch.setattr(module, "pool_of", asked)
    sweep = replace(two_by_two(source, tmp_path / "s"), engine=engine)
    for given, expected in ((None, jobs), (3, 3)):
        with pytest.raises(AskedError) as found:
            sweep.run(jobs=given)
        assert found.value.args == (expected,)


def test_a_sweep_over_real_hosts_asks_for_namespaces(
    monkeypatch: pytest.MonkeyPatch, perhop: Callable[..., Outcome], source: str
) -> None:
    def enable() -> None:
        raise UnsupportedError("no namespaces here")

    monkeypatch.setattr(rights, "enable", enable)
    given = ("sweep", source, "--vary", "links.1.rate=5 Mbps,10 Mbps", "--engine", "kernel")
    code, _, err = perhop(*given)
    assert code == 3
    assert "no namespaces here" in err


def test_points_are_every_combination_in_order(source: str, tmp_path: Path) -> None:
    points = two_by_two(source, tmp_path / "s").points
    assert [point.number for point in points] == list(range(8))
    assert [(*point.values.values(), point.seed) for point in points] == [
        (rate, load, seed)
        for rate in ("10 Mbps", "20 Mbps")
        for load in ("1 Mbps", "3 Mbps")
        for seed in (1, 2)
    ]
    assert points[4].scenario.links[1].rate == 20_000_000


def test_the_result_does_not_depend_on_how_many_work(source: str, tmp_path: Path) -> None:
    alone = two_by_two(source, tmp_path / "alone").run(jobs=1)
    together = two_by_two(source, tmp_path / "together").run(jobs=3)
    assert alone.equals(together)
    for number in range(8):
        one, other = (tmp_path / who / "points" / str(number) for who in ("alone", "together"))
        for table in ("intervals", "queues", "rtts"):
            assert (one / f"{table}.parquet").read_bytes() == (
                other / f"{table}.parquet"
            ).read_bytes()


def test_each_point_is_the_run_that_perhop_run_gives(source: str, tmp_path: Path) -> None:
    table = two_by_two(source, tmp_path / "s").run(jobs=1)
    point = two_by_two(source, tmp_path / "s").points[7]
    alone = perhop.run(point.scenario, seed=2)
    kept = Dataset.read(tmp_path / "s" / "points" / "7")
    assert kept.intervals.equals(alone.intervals)
    told = chosen(table.filter(pl.col("seed") == 2), "throughput", "udp")["mean"].to_list()
    assert told[3] == throughput(alone, "udp", (0.0, 2.0))


def test_what_is_there_is_not_run_again(source: str, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    first = two_by_two(source, folder).run(jobs=1)
    stamps = {n: (folder / "points" / str(n)).stat().st_ino for n in range(8)}
    # One point was lost, one was cut off half-way, one is damaged.
    (folder / "points" / "1").rename(tmp_path / "elsewhere")
    cut = Dataset.read(folder / "points" / "2")
    halved = cut.manifest.model_copy(update={"complete": False})
    replace(cut, manifest=halved).write(folder / "points" / "2")
    (folder / "points" / "3" / "rtts.parquet").write_bytes(b"")
    calls: list[tuple[int, int]] = []
    again = two_by_two(source, folder).run(jobs=1, watch=lambda *at: calls.append(at))
    assert again.equals(first)
    assert calls == [(5, 8), (6, 8), (7, 8), (8, 8)]
    same = [n for n in range(8) if (folder / "points" / str(n)).stat().st_ino == stamps[n]]
    assert set(same) >= {0, 4, 5, 6, 7}


def test_results_of_another_version_are_shown_and_made_again(source: str, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    sweep = two_by_two(source, folder)
    first = sweep.run(jobs=1)

    def change(number: int, **facts: object) -> None:
        dataset = Dataset.read(folder / "points" / str(number))
        manifest = dataset.manifest.model_copy(update=facts)
        replace(dataset, manifest=manifest).write(folder / "points" / str(number))

    change(0, perhop="0.0.1")
    change(1, perhop="0.0.1")
    change(2, seed=7)  # of another run, as copied by hand
    with pytest.warns(UserWarning, match=r"runs of perhop 0\.0\.1 in .*s: 2$"):
        table = sweep.table()
    assert table.equals(first.filter(pl.col("point") != 2))
    calls: list[tuple[int, int]] = []
    with pytest.warns(UserWarning, match=r"runs of perhop 0\.0\.1 in .*s are made again: 2$"):
        assert sweep.run(jobs=1, watch=lambda *at: calls.append(at)).equals(first)
    assert calls == [(5, 8), (6, 8), (7, 8), (8, 8)]
    versions = {Dataset.read(each).manifest.perhop for each in folder.glob("points/*")}
    assert versions == {perhop.__version__}


def test_a_folder_of_something_else_is_left_alone(source: str, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    two_by_two(source, folder).run(jobs=1)
    other = Sweep(source, {"links.1.rate": ["10 Mbps"]}, folder)
    with pytest.raises(OutputError, match="holds another sweep"):
        other.run()
    with pytest.raises(OutputError, match="is not empty"):
        Sweep(source, {"links.1.rate": ["10 Mbps"]}, tmp_path).run()


def test_a_wrong_point_is_told_before_anything_runs(source: str, tmp_path: Path) -> None:
    sweep = Sweep(source, {"links.1.rate": ["10 Mbps", "0 Mbps"]}, tmp_path / "s")
    with pytest.raises(ScenarioError, match=r"links\.1\.rate"):
        sweep.run()
    assert not (tmp_path / "s").exists()
    vary = {"links.1.loss": ["1%", "2%", "nothing"], "flows.tcp.streams": ["1", "0", "2", "3"]}
    with pytest.raises(ScenarioError) as caught:
        Sweep(source, vary, tmp_path / "s").run()
    assert [str(problem).split("(with ")[1] for problem in caught.value.problems] == [
        "links.1.loss=1%, flows.tcp.streams=0 and 2 more combinations)",
        "links.1.loss=nothing, flows.tcp.streams=1 and 3 more combinations)",
    ]
    many = [f"{n} Mbps" for n in range(1, MOST_POINTS + 2)]
    with pytest.raises(UsageError, match=r"100,001 points"):
        _ = Sweep(source, {"links.1.rate": many}, tmp_path / "s").points


def test_a_text_in_place_of_a_list_of_values_is_refused(source: str, tmp_path: Path) -> None:
    """Its characters were the values: `"12"` ran with 1 and with 2."""
    with pytest.raises(UsageError, match=r"flows\.tcp\.streams: `12` is one value"):
        Sweep(source, {"flows.tcp.streams": "12"}, tmp_path)


def test_values_are_separated_by_commas_outside_brackets() -> None:
    assert parse_vary("links.1.rate=5 Mbps, 10 Mbps") == ("links.1.rate", ["5 Mbps", "10 Mbps"])
    assert parse_vary("a={b: 1, c: [2, 3]},{b: 4}") == ("a", ["{b: 1, c: [2, 3]}", "{b: 4}"])
    for wrong in ("links.1.rate", "=1", "a=", "a=1,", "a=1,1"):
        with pytest.raises(UsageError, match="--vary"):
            parse_vary(wrong)


def table_of(paths: int) -> pl.DataFrame:
    """Made-up results of a sweep over some paths with two values each, and two seeds."""
    rows = []
    for point in range(2**paths):
        values = {f"p{n}": "low" if point >> n & 1 else "high" for n in range(paths)}
        for seed in (1, 2):
            place = {"point": 2 * point + seed - 1, **values, "seed": seed}
            measured = {"target": "total", "metric": "throughput", "value": 1e6 * (point + seed)}
            rows.append({**place, **measured})
    return pl.DataFrame(rows)


def test_tables_show_means_over_the_seeds() -> None:
    grid = sweep_table(table_of(2), "throughput", "total")
    assert [column.name for column in grid.columns] == ["p0 \\ p1", "high", "low"]
    assert grid.rows == (
        ("high", "1.50 Mb/s", "3.50 Mb/s"),
        ("low", "2.50 Mb/s", "4.50 Mb/s"),
    )
    listed = sweep_table(table_of(1), "throughput", "total")
    assert listed.rows[0] == ("high", "1.50 Mb/s", "1.00 Mb/s", "2.00 Mb/s")
    with pytest.raises(ValueError, match="no loss of total; it has throughput=total"):
        sweep_table(table_of(1), "loss", "total")


@pytest.mark.parametrize("paths", [1, 2, 3])
def test_charts_can_be_drawn(paths: int) -> None:
    drawn = vl_convert.vegalite_to_svg(
        sweep_chart(table_of(paths), "throughput", "total"), vl_version="6.1"
    )
    assert "throughput of total (Mb/s)" in drawn
    assert "1.50 Mb/s" in drawn or paths == 1


def test_the_command_prints_writes_and_goes_on(
    perhop: Callable[..., tuple[int, str, str]], source: str, place: Path
) -> None:
    varied = ("sweep", source, "--vary", "links.1.rate=10 Mbps,20 Mbps")
    arguments = (*varied, "--show", "throughput=total", "--show", "loss=udp")
    code, out, err = perhop(*arguments)
    assert code == 0, err
    assert out.index("throughput of total") < out.index("loss of udp")
    folder = place / "runs" / "dumbbell-sweep"
    names = {"points", *(f"sweep.{kind}" for kind in ("csv", "html", "json", "parquet"))}
    names |= {"sweep.png", "sweep.svg"}
    assert {path.name for path in folder.iterdir()} == names
    assert pl.read_csv(folder / "sweep.csv").height == pl.read_parquet(folder / "*.parquet").height
    assert "throughput of total" in (folder / "sweep.svg").read_text()
    assert perhop(*arguments)[1] == out
    code, _, err = perhop(*arguments[:-1], "loss=nobody")
    assert code == 2
    assert "`nobody` is not a flow or a ping of this scenario; expected one of total" in err


def test_what_is_shown_is_checked_before_anything_runs(
    perhop: Callable[..., tuple[int, str, str]], source: str, place: Path
) -> None:
    for show, said in (
        ("loss=udq", "`udq` is not a flow or a ping of this scenario; did you mean `udp`?"),
        ("throughput", "--show throughput: expected METRIC=TARGET"),
        ("los=udp", "`los` is not measured of udp; did you mean `loss`?"),
        ("throughput=probe", "`throughput` is not measured of probe; expected one of loss, rtt_"),
    ):
        code, _, err = perhop("sweep", source, "--vary", "links.1.rate=1 Mbps", "--show", show)
        assert (code, said in err) == (2, True), err
    assert not (place / "runs").exists()


def test_every_metric_of_the_table_can_be_shown(source: str, tmp_path: Path) -> None:
    sweep = Sweep(source, {"links.1.rate": ["10 Mbps"]}, tmp_path / "s")
    for metric, target in sweep.run(jobs=1).select("metric", "target").unique().iter_rows():
        sweep.check_metric(metric, target)


def test_a_sweep_of_other_values_finds_a_folder(
    perhop: Callable[..., tuple[int, str, str]], source: str, place: Path
) -> None:
    for rates, folder in (("10 Mbps", ""), ("20 Mbps", "-2"), ("10 Mbps", ""), ("20 Mbps", "-2")):
        code, out, err = perhop("sweep", source, "--vary", f"links.1.rate={rates}")
        assert code == 0, err
        said = f"holds another sweep; this one is in runs/dumbbell-sweep{folder}"
        assert (said in err) == bool(folder)
        assert f"results: runs/dumbbell-sweep{folder}\n" in out
    assert len(list((place / "runs").iterdir())) == 2


def test_quantities_have_a_column_of_numbers(source: str, tmp_path: Path) -> None:
    vary = {"links.1.rate": ["10 Mbps", "0.5 Gbps"], "flows.tcp.streams": ["1", "2"]}
    table = Sweep(source, vary, tmp_path / "s").run(jobs=1)
    columns = ["links.1.rate", "flows.tcp.streams", "links.1.rate bps", "flows.tcp.streams number"]
    assert table.select(columns).unique(maintain_order=True).rows() == [
        ("10 Mbps", "1", 1e7, 1.0),
        ("10 Mbps", "2", 1e7, 2.0),
        ("0.5 Gbps", "1", 5e8, 1.0),
        ("0.5 Gbps", "2", 5e8, 2.0),
    ]
    assert len(sweep_table(table, "throughput", "total").rows) == 2
    queues = Sweep(source, {"links.1.queue": ["{limit: 5 packets}"]}, tmp_path / "q").run(jobs=1)
    assert queues.columns[-1] == "value"
    limits = Sweep(source, {"links.1.queue.limit": ["5 packets", "10 packets"]}, tmp_path / "l")
    assert limits.run(jobs=1)["links.1.queue.limit packets"].unique().to_list() == [5, 10]


def test_seeds_that_change_nothing_are_told() -> None:
    alike = table_of(1).with_columns(value=pl.lit(1e6))
    said = "Every seed gave the same"
    assert said in sweep_table(alike, "throughput", "total").note
    assert said not in sweep_table(table_of(1), "throughput", "total").note


@pytest.mark.parametrize("after_s", [0.0, 0.3, 1.0])
def test_ctrl_c_as_processes_start_prints_no_traceback(
    start: Start, source: str, place: Path, after_s: float
) -> None:
    rates = ",".join(f"{n} Mbps" for n in range(10, 200))
    varied = ("--vary", f"links.1.rate={rates}", "--out", "s")
    process = start("sweep", source, *varied, start_new_session=True)
    while not (place / "s" / "sweep.json").exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to the workers, too
    _, err = process.communicate(timeout=60)
    said = "perhop: finished runs are in s; the same command continues the sweep\n"
    assert (process.returncode, err) == (130, said)


def test_a_process_that_is_killed_leaves_finished_points(
    start: Start, source: str, place: Path
) -> None:
    rates = ",".join(f"{n} Mbps" for n in range(10, 200))
    process = start("sweep", source, "--vary", f"links.1.rate={rates}", "--out", "s")
    while not [*place.glob("s/points/*/manifest.json")]:
        assert process.poll() is None
        time.sleep(0.01)
    made = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(made[-1]), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 69
    kept, reason = err.splitlines()[-2:]
    assert kept == "perhop: finished runs are in s; the same command continues the sweep"
    assert reason.startswith("perhop: a process that made runs was killed, as by a lack of memory")


def test_processes_end_with_a_command_that_is_killed(start: Start, place: Path) -> None:
    (place / "long.yaml").write_text(SCENARIO.replace("stop: 2 s", "stop: 100 h"))
    process = start("sweep", "long.yaml", "--vary", "links.1.rate=10 Mbps,20 Mbps", "--out", "s")
    while not [*place.glob("s/points/?/manifest.json")]:  # saved every five seconds
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=10)  # which waits for all that have its standard output


def test_a_second_ctrl_c_ends_the_points_under_way(start: Start, place: Path) -> None:
    (place / "long.yaml").write_text(SCENARIO.replace("stop: 2 s", "stop: 100 h"))
    rates = "10 Mbps,20 Mbps,30 Mbps,40 Mbps"
    varied = ("--vary", f"links.1.rate={rates}", "--out", "s", "--jobs", "1")
    process = start("sweep", "long.yaml", *varied)
    first = place / "s" / "points" / "0" / "manifest.json"
    while not first.exists():  # it is saved every five seconds
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "the same command continues" in err) == (130, True)
    kept = Dataset.read(first.parent)
    assert not kept.manifest.complete
    assert kept.covered_s > 0


def test_ctrl_c_keeps_what_is_finished(start: Start, source: str, place: Path) -> None:
    rates = ",".join(f"{n} Mbps" for n in range(10, 200))
    process = start("sweep", source, "--vary", f"links.1.rate={rates}", "--out", "s")
    folder = place / "s" / "points"

    def finished() -> list[Path]:
        return [path for path in folder.glob("*") if not path.name.startswith(".")]

    while not finished():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert 0 < len(finished()) < 190
    assert all(Dataset.read(path).manifest.complete for path in finished())


def test_a_chart_of_many_points_is_no_larger_than_can_be_seen() -> None:
    points = [
        {"point": point, "a": f"{point % 40}", "b": f"{point // 40 % 2}", "c": f"{point // 80}"}
        for point in range(40 * 2 * 20)
    ]
    measured = {"seed": 1, "target": "total", "metric": "throughput", "value": 1e6}
    table = pl.DataFrame([{**point, **measured} for point in points])
    spec = sweep_chart(table, "throughput", "total")
    assert len(spec["data"]["values"]) == 12 * 80
    assert "12 of 20 combinations" in spec["title"]["text"]
    two = sweep_chart(table.filter(pl.col("c") == "0").drop("c"), "throughput", "total")
    assert two["height"] <= 30 * 42
    assert len(two["layer"]) == 1
    assert "<svg" in vl_convert.vegalite_to_svg(two, vl_version="6.4")


@SLOW
@pytest.mark.parametrize("kind", [str, Path, perhop.load, lambda path: path.read_text()])
def test_a_sweep_takes_what_load_takes_and_text_for_its_folder(
    kind: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    varied: dict[str, list[str | float]] = {"flows.tcp.streams": [1, "2"]}
    overrides = {"links.1.rate": "5 Mbps"}
    sweep = Sweep(kind(path), varied, str(tmp_path / "out"), overrides=overrides)
    table = sweep.run()
    total = table.filter(target="total", metric="throughput")
    assert total["flows.tcp.streams"].to_list() == ["1", "2"]
    assert total["value"].max() < 5e6
    assert (
        Sweep(to_mapping(sweep.points[0].scenario), {}, "x").points[0].scenario.name == "dumbbell"
    )
    assert sweep.table().equals(table)


GUARDLESS = """\
import sys
from perhop import Sweep, ensembles, load, workers

def double(number):
    return 2 * number

source = sys.argv[1]
print(ensembles.run(load(source), 6).runs)
print(Sweep(source, {"flows.tcp.streams": [1, 2]}, sys.argv[2]).run(jobs=2).height)
"""


def test_a_program_without_a_guard_makes_runs_in_processes(tmp_path: Path, source: str) -> None:
    """Processes do not import its main module, which would make all runs again."""
    program = tmp_path / "program.py"
    program.write_text(GUARDLESS)
    call = [sys.executable, program, source, tmp_path / "out"]
    made = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.splitlines()[0] == "6" and int(made.stdout.splitlines()[1]) > 2

    program.write_text(GUARDLESS + "print(*workers.Processes(2).call(double, [(4,), (5,)]))")
    made = subprocess.run(call, capture_output=True, text=True, check=False)
    assert 'must make runs below `if __name__ == "__main__":`' in made.stderr.splitlines()[-1]

    guarded = 'if __name__ == "__main__":\n    print(*workers.Processes(1).call(double, [(4,)]))'
    program.write_text(GUARDLESS + guarded)
    made = subprocess.run(call, capture_output=True, text=True, check=True)
    assert made.stdout.splitlines()[-1] == "(0, 8)"
