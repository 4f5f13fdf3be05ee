"""Running the service: whether it is well, clocks, names of databases, terminals and signals."""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import DEADLINES, SLOW
from perhop.errors import OutputError, UsageError
from perhop_services.common.errors import UnavailableError
from perhop_services.common.http import health
from perhop_services.common.http.health import Recent
from perhop_services.common.people import People
from perhop_services.common.steady import LEEWAY, TRIAL, SteadyClock
from perhop_services.common.supervised import Supervised
from perhop_services.common.writer import Writer
from perhop_services.reservations import messages as m
from perhop_services.reservations.client import Client
from perhop_services.reservations.decisions import Decisions
from perhop_services.reservations.model import State
from perhop_services.reservations.schema import LOG, RESERVATIONS, open_database
from postgres import restartable
from reserving import MBPS, NETWORK, PASSWORD, T0, Clock, service, terms, user
from reserving_http import ask, booking, client, served
from test_reservations_enforcement import until
from tools import need

if TYPE_CHECKING:
    from conftest import Outcome

PERHOP = Path(sysconfig.get_path("scripts"), "perhop")

pytestmark = [DEADLINES, SLOW]

THREADS = ("perhop-writer", "perhop-enforcer", "perhop-webhooks", "perhop-*")
POOLS = ("perhop-enforce", "perhop-enforce-*")
"""The answer of `/healthz` for a service with one device for all routers."""


def test_health_has_the_enforcer_and_the_database_in_it(tmp_path: Path) -> None:
    with restartable() as postgresql, served(postgresql.url, tmp_path) as (url, _):
        well = ask("GET", f"{url}/healthz")
        assert (well.status_code, well.json()["status"]) == (200, "ok")
        assert set(well.json()["troubles"]) == {*THREADS, *POOLS, "database"}
        postgresql.stop()

        def failing() -> Any:
            said = ask("GET", f"{url}/healthz")
            troubles = said.json()["troubles"]
            return said.status_code == 503 and troubles["database"] and troubles["perhop-enforcer"]

        until(failing)
        assert 'perhop_up{part="database"} 0' in ask("GET", f"{url}/metrics").text
        postgresql.start()
        until(lambda: ask("GET", f"{url}/healthz").status_code == 200)


def test_a_thread_or_a_writer_that_does_nothing_is_not_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwell(url: str) -> dict[str, str]:
        told: dict[str, str] = until(lambda: failing(url))
        return {part: re.sub(r"\d+", "0", why) for part, why in told.items() if why}

    def failing(url: str) -> dict[str, str] | None:
        answer = ask("GET", f"{url}/healthz")
        return answer.json()["troubles"] if answer.status_code == 503 else None

    def busy(*_: Any, **__: Any) -> Any:
        raise UnavailableError("the writer does not answer")

    with served(str(tmp_path / "b.db"), tmp_path) as (url, _):
        for patched, names, why in (
            ((health, "IDLE", -1.0), (*THREADS, *POOLS), "nothing done for 0 s"),
            ((Supervised, "is_alive", False), THREADS, "ended"),
        ):
            with monkeypatch.context() as wrong:
                wrong.setattr(*patched)
                assert unwell(url) == dict.fromkeys(names, why)
            until(lambda: ask("GET", f"{url}/healthz").status_code == 200)
        with monkeypatch.context() as wrong:
            wrong.setattr(Writer, "submit", busy)
            assert unwell(url)["database"] == "UnavailableError"


def test_metrics_are_prometheus_own(tmp_path: Path) -> None:
    with served(str(tmp_path / "b.db"), tmp_path) as it:
        with client(it, "les") as les:
            les.book(booking())
        answer = ask("GET", f"{it[0]}/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        sample = re.compile(r'perhop_[a-z_]+(\{[a-z]+="[a-z*-]+"\})? [0-9.e+]+')
        names = set()
        for line in answer.text.splitlines():
            if line.startswith("# TYPE "):
                names.add(line.split()[2])
            elif not line.startswith("# HELP "):
                assert sample.fullmatch(line), line
                assert re.split(r"[ {]", line)[0] in names
        assert 'perhop_reservations{state="planned"} 1' in answer.text
        assert "perhop_bookings 1\n" in answer.text


def test_who_asks_often_asks_nothing_more() -> None:
    recent, made = Recent(), []
    for _ in range(100):
        recent.get("x", 60, lambda: made.append(1))
    assert len(made) == 1


def test_a_clock_that_jumps_is_not_followed() -> None:
    wall, boot = Clock(T0), Clock(1000.0)
    clock = SteadyClock(wall, boot)

    def wait(seconds: float) -> float:
        wall.now += seconds
        boot.now += seconds
        return clock()

    assert wait(5) == T0 + 5
    # Thirty days ahead, for three seconds.
    wall.now += 30 * 86_400
    assert clock() == T0 + 5
    assert wait(3) == T0 + 8
    wall.now -= 30 * 86_400
    assert wait(1) == T0 + 9
    # A little is followed, and so is what stays: backwards, too.
    wall.now += LEEWAY / 2
    assert wait(1) == T0 + 10 + LEEWAY / 2
    wall.now -= 3600
    before = clock()
    assert wait(TRIAL - 1) == before + TRIAL - 1
    assert wait(2) == wall.now


def test_nothing_fails_ends_or_logs_out_while_the_clock_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's clock is 30 days ahead for some seconds, in which others log in."""
    ahead = [0.0]

    def wall() -> float:
        return time.time() + ahead[0]

    since_boot = (SteadyClock.__init__.__defaults__ or ())[1]
    monkeypatch.setattr(SteadyClock.__init__, "__defaults__", (wall, since_boot))
    for takes_a_clock in (People, Decisions):  # the machine's, where none is given
        monkeypatch.setitem(takes_a_clock.__init__.__kwdefaults__, "clock", wall)
    with served(str(tmp_path / "b.db"), tmp_path) as it, Client(it[0]) as les, Client(it[0]) as op:
        les.log_in("les", PASSWORD)
        active = les.book(booking(start=None))
        held = les.book(booking(hold=60))
        planned = les.book(booking())
        until(lambda: les.show(active.id).state is State.ACTIVE)
        ahead[0] = 30 * 86_400
        op.log_in("op", PASSWORD)
        for _ in range(2):
            time.sleep(1.5)
            states = [les.show(each.id).state for each in (active, held, planned)]
            assert states == [State.ACTIVE, State.HELD, State.PLANNED]
            ahead[0] = 0
        assert all(abs(each.at - time.time()) < 3600 for each in les.log(active.id))


def test_a_database_has_one_process_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "b.db"
    (tmp_path / "folder").mkdir()
    with service(place, Clock()):
        (tmp_path / "link.db").symlink_to(place)
        os.link(place, tmp_path / "hard.db")
        for name in ("b.db", "link.db", "hard.db", "folder/../b.db"):
            for url in (str(tmp_path / name), f"sqlite:///{tmp_path / name}"):
                with pytest.raises(UsageError, match="in use by"):
                    open_database(url)
        for url in ("sqlite:///file:b.db?uri=true", f"sqlite:///file:{place}?uri=true"):
            with pytest.raises(UsageError, match="without options"):
                open_database(url)
    open_database(str(tmp_path / "link.db")).close()


def test_logs_and_feeds_go_on_to_their_end(
    tmp_path: Path, perhop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(str(tmp_path / "b.db"), tmp_path) as it, client(it, "les") as les:
        own = les.book(booking())
        les.change(own.id, m.Change(purpose="another"))
        database = it[1]._database
        with database.writing() as connection:
            last = dict(connection.execute(LOG.select()).mappings().all()[-1])
            rows = [last | {"id": last["id"] + number} for number in range(1, 1029)]
            connection.execute(LOG.insert(), rows)
        log = les.log(own.id)
        assert len(log) == 1030
        assert [each.id for each in log] == sorted({each.id for each in log})
        people = it[1]
        made = RESERVATIONS.select().where(RESERVATIONS.c.id == own.id)
        with database.writing() as connection:
            row = dict(connection.execute(made).mappings().one())
            rows = [row | {"id": number} for number in range(100, 2200)]
            connection.execute(RESERVATIONS.insert(), rows)
        token = people.make_token(people.named("les"), "feed", "calendar", None)
        feed = ask("GET", f"{it[0]}/api/calendar.ics", params={"token": token}).text
        told = re.findall(r"^UID:reservation-([0-9]+)@perhop", feed, re.MULTILINE)
        assert told == [str(number) for number in (own.id, *range(100, 2200))]
        assert feed.endswith("END:VCALENDAR\r\n")
        monkeypatch.setenv("PERHOP_RESERVE_URL", it[0])
        monkeypatch.setenv("PERHOP_RESERVE_TOKEN", les._http.headers["Authorization"].split()[1])
        assert len(perhop("reserve", "list").out.splitlines()) == 2101
        for number in range(1100):
            people.audit("root", "set", f"u{number}")
        root = people.make_token(people.named("root"), "api", "t", None)
        monkeypatch.setenv("PERHOP_RESERVE_TOKEN", root)
        audit = perhop("reserve", "user", "audit").out.splitlines()
        assert (len(audit), "u1099" in audit[-1]) == (1100, True)
        assert len(perhop("reserve", "user", "audit", "--after", "1000").out.splitlines()) == 100


def test_control_characters_do_not_reach_terminals(
    tmp_path: Path, perhop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(str(tmp_path / "b.db"), tmp_path) as it, client(it, "les") as les:
        monkeypatch.setenv("PERHOP_RESERVE_URL", it[0])
        token = it[1].make_token(it[1].named("les"), "api", "t", None)
        monkeypatch.setenv("PERHOP_RESERVE_TOKEN", token)
        made = les.book(booking(purpose="a\x1b]0;owned\x07\x1b[2J\u202e\r\nb \u00e9"))
        les.change(made.id, m.Change(purpose="b", reason="a\x1b]0;owned\x07b \u202e\u00e9"))
        les.change(made.id, m.Change(purpose="a\x1b]0;owned\x07 b \u00e9"))
        for command in (("show", str(made.id)), ("list",)):
            outcome: Outcome = perhop("reserve", *command)
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", outcome.out)
            assert "a\\x1b]0;owned\\x07" in outcome.out
            assert "b \u00e9" in outcome.out


def test_a_signal_ends_it_and_the_address_is_printed_when_it_listens(tmp_path: Path) -> None:
    (tmp_path / "network.yaml").write_text(NETWORK)
    place = str(tmp_path / "b.db")
    init = [PERHOP, "reserve", "init", "root", "--database", place]
    subprocess.run(init, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True)
    command = [sys.executable, str(PERHOP), "reserve", "serve", str(tmp_path / "network.yaml")]
    command += ["--database", place, "--listen", "127.0.0.1:0"]
    # A port that is taken: nothing is said to listen.
    with served(str(tmp_path / "other.db"), tmp_path) as (url, _):
        taken = [*command[:-1], f"127.0.0.1:{url.rpartition(':')[2]}"]
        failed = subprocess.run(taken, capture_output=True, text=True, timeout=60, check=False)
        assert failed.returncode not in (0, None)
        assert "http://" not in failed.stdout
    for which, codes in ((signal.SIGTERM, (0, 143, -15)), (signal.SIGINT, (0, 130, -2))):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert b"http://127.0.0.1" in process.stdout.readline()
                process.send_signal(which)
                _, said = process.communicate(timeout=60)
                assert process.returncode in codes
                assert b"Traceback" not in said
            finally:
                process.kill()


def test_what_a_changed_network_cannot_keep_is_reported(tmp_path: Path) -> None:
    open_database(str(tmp_path / "b.db")).close()
    with service(tmp_path / "b.db", Clock(time.time())) as running:
        start = int(time.time()) + 3600
        own = running.book(user(running, "amy"), terms(MBPS, start, destination="bnl")).result()
        asked = RESERVED.replace("r3>bnl", "r2>bnl")
        with running.database.writing() as connection:
            connection.exec_driver_sql(asked)
    with served(str(tmp_path / "b.db"), tmp_path) as it, client(it, "op") as op:
        until(lambda: "no longer has its links" in op.show(own.id).trouble)
        assert "perhop_lost 1\n" in ask("GET", f"{it[0]}/metrics").text
        assert op.show(own.id).state is State.PLANNED


RESERVED = """UPDATE paths SET links = '["slac>r1", "r1>r3", "r3>bnl"]'"""


def test_postgresql_is_spoken_to_over_tls(tmp_path: Path) -> None:
    need("openssl")
    own = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    own += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    for name in ("server", "other"):
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.crt")]
        subprocess.run([*own, *files], check=True, capture_output=True)
    with restartable(tls=(tmp_path / "server.crt", tmp_path / "server.key")) as postgresql:
        url = f"postgresql://perhop@localhost:{postgresql.port}/postgres"
        right = f"sslrootcert={tmp_path / 'server.crt'}"
        wrong = f"sslrootcert={tmp_path / 'other.crt'}"
        for query in ("sslmode=require", f"sslmode=verify-full&{right}"):
            opened = open_database(f"{url}?{query}")
            with opened.engine.connect() as connection:
                used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                assert connection.exec_driver_sql(used).scalar() is True
            opened.close()
        for query in (f"sslmode=verify-full&{wrong}", "sslmode=verify-full"):
            with pytest.raises(OutputError, match="certificate"):
                open_database(f"{url}?{query}")
        name = url.replace("localhost", "127.0.0.1")
        with pytest.raises(OutputError, match="certificate"):
            open_database(f"{name}?sslmode=verify-full&{right}")
        for query in ("sslmode=perhaps", "sslmode=require&sslrootcert=/nowhere"):
            with pytest.raises(UsageError, match="ssl"):
                open_database(f"{url}?{query}")
