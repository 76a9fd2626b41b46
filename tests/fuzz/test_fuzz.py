"""What fuzzing found, kept as examples, and a few inputs more; ``python -m tests.fuzz`` looks for longer."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tests.fuzz.__main__ import ALL, run
from tests.fuzz.served import SERVED
from tests.fuzz.targets import TARGETS, ZIPS, is_refusal


def moved(data: bytes) -> bytes:
    """Return a zip whose beginning is cut off, so that its first entry lies before it."""
    return data[1:]


def framed(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def nameless(data: bytes) -> bytes:
    """Return a zip of one entry without a name."""
    return data.replace(b"index.html", b"").replace(struct.pack("<H", len(b"index.html")), b"\0\0")


def answer(headers: bytes) -> bytes:
    return b"HTTP/1.1 302 Found\r\n" + headers + b"\r\nContent-Length: 0\r\n\r\n"


FOUND: list[tuple[str, object]] = [
    ("bundles", moved(ZIPS[0])),
    ("bundles", nameless(ZIPS[2])),
    ("plans", (b'{"scenes": [{"scene": 1, "duration": 0.2}]}', {"content-type": "application/json"})),
    ("plans", (b'{"scenes": [{"scene": 1, "duration": 1e-9}]}', {"content-type": "application/json"})),
    ("preview", (b"", "GET", "", {"accept": "\x80"}, False)),
    ("preview", (b"", "OPTIONS", "", {"host": "a:b"}, False)),
    ("preview", (b"", "OPTIONS", "", {"host": "a; script-src *"}, False)),
    ("preview", (answer(b"Location: http://[::1/x"), "GET", "", {}, False)),
    ("preview", (answer(b"Location: tion:tion: http://[::1/x"), "GET", "", {}, False)),
    ("preview", (answer(b"Locat%on: http://[::1/x"), "GET", "", {}, False)),
    (
        "preview",
        (b"HTTP/1.1 200 OK\r\nContent-Type: a/b; \xe6\x97\xa5\r\nContent-Length: 0\r\n\r\n", "GET", "", {}, True),
    ),
    ("sourcemaps", (b"[" * 5_000, 1, 1)),
    ("wire", framed(b'{"type": "LimitReached", "message": "\\ud800", "context": {"retryAfterS": "soon"}}')),
    ("wire", framed(b'{"type": "Conflict", "code": "\\udfff", "context": {"retryAfterS": Infinity, "a": NaN}}')),
    ("wire", framed(b'{"context": {"retryAfterS": 1' + b"0" * 400 + b"}}")),
]


@pytest.mark.parametrize(("target", "given"), FOUND)
def test_what_was_found_is_refused_in_words(target: str, given: object) -> None:
    check: Callable[[object], None] = ALL[target].check
    with ALL[target].around():
        try:
            check(given)
        except Exception as error:
            assert is_refusal(error), repr(error)


@pytest.mark.parametrize("target", [*TARGETS, *SERVED])
def test_nonsense_is_refused_in_words(target: str) -> None:
    count, crashes = run(ALL[target], seconds=0.3, rounds=20)
    assert count >= 20 and not crashes, crashes


@pytest.mark.full
@pytest.mark.parametrize("target", ALL)
def test_nonsense_is_refused_in_words_for_longer(target: str) -> None:
    count, crashes = run(ALL[target], seconds=20, begin=1_000)
    assert count and not crashes, crashes
