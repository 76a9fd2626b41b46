from __future__ import annotations

import asyncio
import base64
import json
import tracemalloc
from dataclasses import asdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koda_ray.render import sourcemap
from koda_ray.render.problems import MAX_MESSAGE_CHARS, Problems
from koda_ray.render.sourcemap import Position, SourceMaps

# built line 1: column 0 from App.tsx 1:1, column 10 from App.tsx 3:5; built line 2: column 4 from lib.js 41:2
MAP = {"version": 3, "sources": ["../../src/App.tsx", "../../node_modules/lib.js"], "mappings": "AAAA,UAEI;ICsCH"}


def test_places_are_those_of_the_source() -> None:
    maps = SourceMaps(
        {
            "assets/a.js": b"code\ncode\n//# sourceMappingURL=a.js.map\n",
            "assets/a.js.map": json.dumps(MAP).encode(),
        }
    )
    assert maps.original("assets/a.js", 1, 1) is None, "it was not read yet"
    maps.read(["assets/a.js"])
    assert maps.original("assets/a.js", 1, 1) == Position("src/App.tsx", 1, 1)
    assert maps.original("assets/a.js", 1, 10) == Position("src/App.tsx", 1, 1)
    assert maps.original("assets/a.js", 1, 11) == Position("src/App.tsx", 3, 5)
    assert maps.original("assets/a.js", 2, 9) == Position("node_modules/lib.js", 41, 2)
    assert maps.original("assets/a.js", 2, 2) is None
    assert maps.original("assets/a.js", 99, 1) is None


def test_a_map_may_lie_in_the_script() -> None:
    data = base64.b64encode(json.dumps(MAP | {"sources": ["webpack:///src/b.ts"]}).encode())
    maps = SourceMaps({"b.js": b"x\n//# sourceMappingURL=data:application/json;base64," + data})
    maps.read(["b.js"])
    assert maps.original("b.js", 1, 1) == Position("src/b.ts", 1, 1)


def test_a_missing_or_broken_map_says_nothing() -> None:
    maps = SourceMaps({"a.js": b"//# sourceMappingURL=gone.map", "b.js": b"", "b.js.map": b'{"mappings": "!!"}'})
    maps.read(["a.js", "b.js", "c.js"])
    assert maps.original("a.js", 1, 1) is None
    assert maps.original("b.js", 1, 1) is None
    assert maps.original("c.js", 1, 1) is None


def peak_bytes(files: dict[str, bytes]) -> int:
    """What reading the map of ``a.js`` takes at its height."""
    maps = SourceMaps(files)
    tracemalloc.start()
    try:
        maps.read(["a.js"])
        assert maps.original("a.js", 1, 1) is None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def named(mappings: bytes, sources: bytes = b'["a.ts"]') -> dict[str, bytes]:
    return {"a.js": b"", "a.js.map": b'{"version":3,"sources":%s,"mappings":"%s"}' % (sources, mappings)}


def test_a_map_that_is_too_large_is_not_read() -> None:
    assert peak_bytes(named(b"AAAA," * 4_000_000)) < 1 << 20


@pytest.mark.parametrize(
    "mappings",
    [b"g" * 100_000, b"AAAAAA", b"AAAAg", b"+++++/D,", b"A A"],
    ids=["a number without an end", "too many numbers", "half a number", "more than 32 bits", "a space"],
)
def test_numbers_that_are_none_end_a_map(mappings: bytes) -> None:
    assert peak_bytes(named(mappings)) < 1 << 21


@pytest.mark.parametrize(
    "values",
    [b"{}," * 2_500_000, b"[]," * 2_500_000, b'"ab",' * 1_500_000, b"9999," * 1_500_000, b'"\\"",' * 1_500_000],
    ids=["objects", "lists", "strings", "numbers", "escapes"],
)
@pytest.mark.parametrize("encoding", ["utf-8", pytest.param("utf-16", marks=pytest.mark.full)])
def test_what_json_makes_of_a_map_has_an_end(values: bytes, encoding: str) -> None:
    files = named(b"AAAA", b'["\xe2\x88\xa2", %s0]' % values)  # in UTF-16 that sign is two quotes' bytes
    files["a.js.map"] = files["a.js.map"].decode().encode(encoding)
    assert len(files["a.js.map"]) < sourcemap.MAX_MAP_BYTES and peak_bytes(files) < 1 << 25


@pytest.mark.parametrize("sources", [[""] * 50_001, ["s" * 999] * 4_200], ids=["many", "long"])
def test_names_of_sources_have_an_end_together(sources: list[str]) -> None:
    assert peak_bytes(named(b"AAAA", json.dumps(sources).encode())) < 1 << 25


def test_what_a_map_says_beside_its_names_and_places_is_not_kept() -> None:
    beside = {"names": ["n"] * 50_000, "sourcesContent": ['"a", [{' * 1000] * 500}
    maps = SourceMaps({"a.js": b"", "a.js.map": json.dumps(MAP | beside).encode()})
    maps.read(["a.js"])
    assert maps.original("a.js", 1, 1) == Position("src/App.tsx", 1, 1)


def test_what_is_nested_without_end_is_no_map() -> None:
    assert peak_bytes(named(b"", b"[" * 100_000)) < 1 << 22


def test_all_maps_of_a_bundle_have_an_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sourcemap, "_MAX_MAPS_BYTES", 2 * len(json.dumps(MAP)) + 10)
    maps = SourceMaps({f"{name}.js{end}": json.dumps(MAP).encode() for name in "abcd" for end in ("", ".map")})
    maps.read(["a.js", "b.js", "c.js", "d.js"])
    known = [name for name in "abcd" if maps.original(f"{name}.js", 1, 1)]
    assert known == ["a", "b"]


def test_names_have_an_end_whatever_they_are_joined_with() -> None:
    files = {"a.js.map": json.dumps({"sourceRoot": "r" * 9_000, "sources": ["s" * 9_000], "mappings": "AAAA"}).encode()}
    maps = SourceMaps({"a.js": b"", **files})
    maps.read(["a.js"])
    found = maps.original("a.js", 1, 1)
    assert found is not None and len(found.file) == 2_001


@given(st.lists(st.lists(st.tuples(*[st.integers(0, 2000)] * 4), max_size=6), max_size=6))
def test_what_is_written_as_the_format_says_is_read(lines: list[list[tuple[int, int, int, int]]]) -> None:
    lines = [sorted({segment[0]: segment for segment in line}.values()) for line in lines]
    before = [0, 0, 0, 0]
    texts: list[str] = []
    for line in lines:
        before[0] = 0
        segments: list[str] = []
        for segment in line:
            segments.append("".join(vlq(now - last) for now, last in zip(segment, before, strict=True)))
            before = list(segment)
        texts.append(",".join(segments))
    data = {"sources": [f"{number}.ts" for number in range(2001)], "mappings": ";".join(texts)}
    maps = SourceMaps({"a.js": b"", "a.js.map": json.dumps(data).encode()})
    maps.read(["a.js"])
    for number, line in enumerate(lines):
        for built, source, at, column in line:
            found = maps.original("a.js", number + 1, built + 1)
            assert found == Position(f"{source}.ts", at + 1, column + 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
HOSTILE = st.fixed_dictionaries(
    {"mappings": st.text("ADCgx/+,;9 é", max_size=60) | JSON, "sources": st.lists(JSON, max_size=3) | JSON},
    optional={"sourceRoot": JSON, "sections": JSON},
).map(lambda value: json.dumps(value).encode())


@example(b'{"mappings":"AAAA","sources":["half a character: \\ud800"]}')
@given(st.binary(max_size=200) | HOSTILE | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_map_says_a_problem_can_be_told(data: bytes) -> None:
    problems = Problems({"a.js": b"", "a.js.map": data}, "https://x")
    frames = [{"url": "https://x/a.js", "lineNumber": line, "columnNumber": at} for line in (0, 1) for at in (0, 40)]
    problems.on_exception({"exceptionDetails": {"text": "oops", "stackTrace": {"callFrames": frames}}})
    problems._maps.read(["a.js"])
    for problem in problems.all:
        json.dumps(asdict(problem), ensure_ascii=False).encode()
        assert problem.file is not None and len(problem.file) <= MAX_MESSAGE_CHARS


def vlq(value: int) -> str:
    value, text = (-value << 1 | 1 if value < 0 else value << 1), ""
    while True:
        digit, value = value & 31, value >> 5
        text += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[digit | (32 if value else 0)]
        if not value:
            return text


async def test_a_large_map_is_read_beside_what_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is placed is read, and whoever waits for that lets others work."""
    problems = Problems(named(b"AAAA," * 200_000), "https://x")
    frame = {"url": "https://x/a.js", "lineNumber": 0, "columnNumber": 3, "functionName": "f"}
    details = {"text": "oops", "stackTrace": {"callFrames": [frame]}}
    problems.on_exception({"exceptionDetails": details})
    assert problems.fatal is not None and (problems.fatal.file, problems.fatal.line) == ("a.js", 1)
    placing, turns = asyncio.ensure_future(problems.place()), 0
    while not placing.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10
    assert (problems.fatal.file, problems.all[0].stack) == ("a.ts", "f (a.ts:1:1)")
