"""Logs: an outage is a line, not a traceback for each request; a bug has its traceback."""

import logging
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import DEADLINES, SLOW
from perhop_services.common.errors import ServiceError
from perhop_services.common.logs import Lines
from perhop_services.reservations.drivers.file import FileDriver
from perhop_services.reservations.enforcement import Enforcer
from reserving import Clock, port, service, terms, user

pytestmark = [DEADLINES, SLOW]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(mounted.stderr.decode())
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_a_line_in_the_log(
    small_disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    with service(small_disk / "b.db", clock) as running:
        who = user(running)
        enforcer = Enforcer(running, {"*": FileDriver(str(tmp_path / "r.json"))}, beat=0.02)
        try:
            full = small_disk / "full"
            with suppress(OSError), full.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            refused = 0
            deadline = time.monotonic() + 180
            for number in range(1, 2000):
                asked = running.book(who, terms(100, selector=port(number)))
                refused += isinstance(asked.exception(), ServiceError)
                if refused > 200:
                    break
                assert time.monotonic() < deadline
            assert refused > 200
            full.unlink()
        finally:
            enforcer.close()
    written = "\n".join(Lines(as_json=False).format(each) for each in caplog.records)
    assert "full" in written
    assert "Traceback" not in written
    assert len(caplog.records) < 20, written


def test_a_bug_has_its_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_batch: object) -> None:
        raise ZeroDivisionError("a bug")

    with service(tmp_path / "b.db", Clock()) as running:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                running.writer.submit(broken).result()
    assert [each.levelno for each in caplog.records] == [logging.ERROR] * 2
    assert all("Traceback" in Lines(as_json=True).format(each) for each in caplog.records)
