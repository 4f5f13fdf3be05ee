"""`perhop reserve` on the command line."""

import configparser
import io
import json
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import PERHOP, SLOW, Outcome
from perhop_services.common.people import People
from perhop_services.common.users import Quota
from reserving import NETWORK, PASSWORD
from reserving_http import ask, served
from test_docs import ROOT, save_files

pytestmark = SLOW

if TYPE_CHECKING:
    from perhop_services.reservations.http import Serving

Run = Callable[..., Outcome]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, People]]:
    with served(str(tmp_path / "b.db"), tmp_path) as (url, people):
        monkeypatch.setenv("PERHOP_RESERVE_URL", url)
        monkeypatch.setenv("HOME", str(tmp_path))
        yield url, people


def log_in(perhop: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    assert perhop("reserve", "login", name).out == f"logged in as {name}\n"


def test_a_reservation_is_booked_shown_changed_and_cancelled(
    service: object, perhop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del service
    assert perhop("reserve", "list").err == "perhop: log in, or show a token\n"
    log_in(perhop, monkeypatch, "les")
    assert (tmp_path / ".config/perhop/token").stat().st_mode & 0o777 == 0o600
    booked = perhop(
        "reserve",
        "book",
        "slac",
        "cern",
        "10 Mbps",
        "--start",
        "+1 h",
        "--for",
        "2 h",
        "--port",
        "5011",
        "--protocol",
        "tcp",
        "--dscp",
        "ef",
        "--burst",
        "100 kB",
        "--purpose",
        "a test",
        "--json",
    )
    made = json.loads(booked.out)
    assert (made["rate"], made["burst"], made["end"] - made["start"]) == (10**7, 10**5, 7200)
    assert made["selector"] == {
        "protocol": "tcp",
        "source_ports": None,
        "destination_ports": [5011, 5011],
        "dscp": 46,
    }
    assert abs(made["start"] - time.time() - 3600) < 60
    line = perhop("reserve", "list").out
    assert "slac -> cern  10 Mbps  tcp, to port 5011, DSCP 46  les  (a test)" in line
    changed = perhop("reserve", "change", "1", "--rate", "1 Mbps", "--port", "5012")
    assert "1 Mbps  tcp, to port 5012, DSCP 46" in changed.out
    assert "les: change  because" not in perhop("reserve", "show", "1").out
    assert re.search(
        r"Z  les: book  a test\n .*Z  les: change\n$", perhop("reserve", "show", "1").out
    )
    free = perhop("reserve", "free", "slac", "cern", "--rate", "800 Mbps", "--start", "+2 h")
    assert "widest: slac>r1 r1>r2 r2>cern with 799 Mbps" in free.out
    assert re.search(r"800 Mbps for 24 h: from 20", free.out)
    assert "conformed packets, bytes" in perhop("reserve", "counters", "1").out
    assert "active" in perhop("reserve", "counters", "1", "--clear").err
    assert "  cancelled  " in perhop("reserve", "cancel", "1").out
    assert perhop("reserve", "list").out == ""
    assert "cancelled" in perhop("reserve", "list", "--all").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["10 Mbps", "--for", "1 h", "--end", "+1 h"], "expected either --end or --for"),
        (["10", "--for", "1 h"], "a rate needs a unit, such as `10 Mbps`"),
        (["10 Mbps", "--for", "1 ms"], "`1 ms` is not a whole number of seconds"),
        (["10 Mbps", "--for", "1 h", "--start", "soon"], "`soon` is no time"),
        (["10 Mbps", "--for", "1 h", "--port", "http"], "`http` is not a port or range"),
        (["10 Mbps", "--for", "1 h", "--via", "r9"], "there is no node 'r9' in square"),
        (["900 Mbps", "--for", "1 h"], "900 Mbps is not free on r1>r2: 800 Mbps is"),
    ],
)
def test_what_is_wrong_is_said(
    service: object,
    perhop: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    del service
    log_in(perhop, monkeypatch, "les")
    refused = perhop("reserve", "book", "slac", "cern", *arguments)
    assert refused.code == 2
    assert message in refused.err


def test_administrators_make_users(
    service: object, perhop: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del service
    log_in(perhop, monkeypatch, "root")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    added = perhop("reserve", "user", "add", "new", "--role", "operator", "--max-rate", "5 Mbps")
    assert added.out == "new is operator  up to 5 Mbps at once\n"
    assert "new                      operator  up to 5" in perhop("reserve", "user", "list").out
    assert perhop("reserve", "user", "set", "new", "--disable").code == 0
    assert "operator  disabled" in perhop("reserve", "user", "list").out


def test_tokens_and_webhooks_are_made_and_ended(
    service: tuple[str, People], perhop: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = service
    log_in(perhop, monkeypatch, "op")
    told = perhop("reserve", "token", "new", "my calendar", "--feed", "--for", "24 h").out
    address, _, token = told.strip().partition("=")
    assert address == "the service's /api/calendar.ics?token"
    feed = f"{url}/api/calendar.ics?token={token}"
    assert ask("GET", feed).text.startswith("BEGIN:VCALENDAR")
    listed = perhop("reserve", "token", "list").out
    number = re.search(r"(\d+)  feed     my calendar +until 20", listed)
    assert number is not None
    assert perhop("reserve", "token", "revoke", number[1]).out == f"{number[1]} is no more\n"
    assert ask("GET", feed).status_code == 401
    made = perhop("reserve", "webhook", "add", "http://127.0.0.1:1/told").out
    assert re.fullmatch(r"webhook 1; what it is sent is signed with [0-9a-f]{64}\n", made)
    assert "1  http://127.0.0.1:1/told" in perhop("reserve", "webhook", "list").out
    assert perhop("reserve", "webhook", "add", "ftp://x.example").code == 2
    perhop("reserve", "webhook", "remove", "1")
    assert perhop("reserve", "webhook", "list").out == ""
    assert perhop("reserve", "logout").out == "logged out\n"
    assert perhop("reserve", "list").err == "perhop: log in, or show a token\n"


def test_what_is_held_is_committed_and_shown(
    service: object, perhop: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del service
    log_in(perhop, monkeypatch, "les")
    words = ["slac", "cern", "10 Mbps", "--start", "+1 h", "--for", "1 h", "--hold", "5 min"]
    key = ["--idempotency-key", "once"]
    held = perhop("reserve", "book", *words, *key).out
    assert "held until 20" in held
    assert perhop("reserve", "commit", "1").out.split()[:2] == ["1", "planned"]
    assert "nothing to change" in perhop("reserve", "change", "1").err
    shown = json.loads(perhop("reserve", "show", "1", "--json").out)
    assert (shown["state"], [entry["action"] for entry in shown["log"]]) == (
        "planned",
        ["hold", "commit"],
    )
    # A file that is no tokens' is told, not overwritten.
    Path("~/.config/perhop/token").expanduser().write_text("{")
    assert "remove it, and log in again" in perhop("reserve", "list").err


def test_a_service_listens_beyond_this_machine_only_when_told(perhop: Run, place: Path) -> None:
    (place / "n.yaml").write_text(NETWORK)
    refused = perhop("reserve", "serve", "n.yaml", "--listen", "0.0.0.0:0")
    assert refused.code == 2
    assert "passwords would be sent in the clear" in refused.err
    unknown = perhop("reserve", "serve", "n.yaml", "--driver", "r9=linux")
    assert "there is no router 'r9'" in unknown.err
    assert not (place / "perhop-reservations.db").exists()


def test_the_first_administrator_is_made_without_a_default(perhop: Run, place: Path) -> None:
    made = perhop("reserve", "init", "admin", "--generate")
    assert re.fullmatch(r"admin is an administrator; password: \S{20}\n", made.out)
    assert "there is a user 'admin' already" in perhop("reserve", "init", "admin", "--generate").err
    assert (place / "perhop-reservations.db").exists()


def test_no_service_is_said(perhop: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PERHOP_RESERVE_URL", "http://127.0.0.1:1")
    assert "http://127.0.0.1:1 does not answer" in perhop("reserve", "list").err


def test_serving_makes_no_database_and_takes_no_password(
    perhop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "network.yaml").write_text(NETWORK)
    network, typo = str(tmp_path / "network.yaml"), str(tmp_path / "typo.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that nothing is served
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        missing = perhop("reserve", "serve", network, "--database", typo, "--listen", listen)
    assert "there is no database of reservations at" in missing.err
    assert not Path(typo).exists()
    monkeypatch.chdir(tmp_path)
    for database in (
        "postgresql://u:secret@127.0.0.1:1/n",
        "postgresql://u:sec/secret@127.0.0.1:1/n",
        "postgresql://u@127.0.0.1:1/n?password=secret",
    ):
        for command in (("serve", network), ("init", "root", "--generate")):
            told = perhop("reserve", *command, "--database", database)
            assert "everybody on this machine can read a password" in told.err
            assert "secret" not in told.err
    monkeypatch.setenv("PERHOP_RESERVE_DATABASE", "postgresql://u:secret@127.0.0.1:1/n")
    away = perhop("reserve", "serve", network)
    assert "127.0.0.1" in away.err
    assert "secret" not in away.err


def test_the_first_session_works_as_the_page_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "reservations.md"
    block = re.search(r"```sh\n(perhop reserve init .*?)```", page.read_text(), re.DOTALL)
    assert block
    save_files(page, tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    init, serve, *others = (
        [str(PERHOP), *shlex.split(line, comments=True)[1:]] for line in block[1].splitlines()
    )
    assert (init[1:3], serve[1:3]) == (["reserve", "init"], ["reserve", "serve"])

    def ends_well(words: list[str]) -> None:
        given = {"cwd": tmp_path, "input": f"{PASSWORD}\n", "timeout": 60}
        ended = subprocess.run(words, capture_output=True, text=True, **given)
        assert ended.returncode == 0, ended.stderr

    ends_well(init)
    serve += ["--listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            address = re.match(r"http://\S+", service.stdout.readline())
            assert address
            monkeypatch.setenv("PERHOP_RESERVE_URL", address[0])
            for words in others:
                ends_well(words)
        finally:
            service.terminate()


def test_what_is_given_to_serve_is_served(
    perhop: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "network.yaml").write_text(NETWORK)
    got: list[Serving] = []
    monkeypatch.setattr(
        "perhop_services.reservations.http.serve", lambda it, _listening: got.append(it)
    )
    quota = ("--max-reservations", "5", "--max-rate", "100 Mbps", "--max-duration", "24 h")
    others = (
        "--trusted-proxy",
        "192.0.2.1",
        "--webhooks-to",
        "10.0.0.0/8",
        "--every",
        "60",
        "--log",
        "json",
    )
    network = str(tmp_path / "network.yaml")
    assert perhop("reserve", "serve", network, *quota, *others).code == 0
    assert perhop("reserve", "serve", network).code == 0
    given, plain = got
    assert given.quota == Quota(5, 100 * 10**6, 86_400)
    assert (given.listening.proxies, given.every) == (("192.0.2.1",), 60)
    assert (given.json_logs, plain.json_logs) == (True, False)
    assert given.webhooks == (ip_network("10.0.0.0/8"),)
    assert (plain.quota, plain.listening.proxies, plain.webhooks) == (Quota(), (), ())
    # The unit in the documentation, whose command is one of perhop's.
    page = (ROOT / "docs" / "reservations.md").read_text()
    unit = re.search(r"```ini\n(.*?)```", page, re.DOTALL)
    assert unit
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.read_string(unit[1])
    program, *words = shlex.split(parsed["Service"]["ExecStart"])
    assert (program, words[:2]) == ("/usr/local/bin/perhop", ["reserve", "serve"])
    assert perhop(*words[:2], network, *words[3:]).code == 0
    assert set(got[-1].drivers) == {"*"}
    assert parsed["Service"]["UMask"] == "0077"


def test_one_changes_ones_own_password(
    service: tuple[str, People], perhop: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(perhop, monkeypatch, "les")
    monkeypatch.setattr("sys.stdin", io.StringIO("wrong password\nanother one, and long\n"))
    assert "the password is wrong" in perhop("reserve", "password").err
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\nanother one, and long\n"))
    assert perhop("reserve", "password").out == "changed; log in again\n"
    assert perhop("reserve", "list").err == "perhop: log in, or show a token\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("another one, and long\n"))
    assert perhop("reserve", "login", "les").out == "logged in as les\n"
    del service
