"""Which parts may import which, what is public, and what the core offers."""

import ast
import inspect
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import perhop
from conftest import SLOW

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "perhop"

LAYERS = [
    "printable",
    "errors",
    "units",
    "displays",
    "topologies",
    "layout",
    "ranges",
    "hints",
    "files",
    "stores",
    "loopback",
    "rights",
    "interruption",
    "scenario",
    "templates",
    "gallery",
    "dataset",
    "records",
    "linux",
    "engines",
    "lab",
    "path",
    "analysis",
    "metrics",
    "runs",
    "routers",
    "workers",
    "cluster",
    "ensembles",
    "sweep",
    "search",
    "advice",
    "crosscheck",
    "doctor",
    "report",
    "charts",
    "experiments",
    "testing",
    "pytest_plugin",
    "studio",
    "cli",
]
"""The parts of the package; each may import from itself and from those before it."""

NEVER = {
    "linux": {"gallery", "dataset", "rights", "interruption"},
    "path": {"engines", "gallery", "lab", "dataset", "linux"},
    "analysis": {"engines", "gallery", "lab", "path"},
    "routers": {"lab", "path"},
    "report": {"engines", "gallery", "lab", "workers", "sweep", "crosscheck", "metrics"},
    "metrics": {"engines", "gallery", "lab", "path"},
    "runs": {"engines", "gallery", "lab", "path", "metrics"},
    "charts": {"engines", "gallery", "lab", "workers", "sweep", "crosscheck"},
    "sweep": {"lab"},
    "advice": {"lab"},
    "crosscheck": {"lab"},
    "experiments": {"lab"},
}
"""Exceptions that the order would allow; nothing downstream of a dataset knows its origin."""

ROOMS = ["model", "resolve", "rules", "reading"]
"""The rooms of `scenario`; each may import from itself and from those before it."""

OUTSIDE = {"", "model", "resolve"}
"""The rooms that other parts may import from: a scenario, and what follows from it."""

JUDGES = {
    "engines/__init__.py": {"rules"},
    "engines/lateness.py": {"rules"},
    "lab/present.py": {"rules", "reading"},
    "sweep.py": {"rules"},
    "testing/__init__.py": {"rules"},
    "ensembles.py": {"rules"},
    "search/thresholds.py": {"rules"},
    "routers/scenario.py": {"reading"},
    "routers/difference/configurations.py": {"reading"},
    "routers/difference/scenarios.py": {"reading"},
    "routers/lint/scenarios.py": {"reading"},
    "gallery/__init__.py": {"reading"},
}
"""Those that read or judge scenarios themselves: warnings of a run, changes of a lab."""

READERS = "perhop.routers.reading"
"""What reads the configurations of routers, which scenarios may refer to. It imports nothing but
the model of scenarios and the parts below them."""

CRATES: dict[str, set[str]] = {
    "core": set(),
    "fuzz": {"core"},
    "wire": {"core", "fuzz"},
    "calendar": {"core", "fuzz"},
    "queue": {"core"},
    "tcp": {"core"},
    "quic": {"core", "tcp"},
    "net": {"core", "queue"},
    "app": {"core"},
    "workload": {"core", "app", "tcp"},
    "plan": {"core", "queue", "net", "workload"},
    "measure": {"core", "app", "queue", "net", "workload"},
    "emu": {"core", "fuzz", "wire", "queue", "net", "plan", "measure"},
    "socket": {"fuzz"},
    "traffic": {"app", "core", "fuzz", "wire", "socket", "net", "workload", "measure"},
    "path": {"core", "fuzz", "wire", "socket"},
    "agent": {"core", "fuzz", "wire", "socket", "net", "workload", "measure", "traffic", "path"},
    "sim": {
        *("core", "app", "fuzz", "wire", "queue", "tcp", "quic", "net", "workload", "plan"),
        "measure",
    },
    "py": {
        *("core", "calendar", "queue", "tcp", "net", "workload", "plan", "measure", "emu"),
        *("traffic", "path", "agent", "sim"),
    },
}
"""Permitted dependencies of each crate."""


# Python


@cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part(path: Path) -> str:
    """The part of the package that a module belongs to; "" for the package's own."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first in ("__init__", "__main__") else first


def dotted(path: Path) -> str:
    """The name of a module: ``perhop.lab.client``, or ``perhop.lab`` for its ``__init__.py``."""
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def known() -> set[str]:
    """The modules of the package."""
    return {*map(dotted, modules()), "perhop._core"}


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules of perhop that a module imports, wherever in it, and for types too."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(level=0, module=str(module), names=names):
                inner = {f"{module}.{name.name}" for name in names}
                found |= inner & known() if inner <= known() else {module, *(inner & known())}
            case ast.ImportFrom():
                raise AssertionError(f"{path}:{node.lineno}: a relative import")
    assert "perhop" not in found, f"{path}: the package as a whole is for its users"
    return frozenset(name for name in found if name.startswith("perhop."))


def room(module: str) -> str:
    """The room of `scenario` that a module is in; "" for the package's own."""
    return module.removeprefix("perhop.scenario").strip(".").partition(".")[0]


def test_every_part_has_its_place() -> None:
    assert {part(path) for path in modules()} == {"", *LAYERS}


def allowed(path: Path) -> set[str]:
    """The parts that a module may import."""
    own = part(path)
    # The package itself only hands out what the layers have.
    found = set(LAYERS[: LAYERS.index(own) + 1] if own else LAYERS)
    calls = own in {"linux", "engines", "lab", "path"} and path.stem != "__init__"
    inside = path.relative_to(PACKAGE)
    own_calls = {"rights.py", "cli/agent.py", "cli/version.py"}
    if calls or inside.parts[1:2] == ("resolve",) or str(inside) in own_calls:
        found.add("_core")
    return found - NEVER.get(own, set())


# One test for all modules: a test for each takes as long as all other short tests together.


def test_imports_run_downwards() -> None:
    for path in modules():
        names = imported(path)
        if room(dotted(path)) == "reading" and part(path) == "scenario":
            names = frozenset(name for name in names if not f"{name}.".startswith(f"{READERS}."))
        assert {name.split(".")[1] for name in names} <= allowed(path), path


def test_readers_of_configurations_import_the_model_alone() -> None:
    below = {"routers", *LAYERS[: LAYERS.index("scenario")]}
    for path in modules():
        if f"{dotted(path)}.".startswith(f"{READERS}."):
            for name in imported(path):
                inside = name.startswith("perhop.routers") and not f"{name}.".startswith(READERS)
                assert not inside, f"{path}: {name}"
                assert name.split(".")[1] in below or room(name) == "model", f"{path}: {name}"


def test_no_module_imports_itself_by_way_of_others() -> None:
    # A package's `__init__` runs before its modules; that they need not name.
    TopologicalSorter({dotted(path): imported(path) for path in modules()}).prepare()


def test_rooms_of_a_scenario() -> None:
    for path in modules():
        used = {room(name) for name in imported(path) if name.startswith("perhop.scenario")}
        if part(path) != "scenario":
            assert used <= OUTSIDE | JUDGES.get(str(path.relative_to(PACKAGE)), set()), path
        elif own := room(dotted(path)):
            assert used <= set(ROOMS[: ROOMS.index(own) + 1]), path


def test_rich_stays_in_the_command_line() -> None:
    for path in modules():
        nodes = list(ast.walk(tree(path)))
        names = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        names |= {
            name.name for node in nodes if isinstance(node, ast.Import) for name in node.names
        }
        roots = {name.split(".")[0] for name in names if name}
        assert part(path) == "cli" or not roots & {"rich", "click"}, path


IMPORTS = """
import pkgutil, sys
from importlib import import_module

import perhop

opened = []
sys.addaudithook(lambda event, of: opened.append(str(of[0])) if event == "open" else None)
for module in pkgutil.walk_packages(perhop.__path__, "perhop."):
    if not module.name.endswith(("__main__", "migrations.env")):  # these run when imported
        try:
            import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name != "ncclient":  # an extra, for pushes alone
                raise
own = [path for path in opened if path.startswith(perhop.__path__[0])]
print(*{path for path in own if path.endswith((".yaml", ".json", ".csv"))})
"""


@SLOW
def test_imports_read_no_data() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "\n", "")


# Rust


def test_crates_depend_downwards() -> None:
    found = {path.parent.name: path for path in (ROOT / "crates").glob("*/Cargo.toml")}
    assert set(found) == {f"perhop-{name}" for name in CRATES}
    for name, allowed in CRATES.items():
        manifest = tomllib.loads(found[f"perhop-{name}"].read_text("utf-8"))
        for kind in ("dependencies", "build-dependencies", "dev-dependencies"):
            ours = {each for each in manifest.get(kind, {}) if each.startswith("perhop")}
            assert ours <= {f"perhop-{each}" for each in allowed}, name


# The public namespace


PUBLIC = {
    "Dataset",
    "OutputError",
    "PerhopError",
    "Problem",
    "Progress",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "analysis",
    "charts",
    "dump",
    "ensembles",
    "json_schema",
    "load",
    "metrics",
    "parse",
    "run",
    "topologies",
    "units",
}


def test_the_public_names_are_these() -> None:
    assert set(perhop.__all__) == PUBLIC
    assert len(perhop.__all__) == len(PUBLIC)
    assert set(dir(perhop)) >= PUBLIC
    with pytest.raises(AttributeError, match="'perhop' has no attribute 'nothing'"):
        _ = perhop.nothing


def public() -> list[tuple[str, Any]]:
    """Every public name of the package and of its parts."""
    homes = ["perhop", *(f"perhop.{name}" for name in LAYERS)]
    found = []
    for home in homes:
        module = import_module(home)
        names = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
        found += [(f"{home}.{name}", getattr(module, name)) for name in names]
    ours = [(name, each) for name, each in found if callable(each)]
    return [(n, e) for n, e in ours if getattr(e, "__module__", "").startswith("perhop")]


def test_every_public_name_is_documented() -> None:
    for name, thing in public():
        documented = [thing]
        if inspect.isclass(thing):
            documented += [
                member
                for key, member in vars(thing).items()
                if not key.startswith("_")
                and (inspect.isfunction(member) or isinstance(member, (property, classmethod)))
            ]
        for each in documented:
            text = inspect.getdoc(each) or ""
            assert text.endswith((".", ":")) or "\n" in text, f"{name}: {each} says {text!r}"


# The core's stub


def test_the_stub_says_what_the_core_has() -> None:
    core = import_module("perhop._core")
    stub = ast.parse((PACKAGE / "_core.pyi").read_text("utf-8"))
    names = {
        target.id
        for node in stub.body
        for target in ([node.target] if isinstance(node, ast.AnnAssign) else [])
        if isinstance(target, ast.Name)
    }
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert names - {"Column"} | {*classes, *functions} == set(core.__all__)
    for name, function in functions.items():
        described = [argument.arg for argument in function.args.args]
        assert described == [*inspect.signature(getattr(core, name)).parameters], name
    for name, node in classes.items():
        described = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        built = vars(getattr(core, name))
        offered = {key for key in built if not key.startswith("_")}
        assert set(described) == {"__new__", *offered}
        for key, function in described.items():
            decorators = {each.id for each in function.decorator_list if isinstance(each, ast.Name)}
            arguments = [argument.arg for argument in function.args.args]
            arguments = arguments if "staticmethod" in decorators else arguments[1:]
            if "property" in decorators:
                assert inspect.isgetsetdescriptor(built[key]), key
                continue
            signature = inspect.signature(getattr(core, name) if key == "__new__" else built[key])
            assert arguments == [each for each in signature.parameters if each != "self"], key


def test_the_core_is_of_this_version() -> None:
    core = import_module("perhop._core")
    assert core.__version__ == perhop.__version__
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]
    assert workspace["version"] == perhop.__version__
    assert sys.version_info >= (3, 11)
