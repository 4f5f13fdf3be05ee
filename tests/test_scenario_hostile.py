"""Files that are made to hurt: refused at once, with one clear message."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import SLOW
from perhop.errors import Problem, ScenarioError
from perhop.scenario import load, parse


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    """Expects a ScenarioError without much work, all of whose text is short and printable."""
    start = time.process_time()
    with pytest.raises(ScenarioError) as caught:
        yield
    # Ten times what the slowest takes, and far less than what any of these files could cost.
    assert time.process_time() - start < 30
    text = str(caught.value)
    assert all(part in text for part in parts), text
    assert len(text) < 10_000
    assert all(line.isprintable() for line in text.split("\n"))


def test_two_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(2 * 2**30)
    with refused("large.yaml: is too large: 2,147,483,648 bytes"):
        load(path)


def test_just_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (2**22 + 1))
    with refused("is too large"):
        load(path)
    with refused("is too large"):
        parse("#" * (2**22 + 1))
    with refused("is too large"):
        parse(b"#" * (2**22 + 1))


def test_a_pipe_that_nobody_writes_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with refused("is a pipe; expected a file"):
        load(path)


def test_a_device_without_end() -> None:
    with refused("/dev/zero: is a device or socket; expected a file"):
        load("/dev/zero")


def test_a_folder(tmp_path: Path) -> None:
    with refused("is a folder; expected a file"):
        load(tmp_path)


def test_no_file(tmp_path: Path) -> None:
    with refused("cannot be read: No such file or directory"):
        load(tmp_path / "none.yaml")
    with refused("cannot be read"):
        load("a\0b")


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with refused("cannot be read: Too many levels of symbolic links"):
        load(tmp_path / "loop")


def test_a_file_name_that_would_break_the_line() -> None:
    with refused("cannot be read"):
        load("/none/a\nb\x1b[2J.yaml")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"perhop: 1\nname: caf\xe9\n", "2:10: the byte 0xE9 is not UTF-8"),
        (b"\xff\xfep\x00", "1:1: the byte 0xFF is not UTF-8"),
        ("name: \N{SNOWMAN}x".encode() + b"\x80", "1:9: the byte 0x80 is not UTF-8"),
        (b"a: \xed\xa0\x80", "1:4: the byte 0xED is not UTF-8"),
        (b"a: b\nc: \x00", "2:4: the character U+0000 is not allowed"),
        (b"a: \x1b[2J", "1:4: the character U+001B is not allowed"),
    ],
)
def test_not_text(content: bytes, place: str) -> None:
    with refused(place):
        parse(content)


def test_a_byte_order_mark_is_no_matter() -> None:
    with refused("1:2: is not YAML"):
        parse(b"\xef\xbb\xbf{]")


def test_a_bomb_of_aliases() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with refused("anchors are not allowed", "aliases are not allowed"):
        parse("\n".join(rows))


@pytest.mark.parametrize("unit", ["[", "{a: ", "- ", "? ", "[{a: ", '["'])
def test_deep_nesting(unit: str) -> None:
    with refused():
        parse(unit * (2**22 // len(unit)), "deep.yaml")


def test_nesting_line_by_line() -> None:
    with refused("nested more than 20 deep"):
        parse("\n".join(" " * depth + "a:" for depth in range(1000)))


@SLOW
def test_very_many_values() -> None:
    with refused("more than 200,000 values"):
        parse("a: [" + "1," * 400_000 + "]")


@SLOW
def test_very_many_keys() -> None:
    rows = "".join(f"k{n}: 1\n" for n in range(60_000))
    with refused("unknown key", "more"):
        parse(rows)


def test_very_many_problems_are_twenty_and_a_count() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse("perhop: 1\n" + "".join(f"k{n}: 1\n" for n in range(50)))
    assert len(caught.value.problems) == 20
    assert caught.value.more == 50 + 3 - 20
    assert str(caught.value).endswith("\n… and 33 more")


@pytest.mark.parametrize(
    "value", ["9" * 400_000, "0x" + "f" * 100_000, "1" * 41 + " Mbps", "." * 100_000 + "..1 s"]
)
def test_huge_scalars(value: str) -> None:
    with refused("name"):
        parse(f"perhop: 1\nname: {value}\nduration: {value}\n")


def test_policies_that_multiply() -> None:
    classes = "".join(
        f"  p{n}: {{classes: {{{''.join(f'c{k}: {{match: {{dscp: {k}}}, bandwidth: 1%, unused: true, policy: p{n + 1}}}, ' for k in range(60))}z: {{match: any}}}}}}\n"  # noqa: E501
        for n in range(20)
    )
    text = (
        "perhop: 1\nname: x\nnodes: {a: host, b: host}\n"
        "links: [{ends: [a, b], rate: 1 Gbps, egress: {a: p0}}]\n"
        "flows: {f: {from: a, to: b, stop: 1 s}}\n"
        f"policies:\n{classes}  p20: {{classes: {{all: {{match: any}}}}}}\n"
    )
    with refused("classes, nested ones included; expected at most 16,384"):
        parse(text)


def test_problems_are_one_line_each() -> None:
    problem = Problem("f.yaml", 3, 5, "links.1.rate", "is wrong", "did you mean `x`?")
    assert str(problem) == "f.yaml:3:5: links.1.rate: is wrong; did you mean `x`?"
    assert str(Problem("f.yaml", 0, 0, "", "is wrong")) == "f.yaml: is wrong"
    assert str(Problem("", 0, 0, "name", "is wrong")) == "name: is wrong"


def crowded(flows: int, more: str = "") -> str:
    """A scenario of some flows with 1000 streams each."""
    head = "perhop: 1\nname: x\nnodes: {a: host, b: host}\n"
    head += "links: [{ends: [a, b], rate: 1 Gbps}]\nflows:\n"
    flow = f"{{from: a, to: b, streams: 1000, stop: 1 ms{more}}}"
    return head + "".join(f"  f{i}: {flow}\n" for i in range(flows))


def test_streams_that_the_simulator_cannot_number() -> None:
    """What is refused when a run begins is refused before, with its place."""
    with refused("5:1: flows: have 525,000 streams together; expected at most 524,288"):
        parse(crowded(525))
    assert len(parse(crowded(524)).flows) == 524
    web = parse(crowded(600, ", web: {}"))  # its connections are counted when they are opened
    assert sum(flow.all_streams for flow in web.flows.values()) == 600_000
    instants = ", ".join(f"{i} us" for i in range(66))
    with refused("flows.f0.start: has 66 instants, each with 1000 streams, which are 66,000"):
        parse(crowded(1, f", start: {{at: [{instants}]}}"))
