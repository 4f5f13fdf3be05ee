"""A single fault in a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """A replacement of characters of a file.

    Attributes:
        path: The file, relative to the root of the repository.
        begin: The first character that is replaced.
        end: The first character after those.
        text: What replaces them.
        source: The text of the file without the fault.
    """

    path: str
    begin: int
    end: int
    text: str
    source: str

    @property
    def mutated(self) -> str:
        """The text of the file with the fault."""
        return self.source[: self.begin] + self.text + self.source[self.end :]

    @property
    def number(self) -> int:
        """The number of its line."""
        return self.source.count("\n", 0, self.begin) + 1

    @property
    def key(self) -> tuple[str, str, str]:
        """The file, the line and the line with the fault, without spaces between words.

        It stays the same when lines are added above.
        """
        first = self.source.rfind("\n", 0, self.begin) + 1
        last = self.source.find("\n", self.end)
        before, after = self.source[first : self.begin], self.source[self.end : last]
        line = before + self.source[self.begin : self.end] + after
        return self.path, one_line(line), one_line(before + self.text + after)

    def __str__(self) -> str:
        """Name the place, what stood there and what stands there now."""
        path, line, mutated = self.key
        return f"{path}:{self.number}\n  - {line}\n  + {mutated}"


def one_line(text: str) -> str:
    """Return a text with one space wherever it has any."""
    return " ".join(text.split())
