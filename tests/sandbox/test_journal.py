"""A log with an end: what is written last is there, and never more than two files of it."""

from __future__ import annotations

from pathlib import Path

from koda_ray.sandbox.journal import OutputLog


def test_it_keeps_the_last_of_what_is_written_without_end(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    for begun in range(2):  # whoever comes next goes on where the last one ended
        journal = OutputLog(path)
        for number in range(40_000):
            journal.write(f"{begun} {number:06} {'x' * 60}\n")
        journal.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["one.log", "one.old"]
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) < 2.1 * 1024 * 1024
    lines = (path.with_suffix(".old").read_text() + path.read_text()).splitlines()
    assert lines[-1].startswith("1 039999 ")
    first = int(lines[0].split()[1])
    assert [int(line.split()[1]) for line in lines] == list(range(first, 40_000))


def test_it_goes_on_when_its_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    folder.mkdir()
    journal = OutputLog(folder / "one.log")
    (folder / "one.log").unlink()
    folder.rmdir()
    journal.write("x" * 3_000_000)
    journal.write("still here\n")
    journal.flush()
    journal.close()
    assert not folder.exists()
