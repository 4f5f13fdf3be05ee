"""What the readers of configurations share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perhop import UsageError
from perhop.routers.reading import (
    Attachment,
    Configuration,
    Line,
    Place,
    Treatment,
    scenario_name,
    source,
)
from perhop.scenario import parse


def test_a_source_is_text_with_line_feeds() -> None:
    assert source(b"\xef\xbb\xbfa\r\nb\rc\n", "x.cfg").text == "a\nb\nc\n"
    assert source(b"caf\xe9\n", "x.cfg").text == "café\n"
    with pytest.raises(UsageError, match=r"x\.cfg:2: contains a null byte; expected a text file"):
        source("a\n\0", "x.cfg")
    with pytest.raises(UsageError, match=r"x\.cfg: is too large: 16,777,217 bytes"):
        source(bytes(2**24 + 1), "x.cfg")


@given(st.text(), st.lists(st.text()))
def test_any_text_gives_a_new_name_of_a_scenario(text: str, others: list[str]) -> None:
    taken: set[str] = set()
    for each in (*others, text, text):
        name = scenario_name(each, taken)
        assert name not in taken
        taken.add(name)
    network = "nodes: {a: host, b: host}, links: [{ends: [a, b], rate: 1 Mbps}], duration: 1 s"
    policy = f"{{unused: true, classes: {{{scenario_name(text)}: {{match: any, unused: true}}}}}}"
    found = parse(f"{{perhop: 1, name: x, {network}, policies: {{p: {policy}}}}}")
    assert list(found.policies["p"].classes) == [scenario_name(text)]


def test_a_value_without_a_line_has_the_one_of_its_policy() -> None:
    policy = {"classes": {"rest": {"match": "any", "bandwidth": "10%"}}}
    whole, rest = Place("x.cfg", 3), Place("x.cfg", 4)
    found = Attachment("Gi0/1", "out", "wan", policy, {(): whole, ("classes", "rest"): rest})
    assert found.place(("classes", "rest", "bandwidth")) == rest
    assert found.place(("classes",)) == whole
    assert (str(rest), str(Place("x.cfg", 0))) == ("x.cfg:4", "x.cfg")


def test_lines_are_counted() -> None:
    lines = [Line(Place("x", n), "t", Treatment.MODELLED) for n in (1, 2)]
    lines.append(Line(Place("x", 3), "t", Treatment.NOT_MODELLED, "why"))
    found = Configuration("ios", tuple(lines))
    assert found.counts == {Treatment.MODELLED: 2, Treatment.NOT_MODELLED: 1}
