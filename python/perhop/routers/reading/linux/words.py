"""Words of a shell script: their parts, their expansion, and integer arithmetic.

Nothing is executed. What only an execution can tell stays as it is written, such as ``$1``.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ASSIGNMENT", "SPECIAL", "TOKEN", "Variables", "unknown"]

_PARTS: Final = (
    r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|\$\(\((?:[^()]|\([^()]*\))*\)\)"
    r"|\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`|\$\{[^}]*\}|\$\[[^\]]*\]"
    r"|\$[A-Za-z_]\w*|\$[0-9@*#?!$-]|\{[0-9]{1,6}\.\.[0-9]{1,6}\}"
)
_PLAIN: Final = r"[^\s;&|<>()'\"\\`$]"
TOKEN: Final = re.compile(
    rf"(?P<space>[ \t]+)|(?P<comment>(?<![^\s;&|()])#.*)|(?P<redirect>[0-9]?(?:<<<|<<-?|[<>]&"
    rf"|>>|<|>)|&>>?)|(?P<operator>;;&?|&&|\|\||\|&|[;&|()\n])"
    rf"|(?P<word>(?:{_PARTS}|{_PLAIN})+)|(?P<open>['\"`]|\$[({{\[])(?s:.*)|(?P<other>(?s:.))"
)
"""A part of a line. A quote or bracket that never ends takes the rest of the line (`open`)."""

ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_PART: Final = re.compile(rf"(?:{_PARTS})|{_PLAIN}+|(?s:.)")
SPECIAL: Final = re.compile(r"[$`'\"\\{]")
"""What a word needs to stand for anything but itself."""

_NAMED: Final = re.compile(r"\$\{([A-Za-z_]\w*|[0-9@*])(?:(:?[-=])(.*))?\}", re.DOTALL)
_EXPRESSION: Final = re.compile(r"\s*(?:([0-9]{1,18})|([A-Za-z_]\w*)|([-+*/%()]))")
_UNKNOWN: Final = re.compile(r"\$[\w({\[@*#?!$-]|`")
_MOST: Final = 4096
_DEEPEST: Final = 8
_MOST_RANGE: Final = 256


def unknown(text: str) -> str:
    """Return the first part of `text` that only an execution could expand; "" if there is none."""
    match = _UNKNOWN.search(text)
    if match is None:
        return ""
    part = _PART.match(text, match.start())
    return part[0][:40] if part else match[0]


class Variables:
    """The variables of a script, as far as it assigns them itself."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}

    def assign(self, name: str, text: str, *, more: bool = False) -> None:
        """Set a variable to a word of the script; `more` appends."""
        value = " ".join(self.expand(text, split=False))
        if more:
            value = (self.values.get(name) or "") + value
        whole = unknown(value)
        ran = "$(" in value or "`" in value
        lost = len(value) > _MOST or ran or (bool(whole) and whole == value)
        self.values[name] = None if lost else value

    def expand(self, word: str, *, split: bool = True, depth: int = 0) -> list[str]:
        """Return the words that a word of the script stands for."""
        if not SPECIAL.search(word):
            return [word]
        if depth > _DEEPEST:
            return [word[:_MOST]]
        words: list[str] = []
        now: str | None = None
        for part in _PART.findall(word):
            text, splits = self._part(part, depth)
            if (
                splits
                and split
                and text != part
                and (text[:1].isspace() or text[-1:].isspace() or " " in text)
            ):
                pieces = text.split()
                if text[:1].isspace() and now is not None:
                    words.append(now)
                    now = None
                for index, piece in enumerate(pieces):
                    if index:
                        words.append(now or "")
                        now = piece
                    else:
                        now = (now or "") + piece
                if text[-1:].isspace() and now is not None:
                    words.append(now)
                    now = None
            elif text or not splits:
                now = (now or "") + text
            if (now and len(now) > _MOST) or len(words) > _MOST:
                return [word[:_MOST]]
        return words if now is None else [*words, now]

    def listed(self, word: str) -> list[str] | None:
        """Return the values of a word in the list of a loop; None if they are not known."""
        ranged = re.fullmatch(r"\{([0-9]{1,6})\.\.([0-9]{1,6})\}", word)
        if ranged is None:
            inner = re.fullmatch(r"(?:\$\(|`)\s*seq\s+([^)`]*)(?:\)|`)", word)
            if inner is not None:
                ends = [each for part in inner[1].split() for each in self.expand(part)]
                if all(re.fullmatch("[0-9]{1,6}", each) for each in ends) and 1 <= len(ends) <= 2:
                    low, high = (1, int(ends[0])) if len(ends) == 1 else map(int, ends)
                    return [str(each) for each in range(low, min(high, low + _MOST_RANGE) + 1)]
            words = self.expand(word)
            return None if any(unknown(each) for each in words) else words
        low, high = int(ranged[1]), int(ranged[2])
        if low > high:
            return [str(each) for each in range(low, max(high, low - _MOST_RANGE) - 1, -1)]
        return [str(each) for each in range(low, min(high, low + _MOST_RANGE) + 1)]

    def _part(self, part: str, depth: int) -> tuple[str, bool]:
        """Return the text of a part, and whether it is split into words."""
        first = part[0]
        if first == "'" and len(part) > 1:
            return part[1:-1], False
        if first == '"' and len(part) > 1:
            inside = "".join(
                part_[1] if part_[0] == "\\" and part_[1:] in ('"', "\\", "$", "`") else text
                for part_ in _PART.findall(part[1:-1].replace("'", "\\'"))
                for text in (self._quoted(part_, depth),)
            )
            return inside, False
        if first == "\\":
            return ("" if part[1:] == "\n" else part[1:]), False
        if first == "$" and len(part) > 1:
            return self._dollar(part, depth), True
        if first == "`" and len(part) > 1:
            return self._substitution(part[1:-1], part, depth), True
        return part, False

    def _quoted(self, part: str, depth: int) -> str:
        if part == "\\'":
            return "'"
        if part[0] in "$`" and len(part) > 1:
            return self._part(part, depth)[0]
        return part

    def _dollar(self, part: str, depth: int) -> str:
        if part.startswith("$(("):
            return self._arithmetic(part[3:-2], part, depth)
        if part.startswith("$["):
            return self._arithmetic(part[2:-1], part, depth)
        if part.startswith("$("):
            return self._substitution(part[2:-1], part, depth)
        if part.startswith("${"):
            match = _NAMED.fullmatch(part)
            if match is None:
                return part
            value = self.values.get(match[1])
            if match[2] and (value is None or (":" in match[2] and not value)):
                return " ".join(self.expand(match[3], split=False, depth=depth + 1))
            return part if value is None else value
        value = self.values.get(part[1:])
        return part if value is None else value

    def _substitution(self, text: str, whole: str, depth: int) -> str:
        words = text.split()
        if words[:1] == ["expr"]:
            return self._arithmetic(" ".join(words[1:]).replace("\\", ""), whole, depth)
        if words[:1] == ["echo"] and not re.search(r"[|;&<>]", text):
            return " ".join(self.expand(" ".join(words[1:]), split=False, depth=depth + 1))
        return whole

    def _arithmetic(self, text: str, whole: str, depth: int) -> str:
        """Return the value of an expression of integers; `whole` if it has other things in it."""
        plain = " ".join(self.expand(text, split=False, depth=depth + 1))
        tokens: list[str] = []
        at = 0
        while at < len(plain.rstrip()):
            match = _EXPRESSION.match(plain, at)
            if match is None or len(tokens) > 200:
                return whole
            token = match[0].strip()
            if match[2]:
                token = self.values.get(token) or ""
            if not token or not re.fullmatch(r"[0-9]{1,18}|[-+*/%()]", token):
                return whole
            tokens.append(token)
            at = match.end()
        try:
            value, rest = _sum(tokens, 0, 0)
        except (IndexError, ValueError, ZeroDivisionError):
            return whole
        return str(value) if rest == len(tokens) and abs(value) < 2**63 else whole


def _sum(tokens: list[str], at: int, depth: int) -> tuple[int, int]:
    value, at = _product(tokens, at, depth)
    while at < len(tokens) and tokens[at] in "+-":
        other, after = _product(tokens, at + 1, depth)
        value = value + other if tokens[at] == "+" else value - other
        at = after
    return value, at


def _product(tokens: list[str], at: int, depth: int) -> tuple[int, int]:
    value, at = _atom(tokens, at, depth)
    while at < len(tokens) and tokens[at] in "*/%":
        other, after = _atom(tokens, at + 1, depth)
        if tokens[at] == "*":
            value *= other
        else:
            quotient = abs(value) // abs(other) * (1 if (value < 0) == (other < 0) else -1)
            value = quotient if tokens[at] == "/" else value - quotient * other
        if abs(value) >= 2**63:
            raise ValueError("overflow")
        at = after
    return value, at


def _atom(tokens: list[str], at: int, depth: int) -> tuple[int, int]:
    if depth > 32:
        raise ValueError("nested too deep")
    if tokens[at] == "(":
        value, at = _sum(tokens, at + 1, depth + 1)
        if tokens[at] != ")":
            raise ValueError("expected a bracket")
        return value, at + 1
    if tokens[at] == "-":
        value, at = _atom(tokens, at + 1, depth + 1)
        return -value, at
    return int(tokens[at]), at + 1
