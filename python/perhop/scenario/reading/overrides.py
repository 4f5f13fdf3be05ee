"""``--set PATH=VALUE``: changes to a scenario's data before it is validated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from perhop.errors import Problem, ScenarioError
from perhop.hints import did_you_mean, listed
from perhop.scenario.model.classes import FROM
from perhop.scenario.model.text import kind_of
from perhop.scenario.model.topology import BY_SENDER
from perhop.scenario.reading.document import MAX_DEPTH, read_yaml
from perhop.scenario.resolve.scenario import direction_names
from perhop.scenario.rules.wording import creatable
from perhop.units import quote

if TYPE_CHECKING:
    from pydantic import BaseModel

    from perhop.scenario.model.base import Loc
    from perhop.scenario.reading.document import Document
    from perhop.scenario.rules.scenario import Scenario

Overrides = Mapping[str, str] | Iterable[str]
"""Values by path, or texts of the form ``PATH=VALUE``; a path is dotted, such as ``links.1.rate``,
and a value is YAML, such as ``10 Mbps`` or ``{rate: 5 Mbps}``. A link is given by its position, by
the name of one of its directions in results, as in ``links.r1>r2#2.rate``, or by its own name, as
in ``links.#south.rate``."""


def override_texts(overrides: Overrides) -> list[str]:
    """Return overrides as texts, such as ``links.1.rate=5 Mbps``."""
    if isinstance(overrides, Mapping):
        return [f"{path}={value}" for path, value in overrides.items()]
    return [*overrides]


def override(document: Document, text: str, model: type[BaseModel]) -> None:
    """Apply an override such as ``links.1.rate=5 Mbps``, the origin of what it sets from then on.

    The last step of a path may be a new key, and so may a key that `model` has, such as `tcp` in
    ``flows.bulk.tcp.window``; all other steps must exist. If a link has values by sending end, a
    value for one of its directions replaces that of the direction. Problems of the override are
    added to those of the document.
    """
    origin = f"--set {_shown(text)}"
    try:
        path, value = _split(text, origin)
        _apply(document, path, value, origin, model)
    except ScenarioError as error:
        document.problems += [
            Problem(origin, 0, 0, problem.path, problem.message, problem.hint)
            for problem in error.problems
        ]


def value_at(scenario: Scenario, path: str) -> Any:
    """Return the value that an override of a path would replace; None if there is none.

    Args:
        scenario: The scenario; what it does not set has its default.
        path: The path, as in `Overrides`.

    Raises:
        ScenarioError: The path leads nowhere.
    """
    steps = tuple(path.strip().split("."))
    parent: Any = scenario.model_dump(mode="json")
    loc: Loc = ()
    for depth, step in enumerate(steps):
        key = _key(parent, step, loc)
        if isinstance(parent, dict) and key not in parent:
            raise _unknown(step, parent, (*loc, key))
        value: Any = parent[key]
        if depth == len(steps) - 1:
            sender = _sender(steps, parent, key, None)
            return value[sender] if isinstance(value, dict) and sender in value else value
        if value is None:
            return None
        parent, loc = value, (*loc, key)
    return None


def _split(text: str, origin: str) -> tuple[Loc, Document]:
    """Return the path and the parsed value of ``PATH=VALUE``."""
    path, equals, value = text.partition("=")
    steps = path.strip().split(".")
    if not equals or not all(steps) or len(steps) > MAX_DEPTH:
        raise _wrong("is no override; expected PATH=VALUE such as `links.1.rate=10 Mbps`")
    if not value.strip():
        raise _wrong("has no value; expected one after `=`", path.strip())
    parsed = read_yaml(value, origin)
    if parsed.problems:
        raise ScenarioError(parsed.problems)
    return tuple(steps), parsed


def _apply(
    document: Document, steps: Loc, value: Document, origin: str, model: type[BaseModel]
) -> None:
    """Set the value at `steps`."""
    if not isinstance(document.data, dict):
        return  # the document itself has a problem
    parent: Any = document.data
    loc: Loc = ()
    for depth, step in enumerate(steps):
        last = depth == len(steps) - 1
        key = _key(parent, str(step), loc)
        loc = (*loc, key)
        if last:
            _check_reference(parent, loc)
            sender = _sender(steps, parent, key, value.data)
            if sender:
                _put(document, parent[key], (*loc, sender), value, origin)
            else:
                _put(document, parent, loc, value, origin)
        elif isinstance(parent, dict) and key not in parent:
            if not creatable(loc, model):
                raise _unknown(step, parent, loc)
            parent[str(key)] = {}
            document.origins[loc] = origin
        parent = parent[key]


def _check_reference(parent: Any, loc: Loc) -> None:
    """Refuse to set the file of a policy whose classes are written, or already read."""
    if len(loc) == 3 and (loc[0], loc[2]) == ("policies", FROM) and FROM not in parent:
        raise _wrong(
            "names a file for a policy that has classes; expected "
            f"`--set 'policies.{loc[1]}={{from: FILE}}'`, which replaces all of it",
            ".".join(map(str, loc)),
        )


def _unknown(step: Any, parent: Mapping[str, Any], loc: Loc) -> ScenarioError:
    """Return the error of a key that a mapping does not have."""
    names = ", ".join(parent) if len(parent) <= 8 else ""
    message = f"{quote(step)} is unknown" + (f"; there are {names}" if names else "")
    return _wrong(message, ".".join(map(str, loc)), did_you_mean(step, parent))


def _key(parent: Any, step: str, loc: Loc) -> str | int:
    """Return the key or index of `step` in `parent`."""
    path = ".".join(map(str, loc))
    if isinstance(parent, dict):
        return step
    if loc == ("links",) and isinstance(parent, list):
        links = _links(parent)
        if step in links:
            return links[step]
        if not step.isdigit():
            message = f"{quote(step)} is not a link{listed(links)}"
            raise _wrong(message, path, did_you_mean(step, links))
    if isinstance(parent, list):
        if step.isascii() and step.isdigit() and len(step) < 9 and int(step) < len(parent):
            return int(step)
        there = f"0 to {len(parent) - 1}" if parent else "none, it is empty"
        raise _wrong(f"{quote(step)} is not an element; expected {there}", path)
    raise _wrong(f"{kind_of(parent)} has no parts; expected a shorter path", path)


def _links(links: list[Any]) -> dict[str, int]:
    """Return the positions of links by the names of their directions, and by ``#name``.

    A name of several links is left out, and a malformed link has no name.
    """
    found: dict[str, int] = {}
    twice: set[str] = set()
    known = [_named(link) for link in links]
    for position, names in enumerate(direction_names(known)):
        own = known[position][1]
        for name in (*names, f"#{own}") if own else names:
            twice |= {name} & found.keys()
            found[name] = position
    return {name: at for name, at in found.items() if name not in twice and name[0] != ">"}


def _named(link: Any) -> tuple[tuple[str, str], str | None]:
    """Return the ends and the name of a link as it is written; no ends if it is malformed."""
    ends, name = (link.get("ends"), link.get("name")) if isinstance(link, dict) else (None, None)
    if isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, str) for end in ends):
        return (ends[0], ends[1]), name if isinstance(name, str) else None
    return ("", ""), None


def _sender(steps: Loc, parent: Any, key: str | int, value: Any) -> str:
    """Return the sending end whose value an override replaces; "" if it replaces the whole key."""
    if len(steps) != 3 or steps[0] != "links" or key not in BY_SENDER or isinstance(value, dict):
        return ""
    sender = str(steps[1]).partition(">")[0]
    present = parent.get(key) if isinstance(parent, dict) else None
    return sender if isinstance(present, dict) and sender in parent.get("ends", ()) else ""


def _put(document: Document, parent: Any, loc: Loc, value: Document, origin: str) -> None:
    """Replace the value at `loc`, and its origin."""
    parent[loc[-1]] = value.data
    inside = [place for place in document.marks if place[: len(loc)] == loc]
    for place in inside:
        del document.marks[place]
    document.origins[loc] = origin
    document.empty = [place for place in document.empty if place[: len(loc)] != loc]
    document.empty += [(*loc, *place) for place in value.empty]


def _wrong(message: str, path: str = "", hint: str = "") -> ScenarioError:
    return ScenarioError([Problem("", 0, 0, path, message, hint)])


def _shown(text: str) -> str:
    """Return an override as messages show it."""
    return quote(text, 80)[1:-1]
