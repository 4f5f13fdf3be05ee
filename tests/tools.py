"""Programs of the system that tests use beside perhop: all of them are optional."""

import os
import shutil
from typing import Final, NoReturn

import pytest

PACKAGES: Final = {
    "buildah": "buildah",
    "cargo": "cargo",
    "chromium": "chromium",
    "ethtool": "ethtool",
    "getent": "libc-bin",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "jq": "jq",
    "mount": "mount",
    "mtr": "mtr-tiny",
    "munged": "munge",
    "netconfd": "netconfd",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "ping": "iputils-ping",
    "postgres": "postgresql",
    "sbatch": "slurm-client",
    "setpriv": "util-linux",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "ss": "iproute2",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "systemd-analyze": "systemd",
    "tc": "iproute2",
    "tracepath": "iputils-tracepath",
    "traceroute": "traceroute",
    "tshark": "tshark",
    "unshare": "util-linux",
}
"""The Debian package of each."""

_NEEDS: Final = "needs "
_CANNOT: Final = "this machine cannot do it: "


def need(*programs: str) -> None:
    """Skip the test where one of some programs is missing; in CI, which installs them, fail it."""
    for program in programs:
        if shutil.which(program) is None:
            missing(program)


def missing(program: str) -> NoReturn:
    """Skip the test, or fail it in CI, for a program that is not there."""
    reason = f"{_NEEDS}{program} (Debian: {PACKAGES.get(program, 'unknown')})"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, which CI installs", pytrace=False)
    pytest.skip(reason)


def unable(why: object) -> NoReturn:
    """Skip the test for what this machine's kernel or user cannot do, as an error says."""
    text = str(why).strip().split("\n")[0]
    if "apt install" in text and os.environ.get("CI") == "true":
        pytest.fail(f"{text}, which CI does", pytrace=False)
    pytest.skip(f"{_CANNOT}{text}")


def left_out(reasons: list[str]) -> list[str]:
    """Lines that say what was skipped for want of what; `reasons` are those of skipped tests."""
    ours = [reason.removeprefix("Skipped: ") for reason in reasons]
    ours = [reason for reason in ours if reason.startswith((_NEEDS, _CANNOT))]
    return [
        f"{ours.count(each)} test{'s' if ours.count(each) > 1 else ''} left out: {each}"
        for each in dict.fromkeys(ours)
    ]
