"""Regular expressions mean the same in every release of the oldest Python.

Python 3.11 has possessive quantifiers and atomic groups, but before 3.11.5 it matches them wrongly,
in silence, if what they enclose can be matched in several ways (CPython's issue 106052).
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]

import pytest

from conftest import SLOW

ROOT = Path(__file__).parent.parent
FOLDERS = ("python", "services", "tests", "bench", "validation", "website")
FUNCTIONS = {
    *("compile", "match", "search", "fullmatch", "split", "findall", "finditer", "sub", "subn"),
}
OPCODE = type(_constants.LITERAL)
REFUSED = {_constants.POSSESSIVE_REPEAT, _constants.ATOMIC_GROUP}


def refused(parsed: object) -> bool:
    """Return whether a parsed regular expression has a possessive quantifier or an atomic group."""
    if isinstance(parsed, _parser.SubPattern):
        return any(refused(each) for each in parsed.data)
    return isinstance(parsed, tuple | list) and any(
        each in REFUSED if isinstance(each, OPCODE) else refused(each) for each in parsed
    )


def is_refused(pattern: str) -> bool:
    """The same for a regular expression as it is written."""
    return refused(_parser.parse(pattern))


class Written:
    """The regular expressions that the source text of a module has in calls of `re`.

    A value that only a run tells stands as `x` in them.
    """

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.assigned.setdefault(name, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.assigned.setdefault(name, []).append(value)

    def __iter__(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            match node:
                case ast.ImportFrom(module="re", names=names):
                    assert not FUNCTIONS & {each.name for each in names}, "write re.compile"
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=called), args=[pattern, *_]
                ) if called in FUNCTIONS:
                    yield from self.values(pattern)

    def values(self, node: ast.expr) -> list[str]:
        """Return what an expression can be."""
        match node:
            case ast.Constant(value=str() as value):
                return [value]
            case ast.Constant(value=bytes() as value):
                return [value.decode("latin-1")]
            case ast.JoinedStr(values=parts):
                inner = (p.value if isinstance(p, ast.FormattedValue) else p for p in parts)
                return [*map("".join, product(*map(self.values, inner)))]
            case ast.IfExp(body=one, orelse=other):
                return self.values(one) + self.values(other)
            case ast.Name(id=name) if name in self.assigned:
                return [each for value in self.assigned[name] for each in self.values(value)]
            case ast.Attribute(value=ast.Name() as name, attr="pattern"):
                return self.values(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr="compile"), args=[first, *_]
            ):
                return self.values(first)
            case ast.BinOp(left=left, op=ast.Mod()):
                return [re.sub("%[sbd]", "x", each) for each in self.values(left)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [*map("".join, product(self.values(left), self.values(right)))]
        return ["x"]


def written() -> Iterator[tuple[Path, Written]]:
    """Yield the modules of all packages, tests and tools."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            yield path, Written(path.read_text("utf-8"))


@SLOW
def test_calls_of_re_have_nothing_whose_meaning_depends_on_a_patch_release() -> None:
    number = 0
    for path, module in written():
        if path == Path(__file__):
            continue
        for pattern in module:
            number += 1
            assert not is_refused(pattern), f"{path}: {pattern!r}"
    assert number > 300


IMPORTS = """
import json, pkgutil, re, sys
from importlib import import_module

compiled = []
compile = re._compiler.compile

def keep(pattern, flags=0):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] == "re":
        frame = frame.f_back
    if frame.f_globals["__name__"].startswith(("perhop.", "perhop_services.")):
        compiled.append([frame.f_globals["__name__"], str(pattern), int(flags)])
    return compile(pattern, flags)

re._compiler.compile = keep
import perhop, perhop_services
for package in (perhop, perhop_services):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(("__main__", "migrations.env")):  # these run when imported
            import_module(module.name)
print(json.dumps(compiled))
"""


@SLOW
def test_modules_compile_nothing_whose_meaning_depends_on_a_patch_release() -> None:
    # Whatever an expression is made from: other constants, tables, loops.
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    found = json.loads(run.stdout)
    assert {"perhop.routers.reading.detect", "perhop.units"} <= {module for module, _, _ in found}
    for module, pattern, flags in found:
        assert not refused(_parser.parse(pattern, flags)), f"{module}: {pattern!r}"


@pytest.mark.parametrize(
    "text",
    [
        r're.compile(r"(?:\(config[\w-]*+\)# *+|[#>$] ++)?+")',
        r're.search("a(?>b|bc)c", text)',
        'def f(text):\n    return re.findall(rf"{text}[ab]++", text)',
        'def f(text):\n    known = "a" if text else "b{1,3}+"\n    return re.sub(known, "", text)',
        '_WORD = r"\\w++"\n_LINE = re.compile(rf"{_WORD} (?:{_WORD})")',
        '_A = re.compile(r"\\w++")\ndef f(text):\n    return re.match(f"^{_A.pattern}", text)',
        're.compile(b"<%b>a*+" % b"x")',
        're.compile("a" + "(?=(?:b*+)?)")',
    ],
)
def test_what_is_refused_is_seen(text: str) -> None:
    assert any(map(is_refused, Written(text)))


@pytest.mark.parametrize("text", [r're.split(r"a\++|[*+]+|LEDBAT\+\+", x)', 're.sub("(a*)+", x)'])
def test_what_means_the_same_everywhere_is_not(text: str) -> None:
    found = [*Written(text)]
    assert found and not any(map(is_refused, found))
