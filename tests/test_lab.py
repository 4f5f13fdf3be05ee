"""Labs: real programs in emulated hosts, and changes while they run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import MEASURES, REAL_HOSTS
from perhop.errors import PerhopError, UnsupportedError, UsageError
from perhop.lab import Lab, records, up
from perhop.scenario import parse
from tools import need, unable

pytestmark = REAL_HOSTS

PERHOP = str(Path(sys.executable).with_name("perhop"))

SCENARIO = """
perhop: 1
name: office
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 4 ms, egress: {r: edge}}
policies:
  edge:
    classes:
      reserved:
        match: {port: 5011}
        bandwidth: 50%
        police: {rate: 2 Mbps, burst: 20 kB}
      rest: {match: any, bandwidth: 50%}
  strict:
    unused: true
    classes:
      rest: {match: any, bandwidth: 10%, limit: 4 Mbps}
flows:
  some: {from: a, to: b, udp: {rate: 1 Mbps}, port: 5011, stop: 1 s}
"""


@pytest.fixture
def lab(lab_folder: Path) -> Lab:
    assert lab_folder.is_dir()
    try:
        return up(parse(SCENARIO, "office.yaml"))
    except UnsupportedError as error:
        unable(error)


def output(lab: Lab, host: str, *command: str) -> str:
    """Return the output of a program that succeeds."""
    need(command[0])
    with lab.start(host, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said
    return said.decode()


def send(lab: Lab, port: int, packets: int) -> None:
    """Datagrams of 1000 bytes from a to b, at 8 Mb/s."""
    program = (
        "import socket, sys, time\n"
        "link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        f"for number in range({packets}):\n"
        f"    link.sendto(bytes(972), ('b', {port}))\n"
        "    time.sleep(0.001)\n"
    )
    output(lab, "a", sys.executable, "-c", program)


def counters(lab: Lab, name: str) -> dict[str, int]:
    found: dict[str, int] = lab.status()["links"]["r>b"]["classes"][name]
    return found


@MEASURES
def test_programs_run_in_hosts_and_know_each_other_by_name(lab: Lab) -> None:
    said = output(lab, "a", "ping", "-c", "5", "-i", "0.2", "b")
    times = [
        float(line.split("time=")[1].split()[0]) for line in said.splitlines() if "time=" in line
    ]
    assert len(times) == 5
    assert 10.0 <= min(times) < 12.0
    # By DNS alone, without /etc/hosts.
    address = lab.status()["hosts"]["b"]
    found = output(lab, "a", "getent", "-s", "dns", "ahostsv4", "b").split()
    assert found[:3] == [address, "STREAM", "b"]
    assert output(lab, "b", "getent", "-s", "dns", "hosts", address).split() == [address, "b"]
    assert Path("/etc/hosts").read_text("utf-8") != lab.record.names.read_text("utf-8")


@MEASURES
def test_a_foreign_client_gets_what_the_class_gets(lab: Lab) -> None:
    need("iperf3")
    with lab.start("b", ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL):
        deadline = time.monotonic() + 60
        while "5201" not in output(lab, "b", "ss", "-ltn") and time.monotonic() < deadline:
            time.sleep(0.05)
        said = output(lab, "a", "iperf3", "-c", "b", "-t", "3", "-J")
    received = json.loads(said)["end"]["sum_received"]["bits_per_second"]
    # 1448 bytes of 1500 and of what Ethernet adds; it takes a moment to get there.
    assert 16e6 < received < 20e6 * 1448 / 1500


@MEASURES
def test_policers_and_policies_change_under_traffic(lab: Lab) -> None:
    send(lab, 5011, 400)
    before = counters(lab, "reserved")
    assert before["conformed_packets"] + before["exceeded_packets"] == 400
    assert before["exceeded_packets"] > 100
    lab.change({"on": "r>b", "class": "reserved", "police": {"rate": "10 Mbps"}})
    send(lab, 5011, 400)
    after = counters(lab, "reserved")
    assert after["conformed_packets"] - before["conformed_packets"] == 400
    assert after["exceeded_packets"] == before["exceeded_packets"]

    lab.change({"clear": "counters"})
    assert counters(lab, "reserved")["conformed_packets"] == 0
    send(lab, 5011, 10)
    assert counters(lab, "reserved")["sent_packets"] == 10

    lab.policy("r>b", overrides=["classes.reserved.police.rate=1 Mbps"])
    lab.change({"clear": "counters"})
    send(lab, 5011, 400)
    assert counters(lab, "reserved")["exceeded_packets"] > 200
    lab.policy("r>b", "strict")
    status = lab.status()["links"]["r>b"]
    assert status["policy"] == "strict"
    assert list(status["classes"]) == ["rest"]
    lab.policy("r>b", "none")
    assert list(lab.status()["links"]["r>b"]["classes"]) == ["all"]


@MEASURES
def test_links_change_and_go_down(lab: Lab) -> None:
    lab.change({"on": "r>b", "delay": "20 ms"})
    said = output(lab, "a", "ping", "-c", "3", "-i", "0.2", "b")
    assert 42.0 <= float(said.rpartition("= ")[2].split("/")[0]) < 46.0
    lab.change({"on": "r>b", "state": "down"})
    with lab.start("a", ["ping", "-c", "2", "-i", "0.2", "-W", "1", "b"], stdout=-3) as process:
        assert process.wait(timeout=30) == 1
    lab.change({"on": "r>b", "state": "up"})
    output(lab, "a", "ping", "-c", "1", "b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "r>c", "rate": "1 Mbps"}, "^on: `r>c` is not a directed link"),
        ({"on": "r>b", "class": "rest", "police": {"rate": "1 Mbps"}}, "has no policer"),
        ({"on": "r>b", "policy": "edg"}, "did you mean `edge`"),
        ({"on": "r>b", "rate": "fast"}, "rate"),
        ({}, "changes nothing"),
        ({"at": "1 s", "clear": "counters"}, "without `at`"),
    ],
)
def test_wrong_changes_are_explained_and_change_nothing(
    lab: Lab, change: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        lab.change(change)
    assert lab.status()["links"]["r>b"]["policy"] == "edge"
    output(lab, "a", "ping", "-c", "1", "b")


def test_a_capture_has_the_packets(lab: Lab, tmp_path: Path) -> None:
    need("tshark")
    file = tmp_path / "r.pcapng"
    lab.capture(["r>b"], file, 0)
    output(lab, "a", "ping", "-c", "3", "-i", "0.2", "b")
    lab.down()
    said = subprocess.run(
        ["tshark", "-r", file, "-Y", "icmp", "-T", "fields", "-e", "icmp.type"],
        check=True,
        capture_output=True,
    )
    assert sorted(said.stdout.split()) == [b"0"] * 3 + [b"8"] * 3


def test_a_reader_gets_the_packets_of_all_links_of_a_node_while_they_pass(lab: Lab) -> None:
    need("tshark")
    seen = lab.open(["r>a", "r>b"], ["tshark", "-l", "-n", "-i", "-"], stdout=subprocess.PIPE)
    try:
        assert seen.stdout is not None
        output(lab, "a", "ping", "-c", "1", "b")
        # In and out of r on the way, and on the way back.
        lines = [seen.stdout.readline() for _ in range(4)]
        assert [b"Echo (ping) request" in line for line in lines] == [True, True, False, False]
        (capture,) = lab.status()["captures"]
        assert capture["links"] == ["r>a", "r>b"]
    finally:
        seen.terminate()  # its own child ends with it
        seen.communicate()
    with pytest.raises(PerhopError, match="cannot run `no-such-program`"):
        lab.open(["r>a"], ["no-such-program"])
    with pytest.raises(UsageError, match="did you mean"):
        lab.open(["r>aa"], ["cat"], stdout=subprocess.DEVNULL)
    # No packet is needed to notice that a reader is gone.
    deadline = time.monotonic() + 30
    while lab.status()["captures"][0]["ended"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert lab.status()["captures"][0]["reason"] == "Broken pipe"


def test_hostile_requests_are_answered(lab: Lab) -> None:
    import socket

    for request in (b"\n", b"[]\n", b"{\n", b'{"do": "change"}\n', b'{"do": ["x"]}\n', b"\xff\n"):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(lab.record.socket))
            link.sendall(request)
            assert "error" in json.loads(link.recv(65536))
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(lab.record.socket))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(64):
                link.sendall(bytes(65536))
    assert lab.status()["name"] == "office"


def test_down_ends_what_runs_in_it_and_leaves_nothing(lab: Lab) -> None:
    sleeper = lab.start("a", ["sleep", "1000"])
    while b"sleep" not in Path(f"/proc/{sleeper.pid}/cmdline").read_bytes().split(b"\0")[0]:
        assert sleeper.poll() is None
        time.sleep(0.01)
    process, log = lab.record.pid, lab.record.log
    assert lab.down() == ["sleep 1000"]
    assert sleeper.wait(timeout=10) == -signal.SIGTERM
    assert not Path(f"/proc/{process}/ns/net").exists()
    assert list(log.parent.iterdir()) == []
    assert records() == []


def test_one_that_was_killed_leaves_word_of_it_and_nothing_else(lab: Lab) -> None:
    before = network()
    os.kill(lab.record.pid, signal.SIGKILL)
    while lab.record.alive:
        time.sleep(0.01)
    with pytest.raises(UsageError, match=r"no lab is up; `office` ended at .*SIGKILL"):
        Lab.find()
    left = sorted(path.name for path in lab.record.socket.parent.iterdir())
    assert left == ["office.ended", "office.log"]
    assert network() == before
    up(parse(SCENARIO, "office.yaml")).down()
    assert list(lab.record.socket.parent.iterdir()) == []


def network() -> list[Path]:
    """The devices and named namespaces of this machine."""
    named = Path("/run/netns")
    return sorted([*Path("/sys/class/net").iterdir(), *(named.iterdir() if named.exists() else [])])


@MEASURES
@pytest.mark.usefixtures("lab")
def test_labs_live_side_by_side() -> None:
    with pytest.raises(UsageError, match="is up; end it"):
        up(parse(SCENARIO, "office.yaml"))
    other = up(parse(SCENARIO, "office.yaml"), "other")
    try:
        with pytest.raises(UsageError, match="several labs are up"):
            Lab.find()
        other.change({"on": "r>b", "delay": "30 ms"})
        for name, least, most in (("office", 10, 13), ("other", 62, 66)):
            said = output(Lab.find(name), "a", "ping", "-c", "2", "-i", "0.2", "b")
            assert least <= float(said.rpartition("= ")[2].split("/")[0]) < most
    finally:
        other.down()
    assert Lab.find().name == "office"


@pytest.mark.usefixtures("lab_folder")
def test_the_command_line(tmp_path: Path) -> None:
    need("ping")
    file = tmp_path / "office.yaml"
    file.write_text(SCENARIO, encoding="utf-8")

    def perhop(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PERHOP, "lab", *arguments], capture_output=True, text=True, timeout=60
        )

    done = perhop("up", str(file), "--set", "links.1.delay=9 ms")
    if done.returncode == 3:
        unable(done.stderr)
    try:
        assert done.stdout == "lab office is up; its hosts are a, b\n"
        assert perhop("exec", "a", "--", "ping", "-c", "1", "b").returncode == 0
        assert perhop("exec", "a", "sh", "-c", "exit 7").returncode == 7
        assert perhop("policy", "r>b", "--set", "classes.rest.limit=12 Mbps").returncode == 0
        change = perhop("change", "on=r>b", "class=reserved", "police.rate=1 Mbps")
        assert change.returncode == 0, change.stderr
        assert "reserved" in perhop("status").stdout
        status = json.loads(perhop("status", "--json").stdout)
        assert status["hosts"]["a"] != status["hosts"]["b"]
        for arguments, message in (
            (("exec", "c", "true"), "is not a host of the lab"),
            (("policy", "r>c", "edge"), "r>c"),
            (("status", "--lab", "offic"), "did you mean `office`"),
        ):
            wrong = perhop(*arguments)
            assert wrong.returncode == 2
            assert message in wrong.stderr
        opened = perhop("open", "r", "--with", "sh -c 'head -c 4 | od -An -tx1'")
        assert (opened.returncode, opened.stdout.split()) == (0, ["0a", "0d", "0d", "0a"])
        wrong = perhop("open", "q>b")
        assert "neither a directed link nor a node; did you mean `r>b`" in wrong.stderr
        missing = perhop("exec", "a", "no-such-program")
        assert (missing.returncode, "no-such-program" in missing.stderr) == (127, True)
        assert perhop("exec", "a", "/etc").returncode == 126
    finally:
        assert perhop("down").stdout.endswith("lab office is down\n")
    assert perhop("status").returncode == 2


def test_a_folder_of_others_is_refused(lab_folder: Path) -> None:
    (lab_folder / "perhop").mkdir(mode=0o777)
    (lab_folder / "perhop").chmod(0o777)
    with pytest.raises(PerhopError, match="open to others"):
        records()
