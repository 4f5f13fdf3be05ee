"""Commands of scripts that run others, which perhop does not read: files, pipes and machines."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.effect import UNREAD
from perhop.routers.reading.linux.tc import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from perhop.routers.reading.linux.shell import Command

__all__ = ["elsewhere"]

_TOOL: Final = re.compile(r"(?:^|[\s/;&|({$])(?:tc|nft|ip6?tables(?:-restore)?)(?=$|[\s})])", re.I)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_PREFIXES: Final = frozenset({"sudo", "exec", "command", "env", "nohup", "busybox"})
_REMOTE: Final = frozenset(
    {"ssh", "rsh", "pssh", "adb", "docker", "podman", "lxc", "lxc-attach", "kubectl"}
)
_SETTINGS: Final = re.compile(
    r"(?:/usr)?/lib/(?:lsb/|functions|config/|netifd/)|/etc/(?:rc\.d/)?init\.d/functions"
    r"|/etc/(?:default|sysconfig|conf\.d|profile)\b|/etc/rc\.(?:conf|common|subr)|/etc/os-release"
)
"""Files of systems that set variables or define functions of their own."""

_BATCH: Final = {"tc": "-b(?:a(?:t(?:ch?)?)?)?", "nft": "-[a-zA-Z]*f|--file"}
"""The options of tools that read commands from a file."""

_FILE: Final = f"{UNREAD}: give their file, too"


def elsewhere(command: Command, files: Collection[str]) -> str:
    """Return why perhop does not read what a command runs; "" if it runs nothing, or perhop does.

    Args:
        command: The command.
        files: The names of the files that perhop reads.
    """
    words = list(command.words)
    while len(words) > 1 and (words[0] in _PREFIXES or words[0].startswith("-")):
        words.pop(0)
    name = words[0].rpartition("/")[2]
    if command.ended:
        return ""
    if name in (".", "source"):
        return "" if len(words) < 2 or _is_read(words[1], files) else _FILE
    if name in _SHELLS:
        return _shell(words[1:], files)
    if name == "eval":
        return UNREAD if any(" " in word and _TOOL.search(word) for word in words[1:]) else ""
    if name == "xargs":
        return UNREAD if any(map(_TOOL.search, words[1:])) else ""
    tool = next((at for at, word in enumerate(words) if _TOOL.fullmatch(word)), len(words))
    if tool < len(words) and _REMOTE.intersection(words[:tool]):
        return "it is a command for another machine"
    return "" if command.body else _batch(name, words[1:], command.text, files)


def _shell(words: Sequence[str], files: Collection[str]) -> str:
    options = [word for word in words if word[:1] == "-"]
    if any("c" in option for option in options if not option.startswith("--")):
        return UNREAD if any(map(_TOOL.search, words)) else ""
    named = next((word for word in words if word[:1] != "-"), "")
    return "" if named and _is_read(named, files) else _FILE if named else UNREAD


def _batch(tool: str, words: Sequence[str], text: str, files: Collection[str]) -> str:
    """Return why the commands that tc, nft or a restoring tool takes from a file are not read."""
    option = _BATCH.get(tool)
    if tool == "tc":
        # Behind its object, a word with a hyphen is no option of tc.
        objects = (i for i, word in enumerate(words) if word in OBJECTS)
        words = words[: next(objects, len(words))]
    at = next((i for i, word in enumerate(words) if option and re.fullmatch(option, word)), -1)
    if at < 0 and not tool.endswith("-restore"):
        return ""
    named = next((word for word in words[at + 1 :] if word[:1] != "-"), "")
    if not named and (redirected := re.search(r"(?<!<)<[ \t]*([^\s<;|&]+)", text)):
        named = redirected[1]
    if not named:
        return f"{UNREAD}: they come from another command"
    return "" if _is_read(named, files) else _FILE


def _is_read(path: str, files: Collection[str]) -> bool:
    """Return whether a file is one that perhop reads, or that is about other things."""
    return PurePath(path).name in files or _SETTINGS.match(path) is not None
