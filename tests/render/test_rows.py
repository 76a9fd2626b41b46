"""Data for one video or many, what the videos are called, and sounds in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.render.rows import name_rows, read_props
from koda_ray.render.sounds import read_sounds

ROWS = [{"name": "Ada", "n": 1}, {"name": "Bo", "n": 2}]


def test_an_object_is_one_videos_data_and_a_list_a_batch(tmp_path: Path) -> None:
    def read(name: str, text: str) -> object:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return read_props(tmp_path / name)

    assert read("one.json", '{"name": "Ada"}') == {"name": "Ada"}
    assert read("many.json", '[{"name": "Ada", "n": 1}, {"name": "Bo", "n": 2}]') == ROWS
    assert read("many.jsonl", '{"name": "Ada", "n": 1}\n\n{"name": "Bo", "n": 2}\n') == ROWS
    assert read("many.csv", '\ufeffname,says\nAda,"one,\ntwo"\nBjörk,x\n') == [
        {"name": "Ada", "says": "one,\ntwo"},
        {"name": "Björk", "says": "x"},
    ]
    assert read_props('{"name": "here"}') == {"name": "here"}
    for name, text, says in [
        ("a.json", "{", "not JSON"),
        ("a.json", '{"a": NaN}', "NaN"),
        ("b.json", "[]", "0 rows"),
        ("c.json", "[1]", "row 1 is 1"),
        ("d.jsonl", '{"a": 1}\nx', "line 2"),
        ("e.csv", "a,b\n1\n", "row 2"),
        ("f.csv", "a\n1,2\n", "row 2"),
    ]:
        with pytest.raises(InvalidInput, match=says):
            read(name, text)
    with pytest.raises(NotFound, match=r"missing\.json"):
        read_props(tmp_path / "missing.json")


def test_videos_are_named_by_their_rows() -> None:
    assert name_rows("card-{name}.mp4", ROWS) == [Path("card-Ada.mp4"), Path("card-Bo.mp4")]
    assert name_rows("out/{index:03d}-{n}.mp4", ROWS) == [Path("out/001-1.mp4"), Path("out/002-2.mp4")]
    assert name_rows("{{x}}-{index}.mp4", ROWS)[0] == Path("{x}-1.mp4")


def test_a_row_cannot_leave_the_folder() -> None:
    (path,) = name_rows("out/{name}.mp4", [{"name": "../../etc/x\n"}])
    assert path.parent == Path("out") and ".." not in path.parts
    assert name_rows("{name}.mp4", [{"name": "x" * 500}])[0].name == "x" * 200 + ".mp4"


def test_names_that_cannot_be_are_refused_before_anything_is_rendered() -> None:
    for pattern, rows, says in [
        ("card.mp4", ROWS, "rows 1 and 2"),
        ("{who}.mp4", ROWS, "no field 'who'; it has index, name, n"),
        ("{name", ROWS, "brace"),
        ("{name.__class__}.mp4", ROWS, "no field 'name.__class__'"),
        ("{name:d}.mp4", ROWS, "name"),
        ("{name}.mp4", [{"name": "  "}], "empty"),
    ]:
        with pytest.raises(InvalidInput, match=says):
            name_rows(pattern, rows)


def test_sounds_are_files_here_or_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "a@b,c.mp3").write_bytes(b"music")
    (tmp_path / "m.wav").write_bytes(b"wave")
    lines = [
        str(tmp_path / "a@b,c.mp3"),
        f"{tmp_path / 'm.wav'}@1:02.5,volume=0.5,fade-in=1,fade-out=2,trim=3,length=4",
    ]
    tracks, added = read_sounds([*lines, "in/page.ogg@2"], {"in/page.ogg": b"x"})
    assert sorted(added.values()) == [b"music", b"wave"] and tracks[0].start_s == 0
    second = tracks[1]
    assert (second.start_s, second.volume, second.fade_in_s, second.fade_out_s) == (62.5, 0.5, 1, 2)
    assert (second.trim_start_s, second.duration_s) == (3, 4)
    assert (tracks[2].path, tracks[2].start_s) == ("in/page.ogg", 2)
    assert all(track.path in {**added, "in/page.ogg": b""} for track in tracks)
    with pytest.raises(NotFound, match=r"missing\.mp3"):
        read_sounds(["missing.mp3"], {})
    with pytest.raises(InvalidInput, match="loud"):
        read_sounds([f"{tmp_path / 'm.wav'},loud=1"], {})
    with pytest.raises(InvalidInput, match="volume"):
        read_sounds([f"{tmp_path / 'm.wav'},volume=100"], {})
