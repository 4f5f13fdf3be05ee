"""Texts changed at random, fast: their lines, words and characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

HOSTILE: Final = (
    *("", " ", "\t", "{", "}", "[", "]", "(", ")", ";", ",", ":", "/", "\\", "#", "!", "*", "|"),
    *("'", '"', "`", "$", "$(", "${", "$((", "<<E", "&&", "/*", "*/", "<", ">", "=", "\r", "\x08"),
    *("0", "-1", "1.5", "64", "65536", "4294967296", "99999999999999999999", "1e999", "0x", "²"),
    *("٣", "\u202e", "\x1b[2J", "é", "\U0001f600", "any", "no", "not", "none", "set", "match"),
    *("0%", "100%", "1000%", "1000kbit", "8g", "0.0.0.0/0", "::/0", "10.0.0.1/33", "1-65535"),
    *("null", "true", "{}", "[]", '""', "--More--", "x" * 300, "1:1", "ffff:", "7-1", "-"),
)
"""Words that mean something to some reader."""

MOST_LINES: Final = 60
"""The most lines of an ordinary input."""

_LONG: Final = 2000
"""One input of so many is long: a piece of it is repeated."""

_MOST_LONG: Final = 30_000
"""The most characters of a long input."""


def damaged(seeds: Sequence[list[str]], random: Random) -> str:
    """Return a part of a text, changed in one to four places.

    Args:
        seeds: The lines of texts of one family.
        random: The source of randomness.
    """
    lines = _part(seeds, random)
    for _ in range(1 + (random.getrandbits(3) & random.getrandbits(2))):
        _change(lines, seeds, random)
    if random.randrange(_LONG) == 0:
        lines = _repeated(lines, random)
    return "\n".join(lines)


def _part(seeds: Sequence[list[str]], random: Random) -> list[str]:
    """Return some lines that follow one another; half of the inputs have less than six."""
    seed = seeds[random.randrange(len(seeds))]
    length = min(1 << random.randrange(7), MOST_LINES, len(seed))
    length = 1 + random.randrange(length)
    start = random.randrange(len(seed) - length + 1)
    part = seed[start : start + length]
    return [line if len(line) <= _LONG else line[:_LONG] for line in part]


def _change(lines: list[str], seeds: Sequence[list[str]], random: Random) -> None:
    """Change one place of a text."""
    if not lines:
        lines.append("")
    at = random.randrange(len(lines))
    kind = random.randrange(12)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(random.randrange(len(lines) + 1), lines[at])
    elif kind == 2:
        lines[at:at] = _part(seeds, random)[:8]
    elif kind == 3:
        line = lines[at]
        cut = random.randrange(len(line) + 1)
        lines[at] = line[:cut]
    elif kind == 4:
        line = lines[at]
        cut = random.randrange(len(line) + 1)
        put = chr(random.choice((9, 32, 34, 92, 123, 125, random.randrange(1, 256), 0x2028)))
        lines[at] = line[:cut] + put + line[cut + random.getrandbits(1) :]
    elif kind == 5:
        other = random.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 6:
        lines[at] = f"{lines[at]} {lines.pop(at + 1)}" if at + 1 < len(lines) else ""
    else:
        _change_word(lines, at, seeds, random)


def _change_word(lines: list[str], at: int, seeds: Sequence[list[str]], random: Random) -> None:
    """Replace, remove, repeat or add a word of a line."""
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    words = lines[at].split()
    if not words:
        lines[at] = random.choice(HOSTILE)
        return
    index = random.randrange(len(words))
    kind = random.randrange(6)
    if kind == 0:
        del words[index]
    elif kind == 1:
        words.insert(index, words[random.randrange(len(words))])
    elif kind == 2:
        words[index] = random.choice(HOSTILE)
    elif kind == 3:
        words.insert(index, random.choice(HOSTILE))
    else:
        seed = seeds[random.randrange(len(seeds))]
        others = seed[random.randrange(len(seed))].split()
        if others:
            words[index] = random.choice(others)
    lines[at] = indent + " ".join(words)


def _repeated(lines: list[str], random: Random) -> list[str]:
    """Return a text with one of its pieces many times, with other numbers."""
    start = random.randrange(len(lines)) if lines else 0
    piece = lines[start : start + 1 + random.randrange(8)]
    size = sum(map(len, piece)) + len(piece)
    times = 1 + random.randrange(max(_MOST_LONG // max(size, 1), 1))
    many: list[str] = []
    for number in range(times):
        many += [line.replace("1", str(number), 1) for line in piece]
    return [*lines[:start], *many, *lines[start:]]
