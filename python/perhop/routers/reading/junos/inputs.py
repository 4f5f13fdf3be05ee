"""The classification of packets where they enter a router."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.classification import IMPLICIT, LINK_KINDS, NO_HEADER
from perhop.routers.reading.junos.filters import FAMILIES
from perhop.routers.reading.junos.tree import Node
from perhop.routers.reading.matching import Rules, TooManyRulesError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.junos.classification import Classifier, CodePoints
    from perhop.routers.reading.junos.filters import Filters
    from perhop.routers.reading.junos.interfaces import Interface, Placed, Unit
    from perhop.routers.reading.junos.outputs import Outputs

Named = tuple[tuple[str, str], ...]
"""Kinds or families, and names."""

Input = tuple[tuple[str, str] | None, Named, Named, str | None]
"""How a unit classifies packets: the kind and name of its classifier of IP headers, those of its
classifiers of tags and labels, the families and names of the filters that set classes, and the
class of all packets."""

_KINDS: Final = ("dscp", "inet-precedence", "dscp-ipv6")
_NOTHING: Final[Input] = (None, (), (), None)
_BOTH: Final = {
    "inet6": "classifies IPv6 packets, too, as on M Series and ACX; other platforms need a "
    "classifier `dscp-ipv6`",
    "inet": "classifies IPv4 packets, too, as on M Series; other platforms need a classifier "
    "`dscp`",
}
_VERSIONS: Final = {"inet": "inet6", "inet6": "inet"}


class Inputs:
    """How packets are classified at the inputs of a router.

    Attributes:
        all: The number of units with each classification.
        own: The same for each interface.
        stated: The statements of each classification.
        chosen: The classifications by which policies of outputs go.
    """

    def __init__(self, codes: CodePoints, filters: Filters, outputs: Outputs) -> None:
        self.codes = codes
        self.filters = filters
        self.outputs = outputs
        self.all: Counter[Input] = Counter()
        self.own: dict[str, Counter[Input]] = {}
        self.stated: dict[Input, list[Node]] = {}
        self.chosen: set[Input] = set()
        self._common: list[Input] | None = None

    def add(self, name: str, placed: Placed, interface: Interface | None) -> None:
        """Record how the units of an interface classify packets."""
        units = interface.units if interface is not None else {}
        numbers = dict.fromkeys((*units, *placed.numbers)) or {"*": None}
        for number in numbers:
            at = placed.unit(number)
            classifier = self._classifier_of(at) or self._classifier_of(placed)
            if number in units and classifier is not None:
                self._of_one_version(classifier[0], units[number].families, at, placed)
            links = self._link_classifiers(at, classifier) or (
                self._link_classifiers(placed, classifier) if at is not placed else ()
            )
            fixed = at.value("forwarding-class") or placed.value("forwarding-class")
            setting = tuple(
                (family, each.word)
                for family, each in self.filters_of(units.get(number), "in")
                if not each.word or self._classifies(family, each.word)
            )
            setting = setting if any(name for _, name in setting) else ()
            if fixed is not None:
                fixed.modelled()
            key = (classifier, links, setting, fixed.word if fixed is not None else None)
            if key != _NOTHING:
                self.all[key] += 1
                values = (at.value("classifiers", kind) for kind in (*_KINDS, *LINK_KINDS))
                stated = [each for each in (*values, fixed) if each is not None]
                self.stated.setdefault(key, []).extend(stated)
                self.own.setdefault(name, Counter())[key] += 1

    def _classifier_of(self, placed: Placed) -> tuple[str, str] | None:
        found: tuple[str, str] | None = None
        for kind in placed.under("classifiers"):
            if kind.word in NO_HEADER:
                kind.ignored(NO_HEADER[kind.word])
        for kind_word in _KINDS:
            value = placed.value("classifiers", kind_word)
            if value is None:
                continue
            if self.codes.classifier(kind_word, value.word) is None:
                value.undefined("the configuration has no such classifier")
            elif found is None:
                found = (kind_word, value.word)
                value.modelled()
            elif self.codes.classifier(*found) != self.codes.classifier(kind_word, value.word):
                value.approximated(f"all packets are classified by `{found[0]} {found[1]}`")
            else:
                value.modelled()
        return found

    def _of_one_version(
        self, kind: str, families: Collection[str], at: Placed, placed: Placed
    ) -> None:
        """Note a classifier of one version of IP where packets of the other one have none."""
        value = at.value("classifiers", kind) or placed.value("classifiers", kind)
        other = "inet" if kind == "dscp-ipv6" else "inet6"
        alone = other == "inet" or not (
            at.value("classifiers", "dscp-ipv6") or placed.value("classifiers", "dscp-ipv6")
        )
        if value is not None and other in families and alone:
            value.approximated(_BOTH[other])

    def _link_classifiers(self, placed: Placed, classifier: tuple[str, str] | None) -> Named:
        """Return the classifiers of tags and labels, beside one of IP headers or None."""
        found: list[tuple[str, str]] = []
        for kind in LINK_KINDS:
            value = placed.value("classifiers", kind)
            if value is None:
                continue
            if kind != "exp" and classifier is not None:
                value.ignored(f"packets of IP are classified by `{' '.join(classifier)}`")
            elif self.codes.classifier(kind, value.word) is None:
                value.undefined("the configuration has no such classifier")
            else:
                found.append((kind, value.word))
                value.modelled()
        return tuple(found)

    def filters_of(self, unit: Unit | None, direction: str) -> Iterator[tuple[str, Node]]:
        """Yield the families and names of filters about quality of service at a unit.

        Other filters in a list with such filters belong to them.

        A filter of one version of IP beside packets of the other version is followed by one for
        these, without a name, which accepts all.
        """
        families: dict[str, Node] = {}
        listed = unit.filters.get(direction, ()) if unit is not None else ()
        known = {
            family for family, each in listed if self.filters.node(family, each.word) is not None
        }
        for family, each in listed:
            node = self.filters.defined(family, each.word)
            if node is None and self.filters.has_any(family):
                each.undefined("the configuration has no such filter")
            if node is None or family not in known:
                continue
            if family not in FAMILIES:
                each.ignored(f"packets of family {family} are not modelled")
                node.ignored(f"packets of family {family} are not modelled")
                continue
            families.setdefault(family, each)
            yield family, each
        for family, each in families.items() if unit is not None and len(families) == 1 else ():
            other = _VERSIONS.get(family, "")
            if unit is not None and other in unit.families:
                yield other, Node("", each.place)

    def _classifies(self, family: str, name: str) -> bool:
        found = self.filters.filter(family, name)
        return found is not None and any(
            term.actions.forwarding_class is not None for term in found.terms
        )

    def reachable(self) -> frozenset[str]:
        """Return the forwarding classes that an input gives to any packets."""
        found: set[str] = set()
        for key in self.all:
            found |= {name for name, _ in self.classifier(key).table.values()}
            for each in self.classifier(key).before:
                found |= {name for name, _ in each.table.values()}
            found |= {name for _, name in self.fixed(key) if name is not None}
        return frozenset(found)

    def before(self, name: str, place: Place) -> Input:
        """Return how packets that reach the output of an interface are classified.

        They come from the other interfaces. If these differ, the most common way counts, but one
        with a classifier or filter comes before one forwarding class for all packets; if none
        has a classification, that of the interface itself counts.

        Args:
            name: The interface.
            place: The line of the policy at its output.
        """
        own = self.own.get(name, Counter())
        if self._common is None:
            self._common = [key for key, _ in self.all.most_common(64)]
        others = [(key, self.all[key] - own[key]) for key in self._common]
        others = [(key, count) for key, count in others if count > 0]
        if not others:
            usual = next(iter(own), _NOTHING)
            self.chosen.add(usual)
            return usual
        best = max(others, key=lambda pair: (pair[0][:3] != _NOTHING[:3], pair[1]))[0]
        self.chosen.add(best)
        if len(others) > 1:
            self.outputs.default(
                place,
                "classification at inputs",
                _described(best),
                f"perhop: the most common of {len(others)} ways at the other interfaces",
            )
        return best

    def finish(self) -> None:
        """Note the classifiers and classes of inputs that no policy of an output goes by."""
        for key, nodes in self.stated.items():
            if self.chosen and key not in self.chosen:
                for node in nodes:
                    node.approximated("outputs go by the most common classification at inputs")

    def classifier(self, key: Input) -> Classifier:
        """Return the classifier of an input; without one, the default of the platform."""
        found = self.codes.classifier(*key[0]) if key[0] is not None else None
        found = found or self.codes.default_classifier(IMPLICIT)
        before = (self.codes.classifier(*each) for each in key[1])
        return replace(found, before=tuple(each for each in before if each is not None))

    def fixed(self, key: Input) -> list[tuple[Rules, str | None]]:
        """Return the packets of which an input sets the class before its classifier."""
        found: list[tuple[Rules, str | None]] = []
        try:
            each, _ = self.filters.together(key[2])
        except TooManyRulesError:
            each = None
        for term in each.terms if each is not None else ():
            if not term.actions.drops:
                found.append((term.packets, term.actions.forwarding_class))
        if key[3] is not None:
            found = [(packets, forwarding or key[3]) for packets, forwarding in found]
            found.append((Rules.any(), key[3]))
        return found


def _described(key: Input) -> str:
    classifier, links, setting, fixed = key
    parts = [f"filter {name}" for _, name in setting if name]
    parts += [f"forwarding class {fixed}"] if fixed is not None else []
    parts += [f"classifier {name}" for _, name in links]
    parts += [f"classifier {classifier[1]}"] if classifier is not None else []
    return ", ".join(parts) or f"classifier {IMPLICIT}"
