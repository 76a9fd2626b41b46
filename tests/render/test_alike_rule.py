"""The rule by which a unit of a changed page is one of before: pure, held by what may be known of both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.render.alike import are_alike, counterparts, evidence, is_worth_a_look, look_ready_s, spot
from koda_ray.render.protocol import UnitResult
from koda_ray.render.spec import Unit

TRAITS = {"//moves": "False", "//draws": "False", "//sandboxes": "False"}
FILES = st.dictionaries(
    st.sampled_from(("a.js", "index.html", "a.js.map", "b.css", "c.png", "d.woff2")), st.sampled_from("12")
)
DIGESTS = st.sampled_from((None, "a" * 32, "b" * 32))


def shown(index: int, said: str | None, **timings_ms: float) -> UnitResult:
    return UnitResult(
        unit=Unit(index, index * 10, index * 10 + 10), key="k", mode="seek", frame_hashes=("0",) * 10, before_hash=None,
        sha256="0", size_bytes=1, worker="w", evidence=said, timings_ms=timings_ms,
    )  # fmt: skip


@given(one=DIGESTS, other=DIGESTS, files=FILES, others=FILES)
def test_units_are_alike_exactly_where_all_that_counts_is_known_and_the_same(
    one: str | None, other: str | None, files: dict[str, str], others: dict[str, str]
) -> None:
    before, seen = evidence(one, TRAITS | files), evidence(other, TRAITS | others)
    counts = [{name: its for name, its in some.items() if name[0] in "bcd"} for some in (files, others)]
    same = one is not None and one == other and counts[0] == counts[1]
    assert are_alike(shown(0, before), seen) is same


@given(files=FILES, change=st.sampled_from("12"), shown=st.booleans())
def test_a_script_counts_exactly_where_it_was_asked_for_as_something_else(
    files: dict[str, str], change: str, shown: bool
) -> None:
    one, other = TRAITS | files | {"a.js": "1"}, TRAITS | files | {"a.js": change}
    asked = {"a.js"} if shown else set[str]()
    same = evidence("a" * 32, one, asked) == evidence("a" * 32, other, asked)
    assert same is (change == "1" or not shown)


@given(digest=DIGESTS, files=FILES, trait=st.sampled_from(("//moves", "//draws")))
def test_what_moves_by_itself_or_is_not_known_is_like_nothing(
    digest: str | None, files: dict[str, str], trait: str
) -> None:
    assert evidence(digest, TRAITS | files | {trait: "True"}) is None
    assert evidence(digest, None) is None
    assert evidence(None, TRAITS | files) is None
    assert not are_alike(shown(0, None), None)


@given(known=st.sets(st.integers(0, 5)), silent=st.sets(st.integers(0, 5)), run=st.sets(st.integers(0, 5), min_size=1))
def test_a_run_is_looked_at_as_a_whole(known: set[int], silent: set[int], run: set[int]) -> None:
    before = {index: shown(index, None if index in silent else "e") for index in known}
    found = counterparts(before, sorted(run))
    assert [unit.unit.index for unit in found] == (sorted(run) if run <= known - silent else [])


def test_a_look_is_worth_it_where_capturing_took_longer_than_opening_the_page() -> None:
    assert not is_worth_a_look([])
    assert not is_worth_a_look([shown(0, "e", ready=500.0, capture=200.0), shown(1, "e", ready=0.0, capture=200.0)])
    assert is_worth_a_look([shown(0, "e", ready=500.0, capture=600.0), shown(1, "e", ready=0.0, capture=600.0)])


def test_a_look_waits_as_long_as_the_page_took_before_and_never_longer_than_capturing_does() -> None:
    for took_s, waits_s in ((0.5, 6.0), (3.0, 9.0), (25.0, 30.0)):
        run = [shown(0, "e", ready=1000 * took_s, capture=200.0), shown(1, "e", ready=0.0, capture=200.0)]
        assert look_ready_s(run, 30.0) == pytest.approx(waits_s)


@given(units=st.sets(st.integers(0, 9), min_size=1), key=st.text(max_size=8))
def test_one_frame_of_a_run_is_drawn_ever_the_same(units: set[int], key: str) -> None:
    run = [Unit(index, index * 10, index * 10 + 10) for index in sorted(units)]
    unit, frame = spot(run, key)
    assert unit in run and unit.start <= frame < unit.stop and spot(run, key) == (unit, frame)


def test_a_unit_of_an_older_worker_is_like_nothing() -> None:
    assert not are_alike(replace(shown(0, "e"), evidence=None), "e")
