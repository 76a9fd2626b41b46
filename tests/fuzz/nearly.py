"""Bytes that are nearly right: what a parser takes, with a few bytes changed, doubled, cut out or put in."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

__all__ = ["nearly", "nearly_json"]

_PIECES = (
    b"\0",
    b"\xff\xff\xff\xff",
    b"\xed\xa0\x80",
    b"../",
    b"/",
    b"%",
    b"\r\n",
    b"[" * 5_000,
    b'"',
    b"-1",
    b"1e999",
)
_EDITS = st.lists(
    st.tuples(
        st.sampled_from(("set", "cut", "put", "double")),
        st.floats(0, 1, allow_nan=False),
        st.integers(1, 64),
        st.one_of(st.sampled_from(_PIECES), st.binary(min_size=1, max_size=8)),
    ),
    max_size=6,
)


def nearly(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Draw one of the seeds with a few edits, and now and then bytes that are nothing at all."""

    def edit(seed: bytes, edits: list[tuple[str, float, int, bytes]]) -> bytes:
        data = bytearray(seed)
        for kind, where, length, piece in edits:
            at = int(where * len(data))
            if kind == "set":
                data[at : at + len(piece)] = piece
            elif kind == "cut":
                del data[at : at + length]
            elif kind == "put":
                data[at:at] = piece
            else:
                data[at:at] = data[at : at + length] * 3
        return bytes(data)

    return st.one_of(st.builds(edit, st.sampled_from(list(seeds)), _EDITS), st.binary(max_size=200))


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec=None, categories=("L", "N", "P", "Z", "C", "S")), max_size=20),
)


def nearly_json(names: Sequence[str]) -> st.SearchStrategy[object]:
    """Draw JSON values whose objects have these names, of whatever kind; with NaN and halves of surrogate pairs."""
    keys = st.one_of(st.sampled_from(list(names)), st.text(max_size=8))
    return st.recursive(
        _LEAVES,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=8)),
        max_leaves=12,
    )
