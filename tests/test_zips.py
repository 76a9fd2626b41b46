"""Zips that are nothing but a table of contents: refused before an entry of it is made."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Callable

import pytest

from koda_ray.errors import InvalidInput
from koda_ray.render.bundle import Bundle
from koda_ray.sandbox.archives import read_project
from koda_ray.zips import open_zip

MANY = 100_000


def table_of(entries: int, *, says: int | None = None) -> bytes:
    """Return a zip of entries without a file, whose end record says how many there are; zip64 where it has to be."""
    header = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    table, said = header * entries, entries if says is None else says
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, min(said, 0xFFFF), min(said, 0xFFFF), len(table), 0, 0)
    if said < 0xFFFF:
        return table + end
    wide = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, said, said, len(table), 0)
    return table + wide + struct.pack("<4sIQI", b"PK\x06\x07", 0, len(table), 1) + end


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=r"entries|table of contents"):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("says", [None, 1])
def test_a_table_that_is_too_long_is_never_made(says: int | None) -> None:
    sent = table_of(MANY, says=says)
    with zipfile.ZipFile(io.BytesIO(sent)) as archive:
        assert len(archive.infolist()) == MANY  # a zip to Python, whatever the end record says
    assert peak_of(lambda: Bundle.unpack(sent)) < 1 << 20


def test_a_project_is_held_to_it_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("sent") / "sent.zip"
    path.write_bytes(table_of(2 * MANY))
    assert peak_of(lambda: read_project(path)) < 32 << 20


def test_headers_are_counted_before_an_entry_is_made() -> None:
    # within the bytes that so many usual entries have, so the count decides
    assert peak_of(lambda: open_zip(io.BytesIO(table_of(9_000)), most_entries=4_096).__enter__()) < 1 << 20


def test_as_many_as_are_taken_are_read() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for index in range(20):
            archive.writestr(f"{index}.txt", str(index))
        archive.comment = b"x" * 0xFFFF
    with open_zip(data, most_entries=20) as opened:
        assert [opened.read(name) for name in opened.namelist()] == [str(index).encode() for index in range(20)]
    with pytest.raises(InvalidInput, match="over 19 entries"), open_zip(data, most_entries=19):
        pass
    with open_zip(io.BytesIO(b"PK\x05\x06" + bytes(18)), most_entries=1) as opened:
        assert opened.namelist() == []


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_what_archivers_write_is_unpacked(method: int) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        archive.writestr("index.html", b"<p>")
    with pytest.raises(InvalidInput, match=r"'index\.html' by compression method"):
        Bundle.unpack(data.getvalue())


def test_a_stream_of_nonsense_is_no_crash() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("index.html", b"<p>" * 1_000)
    sent = data.getvalue()
    at = sent.index(b"index.html") + len("index.html")
    with pytest.raises(InvalidInput, match="can be read"):
        Bundle.unpack(sent[:at] + b"\xff" * 8 + sent[at + 8 :])
