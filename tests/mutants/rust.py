"""Faults in Rust: the text as rustfmt writes it, without a parser.

Whatever does not compile is no fault, and is left out later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mutants.mutation import Mutation

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATORS: Final = {
    " < ": (" <= ",),
    " <= ": (" < ",),
    " > ": (" >= ",),
    " >= ": (" > ",),
    " == ": (" != ",),
    " != ": (" == ",),
    " + ": (" - ",),
    " - ": (" + ",),
    " * ": (" / ",),
    " / ": (" * ",),
    " % ": (" / ",),
    " << ": (" >> ",),
    " >> ": (" << ",),
    " && ": (" || ",),
    " || ": (" && ",),
    " += ": (" -= ", " = "),
    " -= ": (" += ", " = "),
    " *= ": (" /= ",),
    " |= ": (" &= ",),
    " &= ": (" |= ",),
    "..=": ("..",),
}
METHODS: Final = {
    "min": "max",
    "max": "min",
    "min_by_key": "max_by_key",
    "max_by_key": "min_by_key",
    "is_some": "is_none",
    "is_none": "is_some",
    "any": "all",
    "all": "any",
    "first": "last",
    "last": "first",
    "front": "back",
    "back": "front",
    "pop_front": "pop_back",
    "push_back": "push_front",
    "is_some_and": "is_none_or",
    "is_none_or": "is_some_and",
    "div_ceil": "wrapping_div",
    "take": "skip",
    "skip": "take",
}
CALLS: Final = ("min", "max", "saturating_sub", "saturating_add", "clamp", "filter", "rev")
"""Methods whose call is taken out."""

_HIDDEN = re.compile(
    r"//[^\n]*"  # comments
    r"|#!?\[[^\]]*\]"  # attributes
    r"|r?\"(?:\\.|[^\"\\])*\""  # strings
    r"|'(?:\\.|[^'\\\n])'"  # characters
    r"|\b(?:debug_)?assert(?:_eq|_ne)?!\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\);"
    r"|^\s*(?:pub(?:\([a-z]+\))? )?use [^;]*;",
    re.M,
)
_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{", re.M)
"""Begin of the tests at the end of a file. The line that names a file of tests may be anywhere."""
_OPERATOR = re.compile("|".join(map(re.escape, sorted(OPERATORS, key=len, reverse=True))))
_METHOD = re.compile(r"(?<=\.)(\w+)(?=\()")
_NUMBER = re.compile(
    r"(?<![\w.])(\d[\d_]*(?:\.\d[\d_]*)?)(?![\w.]|\.\d)|(?<![\w.])(\d[\d_]*)(?=\.\.)"
)
_WORD = re.compile(r"\b(true|false)\b|(?<=[ (])!(?=[\w(])")
_CONDITION = re.compile(r"\b(?:if|while) (?!let\b)([^{};]*?) \{", re.S)
_STATEMENT = re.compile(
    r"^[ ]+(?!let\b|return\b|use\b|pub\b|const\b|break\b|continue\b|type\b|mod\b|static\b|\}|\])"
    r"[\w*(][^{}\n]*;$",
    re.M,
)


def mutations(path: str, source: str) -> Iterator[Mutation]:
    """Yield the faults of a file outside tests, comments and assertions."""
    code = _TESTS.split(source)[0]
    hidden = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", "\0", match[0]), code)

    def fault(begin: int, end: int, text: str) -> Mutation:
        return Mutation(path, begin, end, text, source)

    for match in _OPERATOR.finditer(hidden):
        for other in OPERATORS[match[0]]:
            yield fault(*match.span(), other)
    for match in _METHOD.finditer(hidden):
        if match[1] in METHODS:
            yield fault(*match.span(1), METHODS[match[1]])
        end = _end_of_call(hidden, match.end())
        if match[1] in CALLS and end is not None:
            yield fault(match.start() - 1, end, "")
    for match in _NUMBER.finditer(hidden):
        group = 1 if match[1] else 2
        for other in _other_numbers(match[group]):
            yield fault(*match.span(group), other)
    for match in _WORD.finditer(hidden):
        yield fault(*match.span(), {"true": "false", "false": "true"}.get(match[0], ""))
    for match in _CONDITION.finditer(hidden):
        for word in ("true", "false") if hidden[match.start()] == "i" else ("false",):
            # Both sides are compiled, so that nothing becomes unused.
            joined = "||" if word == "true" else "&&"
            if "let " not in match[1]:
                yield fault(*match.span(1), f"{word} {joined} ({source[slice(*match.span(1))]})")
    for match in _STATEMENT.finditer(hidden):
        yield fault(match.end() - len(match[0].lstrip()), match.end(), "")


def _other_numbers(number: str) -> tuple[str, ...]:
    """Return other values of a literal: the double and half of a fraction; a neighbour."""
    plain = number.replace("_", "")
    if "." in plain:
        value = float(plain)
        return (repr(value * 2), repr(value / 2)) if value else ("1.0",)
    value = int(plain)
    return (str(value + 1), str(value // 2)) if value > 1 else (str(1 - value),)


def _end_of_call(text: str, begin: int) -> int | None:
    """Return the end of the parentheses that begin at a place."""
    depth = 0
    for index in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return None
