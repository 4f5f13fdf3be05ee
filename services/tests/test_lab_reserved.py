"""Reservations in a lab: packets that go before all others, while traffic runs."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import REAL_HOSTS
from perhop.cli import main
from perhop.errors import UnsupportedError, UsageError
from perhop.lab import Lab, up
from perhop.scenario import parse
from perhop_services.reservations.drivers import (
    DriverError,
    PolicerCounters,
    RefusedError,
    Rule,
    driver,
)
from perhop_services.reservations.drivers.lab import LabDriver
from perhop_services.reservations.enforcement import Enforcer
from perhop_services.reservations.model import Reservation, Selector, State, Wishes
from perhop_services.reservations.service import ReservationService
from reserving import MBPS, service, user
from reserving import terms as terms_of
from tools import unable

pytestmark = [pytest.mark.usefixtures("lab_folder"), REAL_HOSTS]

SCENARIO = """
perhop: 1
name: row
nodes: {a: host, r1: router, r2: router, r3: router, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps, reservable: 100%}
  - {ends: [r1, r2], rate: 20 Mbps, delay: 1 ms, reservable: 50%, egress: {r1: edge}}
  - {ends: [r2, b], rate: 1 Gbps, reservable: 100%}
  - {ends: [r1, r3], rate: 100 Mbps, reservable: 50%}
  - {ends: [r3, r2], rate: 100 Mbps, reservable: 50%}
policies:
  edge:
    classes:
      assured: {match: {dscp: af11}, bandwidth: 40%, police: {rate: 2 Mbps, burst: 3 kB}}
      rest: {match: any, queue: {limit: 100 packets}}
  alone:
    unused: true
    scheduler: altq-cbq
    classes:
      rest: {match: any, bandwidth: 90%}
"""
THERE = ["r1>r2", "r2>b"]
TO_5011 = {"source": "a", "destination": "b", "protocol": "udp", "destination_port": 5011}

# Datagrams of 1000 bytes, and how many came, in order.
_SEND = """
import socket, sys, time
port, count, dscp = map(int, sys.argv[1:])
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
for number in range(count):
    link.sendto(number.to_bytes(4) + bytes(968), ("b", port))
    time.sleep(0.001)
link.sendto(b"end", ("b", port))
"""
_RECEIVE = """
import json, socket, sys
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.bind(("", int(sys.argv[1])))
link.settimeout(60)
print("ready", flush=True)
got = []
while (data := link.recv(2000)) != b"end":
    got.append(int.from_bytes(data[:4]))
print(json.dumps(got))
"""


@contextmanager
def lab_up(name: str = "row") -> Iterator[Lab]:
    try:
        found = up(parse(SCENARIO), name)
    except UnsupportedError as error:
        unable(error)
    try:
        yield found
    finally:
        found.down()


@pytest.fixture
def lab(lab_folder: Path) -> Iterator[Lab]:
    assert lab_folder.is_dir()
    with lab_up() as found:
        yield found


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


def send(lab: Lab, port: int, count: int, dscp: int = 0) -> None:
    """Datagrams from a to b, at 8 Mb/s or less; the last one is a little one."""
    program = [sys.executable, "-c", _SEND, str(port), str(count), str(dscp)]
    assert lab.start("a", program).wait(60) == 0


def counted(lab: Lab, name: str, packets: int) -> dict[str, int]:
    """Return the counters of a reservation's policer once it has had this many packets."""

    def read() -> dict[str, int] | None:
        found: dict[str, int] = lab.reserved()[name]["counters"]
        come = found["conformed_packets"] + found["exceeded_packets"]
        assert come <= packets
        return found if come == packets else None

    counters: dict[str, int] = until(read)
    return counters


def classes(lab: Lab) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = lab.status()["links"]["r1>r2"]["classes"]
    return {
        name: {key: value for key, value in counters.items() if key != "rate_bps"}
        for name, counters in found.items()
    }


def test_a_reservation_is_policed_and_changes_in_place(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.reserve("one", THERE, TO_5011, 1 * MBPS, 20_000)
    send(lab, 5011, 200)
    send(lab, 5010, 50)
    before = counted(lab, "one", 201)
    # At least the burst, and never more than it and the rate allow in the minute that is waited.
    assert before["conformed_packets"] >= 20 and before["exceeded_packets"] > 0
    assert before["conformed_bytes"] <= 20_000 + 60 * 1 * MBPS // 8
    assert before["exceeded_bytes"] + before["conformed_bytes"] == 200 * 1000 + 31
    assert until(lambda: classes(lab)["rest"]["sent_packets"] == 51)

    lab.reserve("one", THERE, TO_5011, 10 * MBPS, 20_000)
    assert counted(lab, "one", 201)["conformed_packets"] == before["conformed_packets"]
    send(lab, 5011, 200)
    after = counted(lab, "one", 402)
    # 8 Mb/s are less than 10: all of them conform.
    assert after["conformed_packets"] == before["conformed_packets"] + 201
    found = lab.reserved()["one"]
    assert (found["rate"], found["burst"], found["links"]) == (10 * MBPS, 20_000, THERE)

    lab.clear("one")
    assert counted(lab, "one", 0)["sent_bytes"] == 0
    reserved = lab.status()["links"]
    assert list(reserved["r1>r2"]["reserved"]) == ["one"]
    assert reserved["r2>b"]["reserved"]["one"]["sent_packets"] == after["sent_packets"]
    with pytest.raises(SystemExit, match="0"):
        main(["lab", "status"])
    assert "one (reserved)" in capsys.readouterr().out
    lab.release("one")
    lab.release("one")
    assert lab.reserved() == {}
    assert "reserved" not in lab.status()["links"]["r1>r2"]


def test_others_lose_nothing_while_reservations_come_change_and_go(lab: Lab) -> None:
    program = [sys.executable, "-c", _RECEIVE, "5010"]
    with lab.start("b", program, stdout=-1) as receiver:
        assert receiver.stdout is not None and receiver.stdout.readline() == b"ready\n"
        sending = [sys.executable, "-c", _SEND, "5010", "2000", "0"]
        with lab.start("a", sending) as sender:
            changes = 0
            while sender.poll() is None:
                lab.reserve("one", THERE, TO_5011, (1 + changes % 8) * MBPS, 10_000)
                lab.reserve(
                    "two",
                    THERE[changes % 2 :],
                    {"source": "a", "destination": "b", "protocol": "tcp"},
                    1 * MBPS,
                    10_000,
                )
                if changes % 3 == 2:
                    lab.release("one")
                    lab.release("two")
                changes += 1
        got = json.loads(receiver.communicate(timeout=60)[0])
    assert got == list(range(2000))
    assert changes > 10
    assert until(lambda: classes(lab)["rest"]["sent_packets"] == 2001)
    assert classes(lab)["rest"]["dropped_packets"] == 0


def test_the_policy_of_the_link_goes_on(lab: Lab) -> None:
    send(lab, 5010, 100, dscp=10)
    until(
        lambda: (
            sum(classes(lab)["assured"][f"{what}_packets"] for what in ("conformed", "exceeded"))
            == 101
        )
    )
    before = classes(lab)
    assert before["assured"]["exceeded_packets"] > 0
    lab.reserve("one", THERE, TO_5011, 1 * MBPS, 20_000)
    lab.reserve("two", THERE, {**TO_5011, "destination_port": "6000-6010"}, 2 * MBPS, 20_000)
    assert classes(lab) == before
    send(lab, 5011, 10)
    send(lab, 6001, 20)
    assert counted(lab, "one", 11)["exceeded_packets"] == 0
    assert counted(lab, "two", 21)["exceeded_packets"] == 0
    assert classes(lab) == before
    # A change of the policer, and of the whole policy, leaves reservations where they are.
    lab.change({"on": "r1>r2", "class": "assured", "police": {"rate": "9 Mbps", "burst": "90 kB"}})
    send(lab, 5010, 50, dscp=10)
    until(lambda: classes(lab)["assured"]["sent_packets"] == before["assured"]["sent_packets"] + 51)
    lab.policy("r1>r2", "none")
    assert list(classes(lab)) == ["all"]
    assert counted(lab, "one", 11) and counted(lab, "two", 21)
    lab.policy("r1>r2", "edge")
    lab.release("one")
    send(lab, 6001, 1)
    assert counted(lab, "two", 23)
    with pytest.raises(UsageError, match="cannot have reservations beside `alone`"):
        lab.policy("r1>r2", "alone")
    lab.release("two")
    lab.policy("r1>r2", "alone")
    with pytest.raises(UsageError, match="cannot have reservations beside `alone`"):
        lab.reserve("one", THERE, TO_5011, 1 * MBPS, 20_000)


def test_reserved_packets_go_first(lab: Lab) -> None:
    lab.policy("r1>r2", "none")
    lab.change({"on": "r1>r2", "rate": "2 Mbps"})
    lab.reserve("one", THERE, TO_5011, 1 * MBPS, 20_000)
    flood = [sys.executable, "-c", _SEND, "5010", "100000", "0"]
    with lab.start("a", flood) as flooding:
        until(lambda: classes(lab)["all"]["dropped_packets"] > 0)
        program = [sys.executable, "-c", _RECEIVE, "5011"]
        with lab.start("b", program, stdout=-1) as receiver:
            assert receiver.stdout is not None and receiver.stdout.readline() == b"ready\n"
            send(lab, 5011, 19)
            got = json.loads(receiver.communicate(timeout=60)[0])
        flooding.kill()
    assert got == list(range(19))


def test_what_cannot_be_is_refused(lab: Lab) -> None:
    cases: list[tuple[list[str], dict[str, Any], str]] = [
        (["r1>r9"], {}, "`r1>r9` is not a link of the lab; did you mean"),
        (["r1>r3", "r3>r2", "r2>b"], {}, "do not all go by r1>r3: a lab sends them by a>r1, r1>r2"),
        ([], {}, "needs `links`"),
        (["r2>b", "r2>b"], {}, "each once"),
        (THERE, {"rate": 0}, "rate is a whole number above zero"),
        (THERE, {"burst": True}, "burst is a whole number"),
        (THERE, {"match": {"source": "192.0.2.1", "destination": "b"}}, "no node .* the source"),
        (THERE, {"match": {"source": "a"}}, "needs a destination"),
        (THERE, {"match": {"source": "a", "destination": "d"}}, "`d` is not a node of the lab"),
        (THERE, {"match": {**TO_5011, "dscp": "zf"}}, "match.dscp"),
        (THERE, {"match": {"sourc": "a"}}, "match.sourc"),
        (THERE, {"name": ""}, "name has 1 to 64"),
    ]
    for links, change, message in cases:
        given: dict[str, Any] = {"name": "x", "match": TO_5011, "rate": 1, "burst": 1, **change}
        with pytest.raises(UsageError, match=message):
            lab.reserve(links=links, **given)
    assert lab.reserved() == {}


# The driver


def rule(name: str = "perhop_1", **others: Any) -> Rule:
    given: dict[str, Any] = {
        "source": "10.0.0.1",
        "destination": "10.0.0.5",
        "selector": Selector("udp", None, (5011, 5011)),
        "rate": 1 * MBPS,
        "burst": 20_000,
        "links": ("r1>r2", "r2>b"),
    }
    return Rule(name, **given | others)


def test_what_is_installed_is_what_was_asked(lab: Lab) -> None:
    enforcing = driver(f"lab:{lab.name}")
    for selector in (
        Selector(),
        Selector("udp", (1000, 2000), (5011, 5011), 46),
        Selector("icmp", dscp=0),
        Selector(None, (7, 7), None),
    ):
        wanted = rule(selector=selector)
        enforcing.set(wanted)
        assert enforcing.installed() == {"perhop_1": enforcing.expected(wanted)}
        back = rule(
            "perhop_1_back",
            source=wanted.destination,
            destination=wanted.source,
            selector=selector.reversed(),
            links=("r2>r1", "r1>a"),
        )
        enforcing.set(back)
        # What others reserve is none of ours.
        lab.reserve("mine", THERE, {**TO_5011, "destination_port": 9}, 1, 1)
        for changed in (
            rule(selector=selector, rate=5 * MBPS),
            rule(selector=selector, burst=1),
            rule(selector=Selector("tcp", None, (80, 90))),
            rule(selector=selector, links=("r1>r2",)),
        ):
            assert enforcing.expected(changed) != enforcing.installed()["perhop_1"]
            enforcing.set(changed)
            assert enforcing.installed() == {
                "perhop_1": enforcing.expected(changed),
                "perhop_1_back": enforcing.expected(back),
            }
        enforcing.remove("perhop_1")
        enforcing.remove("perhop_7")
        assert list(enforcing.installed()) == ["perhop_1_back"]
        assert enforcing.counters() == {"perhop_1_back": PolicerCounters()}
        assert list(lab.reserved()) == ["perhop_1_back", "mine"]
        lab.release("mine")
        enforcing.remove("perhop_1_back")


@pytest.mark.usefixtures("lab")
def test_a_driver_without_a_lab_says_so() -> None:
    assert isinstance(driver("lab"), LabDriver)
    enforcing = driver("lab:other")
    for ask in (enforcing.installed, enforcing.counters, lambda: enforcing.set(rule())):
        with pytest.raises(DriverError, match="no lab `other` is up; there are row"):
            ask()
    enforcing.remove("perhop_1")  # it is not there
    with pytest.raises(RefusedError, match="none on the way"):
        driver("lab").set(rule(links=()))
    with pytest.raises(RefusedError, match="no reservation 'perhop_1'"):
        driver("lab").clear("perhop_1")
    asked = json.loads(enforcing.configuration(rule()))
    assert asked["do"] == "reserve" and asked["match"]["destination_port"] == "5011"


# The service


@contextmanager
def enforced(folder: Path) -> Iterator[tuple[ReservationService, Enforcer]]:
    with service(folder / "b.db", time.time, SCENARIO) as running:  # type: ignore[arg-type]
        enforcer = Enforcer(running, {"*": LabDriver("row")}, beat=0.05, every=0.2, persistence=1)
        try:
            yield running, enforcer
        finally:
            enforcer.close()


def book(running: ReservationService, **asked: Any) -> Reservation:
    given = {"source": "a", "destination": "b", "start": int(time.time()), "rate": 2 * MBPS}
    selector = Selector("udp", None, (5011, 5011))
    terms = terms_of(**given | {"selector": selector} | asked)
    return running.book(user(running), terms).result()


def actions(running: ReservationService, id_: int) -> list[str]:
    return [entry.action for entry in running.register.log(id_)]


def is_well(running: ReservationService, id_: int) -> bool:
    found = running.register.reservation(id_)
    return found.state is State.ACTIVE and not found.trouble


def test_a_lab_that_dies_is_noticed_and_one_that_comes_back_gets_its_rules(tmp_path: Path) -> None:
    with enforced(tmp_path) as (running, _):
        with lab_up() as lab:
            one = book(running, direction="both")
            two = book(running, selector=Selector("udp", None, (6011, 6011)))
            until(lambda: all(is_well(running, each.id) for each in (one, two)))
            names = {f"perhop_{one.id}", f"perhop_{one.id}_back", f"perhop_{two.id}"}
            assert set(lab.reserved()) == names
            send(lab, 5011, 50)
            until(
                lambda: (running.register.series(one.id) or [{"conformed_packets": 0}])[-1][
                    "conformed_packets"
                ]
            )
            os.kill(lab.record.pid, signal.SIGKILL)
            for each in (one, two):
                said = until(lambda each=each: running.register.reservation(each.id).trouble)
                assert "lab" in said
                assert running.register.reservation(each.id).state is State.ACTIVE
        with lab_up() as lab:
            until(lambda: all(is_well(running, each.id) for each in (one, two)))
            until(lambda: set(lab.reserved()) == names)
            for each in (one, two):
                until(lambda each=each: "repair" in actions(running, each.id))
            # PolicerCounters begin at nothing, which is no lie: the series has another epoch.
            until(lambda: running.register.series(one.id)[-1]["epoch"] >= 1)
            until(lambda: is_well(running, one.id))
            # While the lab was down, no rule could be set.
            lab.down()
            three = book(running, selector=Selector("udp", None, (7011, 7011)))
            failed = until(lambda: running.register.reservation(three.id).state is State.FAILED)
            assert failed and "no lab" in running.register.log(three.id)[-1].reason


def test_a_lab_that_hangs_is_noticed_and_forgiven(tmp_path: Path, lab: Lab) -> None:
    with service(tmp_path / "b.db", time.time, SCENARIO) as running:  # type: ignore[arg-type]
        enforcer = Enforcer(running, {"*": LabDriver("row")}, beat=0.05, every=0.2, timeout=1)
        try:
            one = book(running)
            until(lambda: is_well(running, one.id))
            os.kill(lab.record.pid, signal.SIGSTOP)
            try:
                said = until(lambda: running.register.reservation(one.id).trouble)
                assert "did not answer" in said or "hangs" in said
            finally:
                os.kill(lab.record.pid, signal.SIGCONT)
            until(lambda: is_well(running, one.id))
            # Another program changes it.
            name = f"perhop_{one.id}"
            lab.reserve(name, THERE, TO_5011, 5 * MBPS, 1)
            until(lambda: lab.reserved()[name]["rate"] == one.terms.rate)
            assert until(lambda: "repair" in actions(running, one.id))
        finally:
            enforcer.close()


def test_a_service_that_comes_back_finds_its_rules_and_removes_what_is_over(
    tmp_path: Path, lab: Lab
) -> None:
    with enforced(tmp_path) as (running, _):
        one = book(running)
        two = book(running, selector=Selector("udp", None, (6011, 6011)))
        until(lambda: all(is_well(running, each.id) for each in (one, two)))
        send(lab, 5011, 50)
        before = counted(lab, f"perhop_{one.id}", 51)
    assert len(lab.reserved()) == 2
    lab.reserve("perhop_99", THERE, {**TO_5011, "destination_port": 9}, 1, 1)
    lab.release(f"perhop_{two.id}")
    with enforced(tmp_path) as (running, _):
        until(lambda: set(lab.reserved()) == {f"perhop_{one.id}", f"perhop_{two.id}"})
        assert counted(lab, f"perhop_{one.id}", 51) == before
        assert "repair" not in actions(running, one.id)
        assert until(lambda: "repair" in actions(running, two.id))


def test_a_path_that_a_lab_does_not_take_fails_with_the_reason(tmp_path: Path, lab: Lab) -> None:
    with enforced(tmp_path) as (running, _):
        given = {"source": "a", "destination": "b", "start": int(time.time()), "rate": MBPS}
        one = running.book(user(running), terms_of(**given), wishes=Wishes(via=("r3",))).result()
        until(lambda: running.register.reservation(one.id).state is State.FAILED)
        assert "do not all go by r1>r3" in running.register.log(one.id)[-1].reason
    assert lab.reserved() == {}
