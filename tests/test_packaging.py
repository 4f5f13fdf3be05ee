"""Packages: the source archive; installation of an agent: the unit of systemd, the image."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import PERHOP, REAL_HOSTS, SLOW
from live import site
from perhop import analysis
from perhop.scenario import parse
from static_agent import static_agent
from tools import need, unable

ROOT = Path(__file__).parent.parent
PACKAGING = ROOT / "packaging"
UNIT = PACKAGING / "perhop-agent.service"

PAIR = """
perhop: 1
name: pair
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps, delay: 1 ms}]
duration: 2 s
flows:
  bulk: {from: a, to: b, volume: 500 kB, tcp: {congestion_control: reno}}
  call: {from: b, to: a, dscp: ef, udp: {rate: 400 kbps, size: 500 B}}
"""


@SLOW
def test_the_source_archive_has_every_file(tmp_path: Path) -> None:
    need(os.environ.get("CARGO", "cargo"))
    maturin = (str(PERHOP.parent / "maturin"), "sdist", "--out", str(tmp_path))
    done = subprocess.run(maturin, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [archive] = tmp_path.glob("perhop-*.tar.gz")
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "README.md", "Cargo.lock", "pyproject.toml"} <= packed
    crates = {"/".join(name.split("/")[:2]) for name in packed if name.startswith("crates/")}
    assert "crates/perhop-py" in crates
    for folder in ("python/perhop", *(f"{crate}/src" for crate in crates)):
        present = {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix not in (".pyc", ".so")
        }
        assert {name for name in packed if name.startswith(f"{folder}/")} == present


def test_the_demo_installs_what_builds_and_runs_perhop_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    pins = (ROOT / "requirements/run.txt").read_text("utf-8").splitlines()[1:]
    pinned = {canonicalize_name(name): version for name, version in (p.split("==") for p in pins)}
    needed = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            assert requirement.specifier.contains(pinned[name]), requirement
            if name not in needed:
                needed.add(name)
                wanted += requires(name) or []
    assert needed == set(pinned)


def pins_of(name: str) -> dict[str, str]:
    """Return the versions in a file of requirements, of which each line is a pin."""
    pins: dict[str, str] = {}
    for line in (ROOT / "requirements" / name).read_text("utf-8").splitlines():
        if line.startswith("#") or (name, line) == ("dev.txt", "--requirement run.txt"):
            continue
        pin = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][0-9a-z.+]*)", line)
        assert pin, line
        package = canonicalize_name(pin[1])
        assert package not in pins, line
        pins[package] = pin[2]
    return pins


def test_each_package_has_one_pin_for_runs_or_for_development() -> None:
    run, dev = pins_of("run.txt"), pins_of("dev.txt")
    assert run and dev
    assert not run.keys() & dev.keys()


def test_the_demo_has_all_that_perhop_imports() -> None:
    imported = set()
    for file in (ROOT / "python/perhop").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            imported |= {name.partition(".")[0] for name in names}
    imported -= {"perhop", "_typeshed", *sys.stdlib_module_names}
    by_module = packages_distributions()
    packages = {canonicalize_name(by_module[module][0]) for module in imported}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        canonicalize_name(Requirement(each).name)
        for extra in ("cluster", "s3", "push")
        for each in project["optional-dependencies"][extra]
    }
    # `distributed` needs dask; those who use pytest's plugin or a cluster of Slurm have the others.
    assert packages - pins_of("run.txt").keys() <= {*extras, "dask", "dask-jobqueue", "pytest"}
    assert {
        canonicalize_name(Requirement(each).name) for each in project["dependencies"]
    } <= packages


@pytest.mark.parametrize("name", ["Containerfile", "perhop.Containerfile"])
def test_images_may_copy_their_files(name: str) -> None:
    kept = [
        line.removeprefix("!")
        for line in (ROOT / ".containerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    ]
    copied = re.findall(
        r"^COPY (?!--)(.*) \S+$", (PACKAGING / name).read_text("utf-8"), re.MULTILINE
    )
    assert copied and set(" ".join(copied).split()) <= set(kept)


def analyze(*arguments: str) -> str:
    """What `systemd-analyze` says of a unit that it takes."""
    need("systemd-analyze")
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # The program need not be installed where this test runs.
    unit.write_text(UNIT.read_text("utf-8").replace("/usr/local/bin/perhop-agent", "/bin/sh"))
    assert analyze("verify", "--man=no", str(unit)) == ""


def test_the_service_has_few_rights() -> None:
    said = analyze("security", "--offline=yes", "--no-pager", str(UNIT))
    exposure = re.search(r"exposure level for perhop-agent.service: ([0-9.]+) ", said)
    assert exposure, said
    assert float(exposure[1]) < 3  # of 10


def settings() -> dict[str, str]:
    """The settings of the unit's service that have one value."""
    section = UNIT.read_text("utf-8").split("\n[Service]\n")[1].split("\n[Install]\n")[0]
    return dict(re.findall(r"^(\w+)=(.*)$", section, re.MULTILINE))


@pytest.fixture
def service_folder() -> Iterator[Path]:
    """A folder that other users reach; those of pytest are its user's."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@SLOW
@REAL_HOSTS
def test_the_agent_measures_everything_with_the_rights_of_the_unit(
    lab_folder: Path, service_folder: Path
) -> None:
    need("setpriv", os.environ.get("CARGO", "cargo"))
    if os.getuid():
        unable("another user, without being root")
    unit = settings()
    assert (unit["DynamicUser"], unit["NoNewPrivileges"]) == ("yes", "yes")
    right = unit["AmbientCapabilities"]
    assert right == unit["CapabilityBoundingSet"] == "CAP_NET_RAW"
    only = f"-all,+{right.removeprefix('CAP_').lower()}"
    user = 61184  # the first of systemd's dynamic users
    os.chown(service_folder, user, user)
    program = service_folder / "perhop-agent"
    shutil.copy(static_agent(), program)
    inside = (
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"),
        *(f"--bounding-set={only}", f"--inh-caps={only}", f"--ambient-caps={only}"),
        *("sh", "-c", f'umask {unit["UMask"]} && cd "$0" && exec "$@"', str(service_folder)),
    )
    (lab_folder / "pair.yaml").write_text(f"{PAIR}pings: {{probe: {{from: b, to: a, dscp: ef}}}}\n")
    with site(parse(PAIR), lab_folder, ["a"]) as found:
        shutil.copy(lab_folder / "controller.pub", service_folder)
        found.serve("b", inside=inside, program=(str(program),))
        status = Path("/proc", str(found.agents["b"].pid), "status").read_text()
        sets = dict(re.findall(r"^(Cap\w+|NoNewPrivs|Uid):\s+(\w+)", status, re.MULTILINE))
        assert {int(sets[f"Cap{kind}"], 16) for kind in ("Prm", "Eff", "Bnd", "Amb")} == {1 << 13}
        assert (sets["NoNewPrivs"], sets["Uid"]) == ("1", str(user))
        outcome = found.run("a", "pair.yaml", "--json")
        assert (outcome.code, outcome.err) == (0, ""), outcome
        tables = found.dataset()
    flows = analysis.summary(tables)["flows"]
    assert flows["bulk"]["bytes"] == 500_000
    # Raw sockets show those of TCP.
    assert "b" in {each["node"] for each in flows["bulk"]["codepoints"]}
    assert json.loads(outcome.out)["pings"]["probe"]["received"] > 0


class Buildah:
    """The command `buildah`, with images and containers of its own."""

    def __init__(self, folder: Path) -> None:
        store = ("--root", str(folder / "store"), "--runroot", str(folder / "runroot"))
        self.command = ["buildah", "--storage-driver", "vfs", *store]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.strip()


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Buildah]:
    """Builds and runs images, and removes them."""
    need("buildah", os.environ.get("CARGO", "cargo"))
    mounts = ("unshare", "--mount", "mount", "-t", "tmpfs", "none", str(tmp_path))
    if os.getuid() or subprocess.run(mounts, capture_output=True).returncode:
        unable("building an image without the right to mount")
    found = Buildah(tmp_path / "images")
    yield found
    found("rm", "--all")
    found("rmi", "--all", "--force")


@SLOW
@REAL_HOSTS
def test_the_image_has_an_agent_that_runs(buildah: Buildah, lab_folder: Path) -> None:
    # The folders that the file copies from, as `make dist` leaves them.
    context = lab_folder / "context"
    (context / "dist").mkdir(parents=True)
    shutil.copy(static_agent(), context / "dist" / "perhop-agent")
    file = str(PACKAGING / "Containerfile")
    buildah("build", "--isolation", "chroot", "--file", file, "--tag", "perhop-agent", str(context))
    image = json.loads(buildah("inspect", "--type", "image", "perhop-agent"))["OCIv1"]["config"]
    user = int(image["User"].split(":")[0])
    assert user > 0
    container = buildah("from", "perhop-agent")
    root = Path(buildah("mount", container))
    assert [each.name for each in root.rglob("*") if each.is_file()] == ["perhop-agent"]
    buildah("umount", container)

    scenario = parse(PAIR)
    (lab_folder / "pair.yaml").write_text(PAIR)
    with site(scenario, lab_folder, ["a"]) as found:
        state = lab_folder / "state"
        state.mkdir()
        shutil.copy(lab_folder / "controller.pub", state)
        os.chown(state, user, user)
        # Beside the image's own volume, in place of which buildah mounts no other.
        options = ("--isolation", "chroot", "--volume", f"{state}:/lab", "--workingdir", "/lab")
        run = (*buildah.command, "run", *options, container, "--", *image["Entrypoint"])
        found.serve("b", program=run)
        assert (state / "b.key").stat().st_uid == user
        outcome = found.run("a", "pair.yaml")
        assert outcome.code == 0, outcome
        # Without raw sockets.
        assert "packets of TCP arrive at b" in outcome.out
        tables = found.dataset()
        found.agents["b"].terminate()
        found.agents["b"].communicate(timeout=10)
    flows = analysis.summary(tables)["flows"]
    assert flows["bulk"]["bytes"] == 500_000
    assert flows["call"]["bytes"] > 90_000
