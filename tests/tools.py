"""Programs of the system that tests use beside perhop: all of them are optional."""

import os
import shutil
from typing import Final

import pytest

PACKAGES: Final = {
    "chromium": "chromium",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "jq": "jq",
    "mtr": "mtr-tiny",
    "nft": "nftables",
    "ping": "iputils-ping",
    "postgres": "postgresql",
    "setpriv": "util-linux",
    "ss": "iproute2",
    "tc": "iproute2",
    "tracepath": "iputils-tracepath",
    "traceroute": "traceroute",
    "tshark": "tshark",
}
"""The Debian package of each."""

_REASON: Final = "needs "


def need(*programs: str) -> None:
    """Skip the test where one of some programs is missing; in CI, which installs them, fail it."""
    for program in programs:
        if shutil.which(program) is None:
            missing(program)


def missing(program: str) -> None:
    """Skip the test, or fail it in CI, for a program that is not there."""
    reason = f"{_REASON}{program} (Debian: {PACKAGES.get(program, 'unknown')})"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, which CI installs", pytrace=False)
    pytest.skip(reason)


def left_out(reasons: list[str]) -> list[str]:
    """Lines that say what was skipped for want of what; `reasons` are those of skipped tests."""
    ours = [reason.removeprefix("Skipped: ") for reason in reasons]
    ours = [reason for reason in ours if reason.startswith(_REASON) and "(Debian: " in reason]
    return [
        f"{ours.count(each)} test{'s' if ours.count(each) > 1 else ''} left out: {each}"
        for each in dict.fromkeys(ours)
    ]
