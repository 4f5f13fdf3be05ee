"""Statements of routers: each that is modelled has a case that shows it, or its word is told."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import perhop
from perhop.routers.reading import Treatment
from statements.__main__ import FAMILIES
from statements.statement import expected, found, lines, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statements.statement import Approximated, Statement


TABLES: Final = {name: import_module(f"statements.{name}") for name in FAMILIES}
_WORDS: Final = re.compile(r"[a-z][a-z0-9._-]*(?: [a-z][a-z0-9._-]*){0,2}")
MODELLED: Final = [
    pytest.param(family, each, id=f"{family}-{each.words}")
    for family, table in TABLES.items()
    for each in table.STATEMENTS
]
APPROXIMATED: Final = [
    pytest.param(family, each, id=f"{family}-{each.words}")
    for family, table in TABLES.items()
    for each in table.APPROXIMATED
]


@pytest.mark.parametrize(("family", "statement"), MODELLED)
def test_statements_do_what_their_documents_say(family: str, statement: Statement) -> None:
    told = lines(read(family, statement.text, statement.rate), statement.words)
    assert told
    assert [line.note for line in told if line.treatment is not Treatment.MODELLED] == []
    assert statement.source
    assert found(family, statement, statement.text) == expected(statement)
    # A case that holds without the statement, too, would show nothing.
    assert found(family, statement, statement.other) != expected(statement)


@pytest.mark.parametrize(("family", "statement"), APPROXIMATED)
def test_other_statements_say_how_they_differ(family: str, statement: Approximated) -> None:
    told = lines(read(family, statement.text), statement.words)
    assert told
    assert all(line.treatment is not Treatment.MODELLED for line in told)
    assert any(statement.how in line.note for line in told)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_word_of_a_reader_has_a_statement(family: str) -> None:
    table = TABLES[family]
    texts = " ".join(each.words for each in (*table.STATEMENTS, *table.APPROXIMATED))
    # Some families have cases elsewhere that compare words with the real thing.
    compared: frozenset[str] = getattr(table, "COMPARED", frozenset())
    unknown = vocabulary(family) - set(texts.split()) - compared - table.OTHER_WORDS
    assert not unknown, f"no statement in `statements.{family}` has {sorted(unknown)}"
    unused = table.OTHER_WORDS - vocabulary(family)
    assert not unused, f"the reader has no {sorted(unused)}"


def vocabulary(family: str) -> set[str]:
    """Return the words that a reader compares with, in the constants of its source."""
    folder = Path(perhop.__file__).parent / "routers" / "reading" / family
    return {
        word
        for path in folder.glob("*.py")
        for constant in _constants(ast.parse(path.read_text("utf-8")))
        for word in constant.split()
    }


def _constants(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module that consist of lower-case words, apart from notes."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            skipped |= {id(argument) for argument in node.args if _says(node.func)}
        if isinstance(node, ast.JoinedStr | ast.Raise):
            skipped |= {id(each) for each in ast.walk(node)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in skipped and _WORDS.fullmatch(text):
            yield text


def _says(function: ast.expr) -> bool:
    """Return whether a call notes something in words of perhop's own."""
    names = {"approximated", "ignored", "not_modelled", "fault", "default", "refused"}
    return isinstance(function, ast.Attribute) and function.attr in names
