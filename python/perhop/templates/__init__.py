"""Templates: commented scenarios of usual networks, to start from.

Each is a YAML file beside this one, whose first line is a comment that describes it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from perhop.errors import OutputError, UsageError
from perhop.hints import did_you_mean
from perhop.units import quote

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["descriptions", "names", "text", "write"]


@cache
def names() -> tuple[str, ...]:
    """Return the names of the templates, sorted."""
    entries = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))


def text(name: str) -> str:
    """Return the file of a template.

    Raises:
        UsageError: There is no such template.
    """
    if name not in names():
        hint = did_you_mean(name.removesuffix(".yaml"), names())
        if name.endswith(".yaml") and not hint:
            hint = f"`perhop new dsl --out {name}` writes the template `dsl` to this file"
        message = f"{quote(name)} is not a template; there are {', '.join(names())}"
        raise UsageError("; ".join(filter(None, [message, hint])))
    return files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")


def descriptions() -> dict[str, str]:
    """Return the first line of each template, which describes it, by name."""
    return {name: text(name).partition("\n")[0].removeprefix("# ") for name in names()}


def write(name: str, out: Path) -> None:
    """Write a template to a new file.

    Raises:
        UsageError: There is no such template.
        OutputError: The file exists, or cannot be written.
    """
    content = text(name)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise OutputError(f"{out} exists; give another file by --out") from None
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}") from error
