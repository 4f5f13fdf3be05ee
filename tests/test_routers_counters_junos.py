"""Tables of queues of Junos, and the XML of its counters, hostile XML included."""

import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perhop.errors import UsageError
from perhop.routers.counters import Counted, junos, junos_xml, read
from perhop.routers.reading import Source

EXTENSIVE: Final = """\
user@r1> show class-of-service interface ge-0/0/1 comprehensive
Physical interface: ge-0/0/1, Enabled, Physical link is Up
  Traffic statistics:
   Output packets:           24187455940                14199 pps
  Ingress queues: 8 supported, 4 in use
  Queue counters:       Queued packets  Transmitted packets      Dropped packets
    0                                5                    4                    1
  Egress queues: 8 supported, 4 in use
  Queue counters:       Queued packets  Transmitted packets      Dropped packets
    0 best-effort                  100                   93                    7
    3 network-cont                   0                    5                    0
    5                        1.998K               1.998K                    0
  Queue number:         Mapped forwarding classes
    0                   best-effort, bulk
    3                   network-control
  Logical interface ge-0/0/1.0 (Index 93) (SNMP ifIndex 525)
    Statistics        Packets        pps         Bytes          bps
        Input :   20655442875       2006 26021579096863      8442760
Filter: sort-ge-0/0/1.0-i

Counters:
Name                                                Bytes              Packets
web                                                 12000                   12
"""

QUEUES: Final = """\
<rpc-reply xmlns:junos="http://xml.juniper.net/junos/21.4R0/junos">
  <interface-information xmlns="http://xml.juniper.net/junos/21.4R0/junos-interface">
    <physical-interface>
      <name>ge-0/0/1</name>
      <speed>1000mbps</speed>
      <ingress-queue-counters>
        <queue><queue-number>0</queue-number>
          <queue-counters-queued-packets>4</queue-counters-queued-packets></queue>
      </ingress-queue-counters>
      <queue-counters junos:style="detail">
        <interface-cos-summary>
          <intf-cos-queue-type>Egress queues</intf-cos-queue-type>
        </interface-cos-summary>
        <queue>
          <queue-number>0</queue-number>
          <forwarding-class-name>best-effort</forwarding-class-name>
          <queue-counters-queued-packets>1245</queue-counters-queued-packets>
          <queue-counters-queued-bytes>176797</queue-counters-queued-bytes>
          <queue-counters-trans-packets>
            622
          </queue-counters-trans-packets>
          <queue-counters-trans-bytes>88399</queue-counters-trans-bytes>
          <queue-counters-trans-bytes-rate>9600</queue-counters-trans-bytes-rate>
          <queue-counters-tail-drop-packets>467</queue-counters-tail-drop-packets>
          <queue-counters-rl-drop-packets>1</queue-counters-rl-drop-packets>
          <queue-counters-red-packets>155</queue-counters-red-packets>
        </queue>
        <queue>
          <queue-number>5</queue-number>
          <forwarding-class-name>voice</forwarding-class-name>
          <queue-counters-trans-packets>9</queue-counters-trans-packets>
          <queue-counters-tail-drop-packets-na>Not Available</queue-counters-tail-drop-packets-na>
          <queue-counters-total-drop-packets>2</queue-counters-total-drop-packets>
        </queue>
      </queue-counters>
    </physical-interface>
  </interface-information>
  <cli><banner>{master}</banner></cli>
</rpc-reply>
"""

FIREWALL: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<nc:rpc-reply xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0">
  <firewall-information xmlns="http://xml.juniper.net/junos/19.4R0/junos-filter">
    <filter-information>
      <filter-name>sort-ge-0/0/0.0-i</filter-name>
      <policer>
        <policer-name>ten-megabits-reserved</policer-name>
        <packet-count>3</packet-count>
        <byte-count>300</byte-count>
      </policer>
      <counter>
        <counter-name>reserved</counter-name>
        <packet-count>12</packet-count>
        <byte-count>12000</byte-count>
      </counter>
    </filter-information>
    <filter-information><filter-name>empty</filter-name></filter-information>
  </firewall-information>
</nc:rpc-reply>
]]>]]>
"""


def counted(tmp_path: Path, *texts: str) -> tuple[Counted, ...]:
    files = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return read([str(file) for file in files])


def test_tables_of_queues_are_read(tmp_path: Path) -> None:
    into, out, filtered = counted(tmp_path, EXTENSIVE)
    assert (into.interface, into.direction) == ("ge-0/0/1", "in")
    assert dict(into.classes) == {
        "best-effort": {"offered_packets": 5, "sent_packets": 4, "dropped_packets": 1}
    }
    assert out.direction == "out"
    assert dict(out.classes) == {
        "best-effort": {"offered_packets": 100, "sent_packets": 93, "dropped_packets": 7},
        "network-control": {"offered_packets": 0, "sent_packets": 5, "dropped_packets": 0},
    }
    assert (filtered.interface, filtered.classes["web"]["offered_bytes"]) == ("ge-0/0/1.0", 12000)
    into, out = counted(tmp_path, EXTENSIVE.split("  Queue number")[0])
    assert [*into.classes, *out.classes] == ["queue-0", "best-effort", "network-cont"]


def test_a_direction_that_the_output_does_not_tell_is_unknown(tmp_path: Path) -> None:
    text = EXTENSIVE.split("Filter:")[0]
    for kind in ("Ingress", "Egress"):
        text = re.sub(f" *{kind} queues: .*\n", "", text)
    found = counted(tmp_path, text.replace("web", ""))
    assert {each.direction for each in found} == {None}
    assert found[0].name == "ge-0/0/1, direction unknown"
    [table] = counted(tmp_path, FIREWALL_TEXT)
    assert (table.interface, table.direction) == ("sort", None)
    cos = (
        "<cos-interface-information><interface-map><i-logical-name>ge-0/0/1</i-logical-name>"
        "<queue-counters>KIND<queue><queue-number>0</queue-number>"
        "<queue-counters-queued-packets>4</queue-counters-queued-packets></queue>"
        "</queue-counters></interface-map></cos-interface-information>"
    )
    kind = "<intf-cos-queue-type>Egress queues</intf-cos-queue-type>"
    for text, direction in ((cos.replace("KIND", ""), None), (cos.replace("KIND", kind), "out")):
        [found_] = counted(tmp_path, text)
        assert (found_.interface, found_.direction) == ("ge-0/0/1", direction)


FIREWALL_TEXT = """\
Filter: sort

Counters:
Name                                                Bytes              Packets
web                                                 12000                   12
"""


def test_queues_as_xml_are_read(tmp_path: Path) -> None:
    into, out = counted(tmp_path, QUEUES)
    assert (into.direction, dict(into.classes)) == ("in", {"queue-0": {"offered_packets": 4}})
    assert (out.interface, out.direction) == ("ge-0/0/1", "out")
    assert dict(out.classes) == {
        "best-effort": {
            "offered_packets": 1245,
            "offered_bytes": 176797,
            "sent_packets": 622,
            "sent_bytes": 88399,
            "sent_bps": 9600,
            "dropped_limit": 467,
            "dropped_policer": 1,
            "dropped_early": 155,
            "dropped_packets": 623,
        },
        "voice": {"sent_packets": 9, "dropped_packets": 2},
    }


def test_filters_as_xml_are_read(tmp_path: Path) -> None:
    [found] = counted(tmp_path, FIREWALL)
    assert (found.interface, found.direction) == ("ge-0/0/0.0", "in")
    assert dict(found.classes) == {
        "reserved": {
            "offered_packets": 12,
            "offered_bytes": 12000,
            "exceeded_packets": 3,
            "exceeded_bytes": 300,
        }
    }


def test_a_session_may_have_several_replies(tmp_path: Path) -> None:
    later = QUEUES.replace(">622<", ">700<").replace("622", "702")
    text = f"user@r1> show interfaces queue | display xml\n{QUEUES}\n{FIREWALL}\nuser@r1> \n{later}"
    found = counted(tmp_path, text)
    assert {(each.interface, each.direction, each.readings) for each in found} == {
        ("ge-0/0/1", "in", 2),
        ("ge-0/0/1", "out", 2),
        ("ge-0/0/0.0", "in", 1),
    }
    assert found[1].classes["best-effort"]["sent_packets"] == 80


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + QUEUES,
            "x:1: has a document type",
        ),
        ('\n<!DOCTYPE a SYSTEM "file:///etc/passwd">' + QUEUES, "x:2: has a document type"),
        (QUEUES.replace("best-effort", "&xxe;"), "x:16: is not well-formed XML: undefined entity"),
        (QUEUES + "<a>" * 100_000, f"nested deeper than {junos_xml.MAX_DEPTH} elements"),
        (QUEUES.replace("</queue>", ""), "is not well-formed XML: mismatched tag"),
    ],
)
def test_hostile_xml_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        junos_xml.read(Source("x", text))
    assert str(error.value).startswith("x:")


def test_a_long_text_does_not_grow_without_bound() -> None:
    text = QUEUES.replace(">voice<", ">" + "v" * 2_000_000 + "<")
    _, out = junos_xml.read(Source("x", text))
    assert max(map(len, out.classes)) <= 400


@settings(max_examples=40)
@given(st.sampled_from([QUEUES, FIREWALL]), st.data())
def test_damaged_xml_is_read_or_refused(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    part = data.draw(st.sampled_from(["", "<a>", "</a>", "<queue>", "&lt;", "<![CDATA[", "\0"]))
    try:
        junos_xml.read(Source("x", text[:start] + part + text[end:]))
    except UsageError as error:
        assert str(error).startswith("x:")


def test_an_output_without_counters_says_which_option_prints_them(tmp_path: Path) -> None:
    text = "Physical interface: ge-0/0/2, Index: 150\n  Scheduler map: <default>, Index: 2\n"
    with pytest.raises(UsageError, match="with the option `comprehensive` only"):
        counted(tmp_path, text)
    assert junos.hint("nothing") == ""
