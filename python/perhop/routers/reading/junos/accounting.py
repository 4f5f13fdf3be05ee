"""The lines about quality of service, and what became of each."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Line, Treatment
from perhop.routers.reading.junos.filters import about_qos
from perhop.routers.reading.junos.syntax import FORWARDING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perhop.routers.reading.configuration import Place, Source
    from perhop.routers.reading.junos.tree import Node, Tree

UNKNOWN: Final = "unknown statement"
NOTHING: Final = "nothing in it is modelled"
Contents = dict[str, "tuple[str, array[int]]"]
"""The text of each file, and where its lines begin."""

_ORDER: Final = (Treatment.MODELLED, Treatment.APPROXIMATED, Treatment.NOT_MODELLED)
_TOPS: Final = ("class-of-service", "firewall")
_SELECTING: Final = frozenset(
    (
        *("classifiers", "code-point-aliases", "forwarding-classes", "filter", "simple-filter"),
        *("prefix-list", "forwarding-policy"),
    )
)
_IN_INTERFACES: Final = frozenset(
    (
        *("policer", "per-unit-scheduler", "hierarchical-scheduler", "shared-scheduler"),
        *("layer2-policer", "simple-filter", "output-traffic-control-profile"),
        *("input-traffic-control-profile", "scheduler-map"),
    )
)
_MARKED: Final = (
    *("interfaces", "firewall", "policy-options", "routing-options", "protocols"),
    *("forwarding-options", "chassis", "when", *FORWARDING),
)


def lines(tree: Tree, texts: Sequence[Source]) -> tuple[Line, ...]:
    """Return every line about quality of service, in the order of the files."""
    _find_about(tree.root)
    _find_selecting(tree.root)
    for path, removed in tree.removed:
        for each in removed.walk() if _is_about(path) else ():
            each.about = True
    contents = {text.file: (text.text, _starts(text.text)) for text in texts}
    found: dict[Place, Line] = {}
    for place, nodes in tree.statements.items():
        mine = [node for node in (nodes if isinstance(nodes, list) else (nodes,)) if node.about]
        if mine:
            selects = any(node.selects for node in mine)
            found[place] = _line(place, mine, contents, selects=selects)
    for place, note in tree.faults.items():
        if place.line:
            text = _text(place, contents)
            found[place] = Line(place, text, Treatment.NOT_MODELLED, note)
    for place, path in tree.changes.items():
        if place not in found and _is_about(path):
            found[place] = Line(place, _text(place, contents), Treatment.MODELLED)
    order = {text.file: index for index, text in enumerate(texts)}
    return tuple(sorted(found.values(), key=lambda line: (order[line.place.file], line.place.line)))


def _starts(text: str) -> array[int]:
    """Return where each line begins, and where one after the last would."""
    starts = array("L", (0,))
    end = text.find("\n")
    while end >= 0:
        starts.append(end + 1)
        end = text.find("\n", end + 1)
    starts.append(len(text) + 1)
    return starts


def _text(place: Place, contents: Contents) -> str:
    text, starts = contents[place.file]
    return text[starts[place.line - 1] : starts[place.line] - 1].strip()


def _is_about(path: Sequence[str]) -> bool:
    if not path:
        return False
    return path[0] in _TOPS or any(word in _IN_INTERFACES or word == "filter" for word in path)


def _line(place: Place, nodes: Sequence[Node], contents: Contents, *, selects: bool) -> Line:
    """Return a line with the treatment of the statement on it that is modelled least."""
    found = [_result(node) for node in nodes]
    worst = max((treatment for treatment, _ in found), key=_ORDER.index)
    notes = dict.fromkeys(
        note for treatment, own in found if treatment is not Treatment.MODELLED for note in own
    )
    if len(notes) > 1:
        notes.pop(NOTHING, None)
    faults = [node.fault for node in nodes if node.fault is not None]
    fault, said = faults[0] if faults else (None, "")
    return Line(place, _text(place, contents), worst, "; ".join(notes), fault, said, selects)


def _result(node: Node) -> tuple[Treatment, tuple[str, ...]]:
    """Return what became of the statement that ends with a node; of a level, of those in it."""
    if node.treatment is not None:
        return node.treatment, node.notes
    if node.inactive:
        return Treatment.NOT_MODELLED, ("inactive",)
    if node.children:
        below = [child for child in node.walk() if child is not node]
        if any(child.treatment is not None for child in below):
            if any(child.treatment in _ORDER[:2] for child in below):
                return Treatment.MODELLED, ()
            return Treatment.NOT_MODELLED, (NOTHING,)
    return Treatment.NOT_MODELLED, (UNKNOWN,)


def _find_selecting(root: Node) -> None:
    """Find the statements that select packets: conditions, classifiers and classes."""
    todo = [(root, False)]
    while todo:
        node, inside = todo.pop()
        inside = inside or node.word in _SELECTING
        node.selects = inside and node.word not in ("policer", "three-color-policer")
        todo.extend((each, inside) for each in node.children.values())


def _find_about(root: Node) -> None:
    """Find the statements about quality of service, those of groups included."""

    def add(node: Node | None) -> None:
        for each in node.walk() if node is not None else ():
            each.about = True

    tops = [root]
    for word in ("groups", "logical-systems", "tenants", "dynamic-profiles"):
        node = root.children.get(word)
        tops += node.children.values() if node is not None else ()
    for top in tops:
        add(top.children.get("class-of-service"))
        _firewall(top.children.get("firewall"), add)
        _find_marked(top)


def _firewall(node: Node | None, add: Callable[[Node | None], None]) -> None:
    """Add policers, and filters that do more than to accept and discard."""
    if node is None:
        return
    for child in node.children.values():
        if child.word == "family":
            for family in child.children.values():
                for inner in family.children.values():
                    if inner.word in ("filter", "simple-filter"):
                        for each in inner.children.values():
                            if about_qos(each) or inner.word == "simple-filter":
                                add(each)
                    elif inner.word == "prefix-action":
                        add(inner)
        elif child.word == "filter":
            for each in child.children.values():
                if about_qos(each):
                    add(each)
        elif child.word not in ("apply-groups", "apply-groups-except", "apply-macro"):
            add(child)


def _find_marked(top: Node) -> None:
    """Find the statements outside these parts that something has looked at."""
    for word in _MARKED:
        node = top.children.get(word)
        if node is None:
            continue
        for each in node.walk():
            each.about = each.about or each.treatment is not None
