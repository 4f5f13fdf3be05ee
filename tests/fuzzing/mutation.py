"""Files changed at random: their bytes, their words, and the parts of what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE: Final = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**400, 1e308, -0.0, 0.1),
        *("", " ", "\0", "\x1b[2J", "\n", "..", "/", "x" * 5000, "any", "none", "total", "0 s"),
        *("1e5", "NaN", "inf", "100%", "1 bps", "18446744073709551615 bps", "4800 h", "1 ps"),
        *([], {}, [[]], {"": {}}, [None], [[[[[[[[[[]]]]]]]]]]),
    ]
)
"""Values that mean something to some parser."""

_TOKENS: Final = st.sampled_from(
    [
        *(
            b"[",
            b"]",
            b"{",
            b"}",
            b": ",
            b"- ",
            b"&a ",
            b"*a ",
            b"!!python/object:os.system ",
            b"'",
        ),
        *(
            b'"',
            b"#",
            b"\n",
            b"\r",
            b"?",
            b"|",
            b">",
            b",",
            b";",
            b"=",
            b"\0",
            b"\xff",
            b"\xef\xbb",
        ),
        *(
            b"99999999999999999999",
            b"-",
            b"e9",
            b"1e999",
            b"0x",
            b"\xe2\x80\xae",
            b"<<: ",
            b"---\n",
        ),
    ]
)


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """`content` with some bytes changed, taken out, repeated or put in."""
    text = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 40))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            text[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif kind == 1:
            del text[at : at + length]
        elif kind == 2:
            text[at:at] = draw(_TOKENS)
        elif kind == 3:
            other = draw(st.integers(0, len(text)))
            text[at:at] = text[other : other + length]
        else:
            del text[at:]
    return bytes(text)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a tree but its root."""
    if path:
        yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from places(value, (*path, index))


@st.composite
def replanted(draw: Any, data: Any) -> Any:
    """A tree some of whose parts are gone, hostile, or those of another place. Shares its parts."""
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(data)) or [()]))
        if not path:
            return draw(HOSTILE)
        kind = draw(st.integers(0, 2))
        value = None
        if kind == 0:
            value = draw(HOSTILE)
        elif kind == 1:
            value = data
            for step in draw(st.sampled_from(list(places(data)))):
                value = value[step]
        data = _put(data, path, value, gone=kind == 2)
    return data


def _put(data: Any, path: tuple[Any, ...], value: Any, *, gone: bool) -> Any:
    """A copy of a tree with `value` at `path`, or without what is there."""
    step, *rest = path
    copy = dict(data) if isinstance(data, dict) else list(data)
    if rest:
        copy[step] = _put(data[step], tuple(rest), value, gone=gone)
    elif gone:
        del copy[step]
    else:
        copy[step] = value
    return copy
