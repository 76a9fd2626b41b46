"""Questions to the helper inside a sandbox and its answers: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.sandbox.packed import Malformed, pack, unpack

NAMES = st.text(st.characters(exclude_categories=()), max_size=20)
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)
HEADERS = st.dictionaries(NAMES.filter(lambda name: name != "files"), VALUES, max_size=4)
FILES = st.dictionaries(NAMES, st.binary(max_size=200), max_size=5)


@given(HEADERS, FILES)
def test_what_is_packed_comes_out_in_its_order(header: dict[str, object], files: dict[str, bytes]) -> None:
    found, bodies = unpack(pack(header, files))
    assert found == header
    assert list(bodies.items()) == list(files.items())


@given(st.binary(max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(noise)


@given(HEADERS, FILES, st.data())
def test_a_cut_or_a_longer_one_is_refused(
    header: dict[str, object], files: dict[str, bytes], data: st.DataObject
) -> None:
    whole = pack(header, files)
    with pytest.raises(Malformed):
        unpack(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(Malformed):
        unpack(whole + b"x")


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"files": 1}',
        b'{"files": [["a", -1]]}',
        b'{"files": [["a"]]}',
        b'{"files": [[1, 1]]}',
        b"[" * 5000,
    ],
)
def test_headers_that_are_none(text: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(len(text).to_bytes(4, "big") + text)
