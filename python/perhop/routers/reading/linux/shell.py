"""Shell scripts as the commands that they would run, as far as the text tells.

Assignments, functions, and loops over words are followed. Every branch of a condition counts, and
nothing is executed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Place
from perhop.routers.reading.linux.words import ASSIGNMENT, SPECIAL, TOKEN, Variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.routers.reading.configuration import Source

__all__ = ["SAYS", "Command", "commands"]

_PLAIN: Final = r"[\w \t./:,=%+*@^-]*"
_VARIABLE: Final = r"\$(?:[A-Za-z_]|\{[A-Za-z_]\w*\})"
_FAST: Final = re.compile(
    rf"{_PLAIN}(?:(?:{_VARIABLE}|\"{_PLAIN}(?:{_VARIABLE}{_PLAIN})*\"){_PLAIN})*", re.ASCII
)
"""A line whose words are easily told: variables and double quotes with nothing special in them."""

_ARITHMETIC_LOOP: Final = re.compile(r"^([^#'\"]{0,200}?)\bfor[ \t]*\(\([^()]*\)\)")
"""A loop over numbers, whose values only an execution tells."""

_FAST_WORD: Final = re.compile(r"[^\s\"]+(?:\"[^\"]*\"[^\s\"]*)*|(?:\"[^\"]*\"[^\s\"]*)+")
_TOOL: Final = re.compile(r"\s*(?:\S+/)?(?:sudo\s+)?(?:tc|nft|ip6?tables)\s")
_BEFORE: Final = frozenset({"then", "else", "do", "{", "!", "time", "exec", "command", "(", "fi"})
_ENDS: Final = {"fi": "if", "done": "loop", "esac": "case", "}": "function"}
_OPENS: Final = frozenset({"if", "while", "until", "select", "for", "case", "function", "elif"})
_WORDS: Final = _BEFORE | _OPENS | _ENDS.keys()
"""Words that open, continue or close a block."""

SAYS: Final = frozenset(
    (
        *("echo", "printf", "log", "logger", "which", "type", "apt", "apt-get", "rm", "cat"),
        *("[", "[[", "((", "test", "sleep", "shift", "return", "exit", "break", "continue"),
    )
)
"""Commands whose words are no commands."""

_TOOLS: Final = frozenset({"tc", "nft", "iptables", "ip6tables"})
"""Commands that functions of the same name are wrappers of."""

_LEAVES: Final = frozenset({"exit", "return"})
_DECLARES: Final = frozenset({"export", "local", "declare", "readonly", "typeset"})
_CLOSES: Final = {"$(": ")", "${": "}", "$[": "]"}
_MOST_JOINED: Final = 64
_MOST_LINE: Final = 2**16
_MOST_STEPS: Final = 50_000
_WORDS_OF_STEP: Final = 32
_MOST_VALUES: Final = 256
_DEEPEST: Final = 32


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command.

    Attributes:
        place: Its first line.
        text: The text of its first line.
        words: Its words, expanded as far as the script tells.
        body: The lines of its here-document.
        branch: True if it depends on a condition.
        lost: Why its words are not known, such as a loop, or why it never runs; "" for others.
        ended: True if it never runs, as it stands after an ``exit`` or ``return``.
    """

    place: Place
    text: str
    words: tuple[str, ...]
    body: tuple[tuple[Place, str], ...] = ()
    branch: bool = False
    lost: str = ""
    ended: bool = False


@dataclass(slots=True)
class _Simple:
    """A command as it is written; without `words`, those of `text`, which has no quotes.

    It is `other` after ``||``, and in `doubt` after ``&&``, too, and in a subshell.
    """

    place: Place
    text: str
    words: list[str] | None = None
    body: list[tuple[Place, str]] | None = None
    quoted: bool = False
    other: bool = False
    doubt: bool = False


@dataclass(slots=True)
class _Block:
    """Commands within words that open and close them.

    A function is `braced` from its ``{`` on; another ``{`` opens a group.
    """

    kind: str
    nodes: list[_Simple | _Block] = field(default_factory=list)
    name: str = ""
    values: list[str] | None = None
    braced: bool = False


def commands(source: Source) -> Iterator[Command]:
    """Yield the commands of a script in the order in which it would run them."""
    return _Run().run(_parse(source))


def _parse(source: Source) -> Iterator[_Simple | _Block]:
    """Yield the structure of a script: its commands, and its blocks when they end."""
    lines = source.text.split("\n")
    ends: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if len(line) < 40:
            ends.setdefault(line.strip(), []).append(number)
    top = _Block("top")
    stack = [top]
    at = 0
    doubt = False
    while at < len(lines):
        if len(stack) == 1 and top.nodes:
            yield from top.nodes
            top.nodes = []
        place = Place(source.file, at + 1)
        text = first = lines[at]
        at += 1
        while text.endswith("\\") and at < len(lines) and len(text) < _MOST_LINE:
            text = f"{text[:-1]} {lines[at].lstrip()}"
            at += 1
        stripped = text.strip()
        if not stripped or stripped[0] == "#" or len(text) > _MOST_LINE:
            continue
        if _FAST.fullmatch(text):
            quoted = '"' in text
            words = _FAST_WORD.findall(text) if quoted else text.split()
            if words[0] in _WORDS:
                _place(stack, _Simple(place, first, words, doubt=doubt), pattern=False)
            else:
                known = words if quoted or text is not first else None
                stack[-1].nodes.append(_Simple(place, first, known, doubt=doubt))
            doubt = False
            continue
        if "((" in text:
            text = _ARITHMETIC_LOOP.sub(r"\1for _", text)
        tokens, at = _tokens(text, lines, at)
        here: list[tuple[_Simple, str, bool]] = []
        doubt = _structure(stack, tokens, place, first, here, doubt=doubt)
        for command, end, quoted in here:
            numbers = ends.get(end, [])
            index = bisect_left(numbers, at)
            if index < len(numbers):
                command.body = [
                    (Place(source.file, number + 1), lines[number])
                    for number in range(at, numbers[index])
                ]
                command.quoted = quoted
                at = numbers[index] + 1
    yield from top.nodes


def _tokens(text: str, lines: list[str], at: int) -> tuple[list[tuple[str, str]], int]:
    """Return the tokens of a line, with the lines after it that its quotes include."""
    found, start, within = _scan(text)
    more, joined = found[:-1], text
    for after in range(at, min(at + _MOST_JOINED, len(lines)) if start >= 0 else at):
        if _TOOL.match(lines[after]) or len(joined) > _MOST_LINE:
            break
        joined = f"{joined}\n{lines[after]}"
        if _CLOSES.get(found[-1][1], found[-1][1]) not in lines[after]:
            continue
        rest, opened, inside = _scan(joined, start)
        if opened == start:
            continue
        if within:
            rest[0] = ("word", more.pop()[1] + rest[0][1])
        more += rest
        if opened < 0:
            return more, after + 1
        more.pop()
        start, within = opened, inside
    return found, at


def _scan(text: str, start: int = 0) -> tuple[list[tuple[str, str]], int, bool]:
    """Return the tokens of a text from a place on.

    Then where a quote begins that has no end, or -1, and whether it is within a word.
    """
    tokens = []
    word = -1
    for match in TOKEN.finditer(text, start):
        kind = match.lastgroup or ""
        if kind == "open":
            tokens.append((kind, match["open"]))
            return tokens, match.start(), word == match.start()
        if kind == "word":
            word = match.end()
        if kind not in ("space", "comment", "other"):
            tokens.append((kind, match[0]))
    return tokens, -1, False


def _structure(
    stack: list[_Block],
    tokens: list[tuple[str, str]],
    place: Place,
    text: str,
    here: list[tuple[_Simple, str, bool]],
    *,
    doubt: bool,
) -> bool:
    """Add the commands of a line to the structure; return whether it ends in ``&&`` or ``||``.

    Args:
        stack: The open blocks.
        tokens: The tokens of the line.
        place: The line.
        text: Its text.
        here: Where commands with here-documents are added.
        doubt: True if the line before ends in ``&&`` or ``||``.
    """
    now = _Simple(place, text, [], doubt=doubt)
    within = 0
    target = ""
    for kind, token in [*tokens, ("operator", "\n")]:
        assert now.words is not None
        if kind == "redirect":
            target = token
        elif kind == "word":
            if target.endswith(("<<", "<<-")):
                end = re.sub(r"['\"\\]", "", token)
                here.append((now, end, end != token))
            if not target:
                now.words.append(token)
            target = ""
        elif kind == "operator":
            target = ""
            called = (
                len(now.words) == 1
                and now.words[0] not in _WORDS
                and re.fullmatch(r"[\w-]+", now.words[0])
            )
            if token == "(" and called:
                _open(stack, _Block("function", name=now.words[0]))
                now = _Simple(place, text, [])
                within = -1  # its own brackets
                continue
            doubt = not now.words and now.doubt and not within
            if now.words:
                _place(stack, now, pattern=token == ")")
            within = max(within + {"(": 1, ")": -1}.get(token, 0), 0) if within >= 0 else 0
            now = _Simple(place, text, [], other=token == "||")
            now.doubt = token in ("||", "&&") or within > 0
    return doubt


def _open(stack: list[_Block], block: _Block) -> None:
    if len(stack) <= _DEEPEST:
        stack[-1].nodes.append(block)
        stack.append(block)


def _place(stack: list[_Block], command: _Simple, *, pattern: bool) -> None:
    """Put a command where it belongs; its first words may open or close a block."""
    words = command.words or []
    while words:
        word = words[0]
        if word in _ENDS:
            kinds = (_ENDS[word], "group" if word == "}" else "")
            depth = next((i for i in range(len(stack) - 1, 0, -1) if stack[i].kind in kinds), 0)
            if depth:
                del stack[depth:]
        elif word == "{":
            if stack[-1].kind == "function" and not (stack[-1].braced or stack[-1].nodes):
                stack[-1].braced = True
            else:
                _open(stack, _Block("group"))
        elif word == "if":
            _open(stack, _Block("if"))
        elif word in ("while", "until", "select"):
            _open(stack, _Block("loop"))
        elif word == "for":
            known = len(words) > 2 and words[2] == "in"
            name = words[1] if len(words) > 1 else ""
            _open(stack, _Block("loop", name=name, values=words[3:] if known else None))
            return
        elif word == "case":
            _open(stack, _Block("case"))
            return
        elif word == "function" and len(words) > 1:
            _open(stack, _Block("function", name=words[1].rstrip("()")))
            words = words[1:]
        elif word not in _BEFORE and word != "elif":
            break
        words = words[1:]
    if words and not (pattern and stack[-1].kind == "case"):
        command.words = words
        stack[-1].nodes.append(command)


class _Run:
    """One pass through a script."""

    def __init__(self) -> None:
        self._variables = Variables()
        self._functions: dict[str, _Block] = {}
        self._called: set[str] = set()
        self._active: set[str] = set()
        self._done: set[tuple[Place, tuple[str, ...]]] = set()
        self._steps = 0
        self._ended = ""
        """Why no later command of the script runs; "" while they do."""
        self._returned = ""
        """The same of the function that runs."""

    def run(self, nodes: Iterable[_Simple | _Block]) -> Iterator[Command]:
        """Yield the commands, then those of functions that nothing calls."""
        yield from self._nodes(nodes, branch=False, lost="", depth=0)
        self._ended = ""
        while rest := [name for name in self._functions if name not in self._called]:
            for name in rest:
                self._called.add(name)
                nodes = self._functions[name].nodes
                yield from self._nodes(nodes, branch=True, lost="", depth=1, doubt=True)

    def _nodes(
        self,
        nodes: Iterable[_Simple | _Block],
        *,
        branch: bool,
        lost: str,
        depth: int,
        doubt: bool = False,
    ) -> Iterator[Command]:
        """Yield the commands of nodes; with `doubt`, an ``exit`` in them may not be reached."""
        for node in nodes:
            if isinstance(node, _Simple):
                doubted = doubt or branch or node.doubt
                yield from self._simple(node, branch or node.other, lost, depth, doubted)
            elif node.kind == "function":
                self._functions[node.name] = node
            elif node.kind == "loop":
                yield from self._loop(node, branch, lost, depth)
            else:
                either = branch or node.kind != "group"
                yield from self._nodes(
                    node.nodes, branch=either, lost=lost, depth=depth, doubt=True
                )

    def _loop(self, node: _Block, branch: bool, lost: str, depth: int) -> Iterator[Command]:
        values: list[str] | None = []
        for word in node.values if node.values is not None else ():
            some = self._variables.listed(word)
            values = None if some is None or values is None else values + some
        self._steps += 1 + len(values or ()) // _WORDS_OF_STEP
        known = node.values is not None and values is not None and len(values) <= _MOST_VALUES
        if not known or not values or self._steps > _MOST_STEPS or lost:
            reason = "it is in a loop over values that the script does not contain"
            if known and not values:
                reason = "it is in a loop over an empty list"
            self._variables.values.pop(node.name, None)
            yield from self._nodes(
                node.nodes, branch=branch, lost=lost or reason, depth=depth, doubt=True
            )
            return
        for value in values or ():
            self._steps += 1
            self._variables.values[node.name] = value
            yield from self._nodes(node.nodes, branch=branch, lost=lost, depth=depth, doubt=True)
            if self._steps > _MOST_STEPS:
                break

    def _simple(
        self, node: _Simple, branch: bool, lost: str, depth: int, doubt: bool
    ) -> Iterator[Command]:
        self._steps += 1
        words = all_words = node.text.split() if node.words is None else node.words
        variables = self._variables
        if words[0] in _DECLARES:
            words = [word for word in words[1:] if word[0] != "-"]
        assigned = 0
        for word in words:
            match = ASSIGNMENT.match(word) if "=" in word else None
            if match is None:
                break
            if lost:
                variables.values[match[1]] = None
            else:
                variables.assign(match[1], word[match.end() :], more=bool(match[2]))
            assigned += 1
        if words is not all_words or assigned == len(words):
            return
        if words[assigned] in SAYS and words[assigned] not in self._functions:
            if words[assigned] in _LEAVES and not doubt:
                self._leave(words[assigned], node.place, depth)
            return
        if words[0] == "read":
            for word in words[1:]:
                variables.values.pop(word, None)
            return
        if node.words is None and "$" not in node.text:
            said = tuple(words[assigned:])
        else:
            expanded: list[str] = []
            for word in words[assigned:]:
                if SPECIAL.search(word):
                    expanded += variables.expand(word)
                else:
                    expanded.append(word)
            said = tuple(expanded)
        if not said:
            return
        self._steps += len(said) // _WORDS_OF_STEP
        function = self._functions.get(said[0]) if said[0] not in _TOOLS else None
        active = said[0] in self._active
        ended = self._ended or self._returned
        if function is not None and ended and said[0] in self._called:
            return
        if function is not None and not active and depth < 8 and self._steps < _MOST_STEPS:
            yield from self._call(function, said, branch, lost, depth, doubt)
            return
        if branch:
            # Branches such as `start` and `restart` repeat the same commands.
            if (node.place, said) in self._done:
                return
            self._done.add((node.place, said))
        body = tuple(
            (place, line if node.quoted else _in_document(line, variables))
            for place, line in node.body or ()
        )
        yield Command(node.place, node.text, said, body, branch, ended or lost, bool(ended))

    def _leave(self, word: str, place: Place, depth: int) -> None:
        """Note that nothing after a command runs, in the function or in the script."""
        reason = f"it never runs: it stands after `{word}` in line {place.line}"
        if word == "return" and depth:
            self._returned = self._returned or reason
        else:
            self._ended = self._ended or reason

    def _call(
        self,
        function: _Block,
        said: tuple[str, ...],
        branch: bool,
        lost: str,
        depth: int,
        doubt: bool,
    ) -> Iterator[Command]:
        self._called.add(said[0])
        values = self._variables.values
        kept = {key: value for key, value in values.items() if key in "123456789@*#"}
        given = {str(index): word for index, word in enumerate(said[1:10], 1)}
        given |= {"@": " ".join(said[1:]), "*": " ".join(said[1:]), "#": str(len(said) - 1)}
        for key in kept:
            del values[key]
        values.update(given)
        self._active.add(said[0])
        returned = self._returned
        yield from self._nodes(
            function.nodes, branch=branch, lost=lost, depth=depth + 1, doubt=doubt
        )
        self._returned = returned
        self._active.discard(said[0])
        for key in given:
            values.pop(key, None)
        values.update(kept)


def _in_document(line: str, variables: Variables) -> str:
    """Return a line of a here-document with the values of variables; quotes stay."""
    parts = re.split(r"(['\"])", line)
    return "".join(part for each in parts for part in variables.expand(each, split=False))
