"""User Mode Linux: a kernel as a process, with disciplines that this machine's kernel may lack.

It needs Debian's package `user-mode-linux`, and no rights.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["begin", "boot", "end", "modules", "program"]

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_FINIT_MODULE: Final = 313  # x86-64
_POWER_OFF: Final = 0x4321FEDC


def program() -> Path:
    """Return the program `linux.uml`."""
    found = shutil.which("linux.uml")
    if found is None:
        raise SystemExit("linux.uml is missing; on Debian: apt install user-mode-linux")
    return Path(found).resolve()


def modules(names: Sequence[str]) -> list[str]:
    """Return the files of modules, such as ``net/sched/sch_htb``, after those that they need."""
    kernels = sorted(program().parent.parent.glob("lib/uml/modules/*"))
    if not kernels:
        raise SystemExit("linux.uml has no modules beside it; expected lib/uml/modules")
    lines = (kernels[-1] / "modules.dep").read_text("ascii").splitlines()
    needs = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    found: dict[str, None] = {}
    for name in names:
        file = f"kernel/{name}.ko"
        found |= dict.fromkeys((*reversed(needs.get(file, [])), file))
    return [str(kernels[-1] / file) for file in found]


def boot(arguments: Sequence[object], timeout_s: float, kernel: Path | None = None) -> str:
    """Run Python with arguments as the first program of the kernel; return what it prints.

    The kernel is `program()` by default. `user_mode.c`, which says why, is compiled and loaded
    before it.
    """
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder, "user_mode.so")
        source = Path(__file__).with_name("user_mode.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", shim, source], check=True)
        return _boot(kernel or program(), arguments, timeout_s, shim)


def _boot(kernel: Path, arguments: Sequence[object], timeout_s: float, shim: Path) -> str:
    made = subprocess.run(
        [
            *(kernel, "mem=256M", "rootfstype=hostfs", "root=/dev/root", "rootflags=/", "rw"),
            *("con=null", "con0=null,fd:1", "quiet", f"init={Path(sys.executable).resolve()}"),
            *("--", *map(str, arguments)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "LD_PRELOAD": str(shim)},
        check=False,
    )
    said: str = made.stdout + made.stderr
    return said


def begin(files: Sequence[str]) -> None:
    """Mount what programs need and load modules, as the first program."""
    for kind, place in (("proc", "/proc"), ("sysfs", "/sys")):
        _LIBC.mount(kind.encode(), place.encode(), kind.encode(), 0, None)
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        if _LIBC.syscall(_FINIT_MODULE, descriptor, b"", 0):
            print(file, os.strerror(ctypes.get_errno()), flush=True)
        os.close(descriptor)
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"  # the first process has none


def end() -> None:
    """Switch the kernel off."""
    os.sync()
    _LIBC.reboot(ctypes.c_int(_POWER_OFF))
