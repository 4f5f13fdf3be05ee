"""Missing features for each engine, on hosts that lack them."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import PERHOP, REAL_HOSTS, SLOW, Outcome
from perhop import doctor
from perhop.linux.clock import system_clock
from perhop.scenario import dump
from tools import need, unable

Perhop = Callable[..., Outcome]


def checks(*arguments: str, before: str = ":", prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON of `perhop doctor`, after a shell command; by name of what is needed."""
    command = f'{before} && exec "$0" doctor --json "$@"'
    done = subprocess.run(
        [*prefix, "sh", "-c", command, str(PERHOP), *arguments], capture_output=True, text=True
    )
    assert done.stderr == "", done.stderr
    found = json.loads(done.stdout)
    by_need = {each["need"]: each for each in found["checks"]}
    return {"code": done.returncode, "runs": found["runs"], **by_need}


def elsewhere(*options: str) -> tuple[str, ...]:
    """The beginning of a command in new namespaces of a user who is root there."""
    need("unshare")
    prefix = ("unshare", "--user", "--map-root-user", *options)
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        unable("a user namespace")
    return prefix


def test_the_simulator_needs_nothing(perhop: Perhop) -> None:
    assert perhop("doctor", "sim") == (
        0,
        "sim     ok       nothing: the simulator needs nothing of the host\n",
        "",
    )


def test_an_unknown_engine_is_exit_code_2(perhop: Perhop) -> None:
    code, out, err = perhop("doctor", "kernal")
    assert (code, out) == (2, "")
    assert err == "perhop: 'kernal' is not an engine; did you mean `kernel`?\n"


def test_live_needs_what_an_agent_needs(perhop: Perhop) -> None:
    code, out, _ = perhop("doctor", "live", "--json")
    assert {each["engine"] for each in json.loads(out)["checks"]} == {"agent"}
    assert code in (0, 3)


@SLOW
@REAL_HOSTS
def test_a_host_that_runs_an_engine_is_said_to(perhop: Perhop) -> None:
    from perhop.engines import check
    from perhop.errors import UnsupportedError

    for engine in ("emu", "kernel"):
        try:
            check(doctor._small("1 ms"), engine)
        except UnsupportedError as error:
            unable(error)
        assert perhop("doctor", engine).code == 0
    assert perhop("doctor").code == 0


@SLOW
@REAL_HOSTS
def test_missing_namespaces_are_named() -> None:
    limited = "echo 0 > /proc/sys/user/max_net_namespaces"
    found = checks("emu", before=limited, prefix=elsewhere())
    assert (found["code"], found["runs"]) == (3, {"emu": False})
    assert found["network namespaces"]["state"] == "missing"
    assert "max_net_namespaces" in found["network namespaces"]["found"]
    # All engines together are a report, not a question.
    assert checks(before=limited, prefix=elsewhere())["code"] == 0


@SLOW
@REAL_HOSTS
def test_a_missing_device_is_named() -> None:
    hidden = "mount -t tmpfs none /dev/net"
    found = checks("emu", before=hidden, prefix=elsewhere("--mount"))
    assert found["code"] == 3
    device = found["TUN devices and sockets"]
    assert (device["state"], found["network namespaces"]["state"]) == ("missing", "ok")
    assert "there is no /dev/net/tun: load the module" in device["found"]


@SLOW
@REAL_HOSTS
def test_missing_programs_are_named(tmp_path: Path) -> None:
    found = checks("kernel", before=f"PATH={tmp_path}")
    assert (found["code"], found["programs"]["state"]) == (3, "missing")
    assert found["programs"]["found"].endswith("apt install iproute2 nftables")


def path_without(folder: Path, missing: str) -> str:
    """A shell command after which one of the kernel engine's programs is not found."""
    for program in {"ip", "tc", "nft"} - {missing}:
        found = shutil.which(program)
        if found is None:
            need(program)
        else:
            (folder / program).symlink_to(found)
    return f"PATH={folder}"


@SLOW
@REAL_HOSTS
@pytest.mark.parametrize("engine", ["emu", "kernel"])
@pytest.mark.parametrize("lacking", ["nothing", "ip", "tc", "nft", "rights"])
def test_the_verdict_is_that_of_a_run(engine: str, lacking: str, tmp_path: Path) -> None:
    before = ":"
    prefix: tuple[str, ...] = ()
    if lacking == "rights":
        need("setpriv")
        # A further user namespace would give them back.
        limited = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
        drop = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
        prefix = (*elsewhere(), "sh", "-c", limited, "sh", *drop)
    elif lacking != "nothing":
        before = path_without(tmp_path, lacking)
    verdict = checks(engine, before=before, prefix=prefix)
    file = tmp_path / "small.yaml"
    file.write_text(dump(doctor._small("1 ms")))
    run = f'{before} && exec "$0" run "$1" --engine {engine} --out "$2"'
    out = str(tmp_path / "run")
    command = [*prefix, "sh", "-c", run, str(PERHOP), str(file), out]
    done = subprocess.run(command, capture_output=True, text=True)
    if lacking == "nothing" and done.returncode == 3:
        unable(done.stderr)
    assert (verdict["code"], verdict["runs"]) == (done.returncode, {engine: done.returncode == 0})
    prevents = lacking == "rights" or (engine == "kernel" and lacking != "nothing")
    assert verdict["runs"][engine] != prevents


@SLOW
def test_missing_rights_limit_an_agent_and_do_not_prevent_it() -> None:
    need("setpriv")
    none = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
    # Without root there is nothing to drop.
    found = checks("agent", prefix=none if os.getuid() == 0 else ())
    assert (found["code"], found["runs"]) == (0, {"agent": True})
    sockets = found["raw sockets"]
    assert sockets["state"] == "limited"
    assert "CAP_NET_RAW" in sockets["remedy"]
    available, allowed = (
        Path(f"/proc/sys/net/ipv4/tcp_{kind}_congestion_control").read_text().split()
        for kind in ("available", "allowed")
    )
    controls = found["congestion controls"]
    assert controls["state"] == ("ok" if set(available) <= set(allowed) else "limited")
    for name in set(available) - set(allowed):
        assert name in controls["found"].split("flows with")[1]
        assert "tcp_allowed_congestion_control" in controls["remedy"]


def test_the_clock_is_the_kernels(tmp_path: Path) -> None:
    clock = system_clock()
    assert clock.synchronised == (clock.most_error_us is not None)
    assert abs(clock.frequency_ppm) <= 500  # the most that Linux corrects by
    for number, name in (("1", "systemd"), ("20", "phc2sys"), ("30", "chronyd")):
        (tmp_path / number).mkdir()
        (tmp_path / number / "comm").write_text(f"{name}\n")
    assert system_clock(tmp_path).programs == {"chronyd": "NTP", "phc2sys": "PTP"}


@pytest.mark.parametrize("synchronised", [True, False])
def test_what_is_said_of_a_clock(synchronised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from perhop.linux import clock

    bound = 1500 if synchronised else None
    state = clock.Clock(synchronised, bound, 0.0, {"chronyd": "NTP"})
    monkeypatch.setattr(clock, "system_clock", lambda: state)
    found = doctor._clock()
    if synchronised:
        assert found.state == "ok"
        assert found.found == (
            "synchronised, with an error of at most 1500 µs by the kernel's count, by chronyd (NTP)"
        )
    else:
        assert found.state == "limited"
        assert "not synchronised, though chronyd (NTP) runs here" in found.found
