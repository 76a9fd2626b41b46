"""``koda render PATH`` as a person runs it: a process of its own, a page on disk, a video beside it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import psutil
import pytest

from koda_ray.cli import app
from koda_ray.console.exits import Exit
from koda_ray.console.page_job import usual_out
from koda_ray.console.values import read_bitrate, read_size
from koda_ray.errors import InvalidInput
from koda_ray.render.presets import PRESET_NAMES
from tests.disks import small

KODA = [sys.executable, "-P", "-m", "koda_ray"]
PAGE = """<!doctype html><style>body{margin:0;background:#123} i{position:absolute;width:20px;height:20px;
background:orange;animation:go 1s linear infinite} @keyframes go{to{transform:translateX(100px)}}</style><i></i>
<script>if (window.__kodaProps.fail) throw new Error("no " + window.__kodaProps.name)</script>"""
SMALL = ("--size", "160x90", "--fps", "10", "--duration", "1")


@dataclass
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page").mkdir()
    (tmp_path / "page/index.html").write_text(PAGE)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "KODA_DATA_DIR": str(folder / "data"), "TERM": "xterm", "COLUMNS": "110", "NO_COLOR": "1"}


def koda(folder: Path, *words: str) -> Ran:
    done = subprocess.run(
        [*KODA, *words], cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.browser
def test_a_page_becomes_a_video_named_after_it_with_a_line_now_and_then(folder: Path) -> None:
    ran = koda(folder, "render", "page", *SMALL)
    assert (ran.status, ran.err) == (Exit.DONE, "")
    assert (folder / "page.mp4").stat().st_size > 1000
    *lines, last = ran.out.splitlines()
    assert all(re.match(r"\s+\d+\.\d  render    \d+ % \w+", line) for line in lines) and lines
    assert last.startswith("page.mp4: 1.0 s, 160x90, 10 frames/s") and "\x1b" not in ran.out

    again = koda(folder, "render", "page", *SMALL, "-o", "again.mp4", "--verify", "--json")
    made = json.loads(again.out)
    assert made["unitsReused"] == made["units"] and made["verifiedFrames"] == 10 and made["path"] == "again.mp4"
    assert (folder / "again.mp4").read_bytes() == (folder / "page.mp4").read_bytes()


@pytest.mark.browser
@pytest.mark.full
def test_parts_that_a_change_leaves_as_they_were_are_told_apart(folder: Path) -> None:
    koda(folder, "render", "page", *SMALL)
    (folder / "page" / "notes.txt").write_text("asked for by nobody")
    ran = koda(folder, "render", "page", *SMALL)
    words = "1 of 1 part were there already from before, 1 of them from the page as it was before a change"
    assert words in " ".join(ran.out.split()), ran.out
    (folder / "page" / "notes.txt").write_text("other words")
    made = json.loads(koda(folder, "render", "page", *SMALL, "--json").out)
    assert (made["unitsReused"], made["unitsAdopted"]) == (1, 1)
    made = json.loads(koda(folder, "render", "page", *SMALL, "--json").out)
    assert (made["unitsReused"], made["unitsAdopted"]) == (1, 0)  # it was made before, whole


@pytest.mark.browser
@pytest.mark.full
def test_a_batch_tells_of_each_row_and_its_status_says_that_one_failed(folder: Path) -> None:
    (folder / "rows.json").write_text('[{"name": "Ada"}, {"name": "Bo", "fail": true}, {"name": "Cy"}]')
    ran = koda(folder, "render", "page", *SMALL, "--props", "rows.json", "-o", "out/{name}.mp4")
    assert ran.status == Exit.FAILED
    assert {path.name for path in (folder / "out").iterdir()} == {"Ada.mp4", "Cy.mp4"}
    assert re.search(r"row 2, out/Bo.mp4: .*no Bo", ran.out) and "2 videos of 3" in ran.out
    (folder / "rows.csv").write_text("name\nAda\nDi\n")
    ran = koda(folder, "render", "page", *SMALL, "--props", "rows.csv", "--json")
    found = json.loads(ran.out)
    assert (ran.status, found["done"], found["failed"]) == (Exit.DONE, 2, 0)
    assert [video["path"] for video in found["videos"]] == ["page-1.mp4", "page-2.mp4"]


class Terminal:
    """A command at a pseudo-terminal."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.shown = ""
        self._screen, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
        self.process = subprocess.Popen(
            [*KODA, *words], cwd=folder, env=environment(folder), stdin=inner, stdout=inner, stderr=inner
        )
        os.close(inner)

    def read(self, until: str | None, *, within_s: float = 60) -> None:
        """Read until something is shown, or to the end."""
        deadline = time.monotonic() + within_s
        while until is None or not re.search(until, self.shown):
            assert time.monotonic() < deadline, f"never {until}: {self.shown[-2000:]}"
            if not select.select([self._screen], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._screen, 65536)
            except OSError:  # its end, on Linux
                data = b""
            if not data:
                assert until is None, f"ended without {until}: {self.shown[-2000:]}"
                return
            self.shown += re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", data.decode(errors="replace"))

    def close(self) -> int:
        self.read(None)
        os.close(self._screen)
        return self.process.wait(timeout=60)


@pytest.mark.browser
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.full
def test_an_interrupt_ends_every_process_and_the_same_command_goes_on(folder: Path, number: int) -> None:
    words = ("render", "page", "--size", "160x90", "--fps", "60", "--duration", "20", "--workers", "1", "-o", "a.mp4")
    first = Terminal(folder, *words)
    first.read(r"a\.mp4 ━.* [1-9]\d % capturing · [\d.]+ frames/s · .* left")
    below = psutil.Process(first.process.pid).children(recursive=True)
    assert below
    first.process.send_signal(number)
    assert first.close() == Exit.INTERRUPTED
    assert not [child for child in below if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert first.shown.rstrip().endswith("The same command again goes on where this was.")
    assert not (folder / "a.mp4").exists()
    second = koda(folder, *words, "--json")
    assert json.loads(second.out)["unitsReused"] >= 1


@pytest.mark.browser
@pytest.mark.full
def test_a_disk_that_is_full_is_told_with_the_videos_name(folder: Path) -> None:
    with small(folder / "disk", 0.02) as disk:
        (disk / "before").write_bytes(bytes(20 * 1024))
        ran = koda(folder, "render", "page", *SMALL, "-o", "disk/a.mp4")
        assert [path.name for path in disk.iterdir()] == ["before"]
    assert ran.status == Exit.FAILED and "Traceback" not in ran.err
    assert "disk/a.mp4 could not be written: the disk is full" in ran.err
    assert koda(folder, "render", "page", *SMALL, "-o", "a.mp4").status == Exit.DONE


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("missing", *SMALL), Exit.NOT_FOUND, "there is no 'missing'"),
        *(
            pytest.param(*more, marks=pytest.mark.full)
            for more in (
                (("missing", "--fps", "25x"), Exit.USAGE, "fps '25x': give a number"),
                ((".", "--crf", "99"), Exit.USAGE, "crf 99"),
                (("page", *SMALL, "-o", "x.avi"), Exit.USAGE, "let it end with .mp4"),
                (("page", "--size", "big"), Exit.USAGE, "1920x1080"),
                (("page", "--format", "avi"), Exit.USAGE, "none of mp4, webm"),
                (
                    ("page", "--preset", "instagram-reels", "--duration", "91"),
                    Exit.USAGE,
                    "91 s is longer than the 90 s",
                ),
                (("page", *SMALL, "--props", "none.json"), Exit.NOT_FOUND, "none.json"),
                (("page", *SMALL, "--workers", "0"), Exit.USAGE, "workers 0"),
                (
                    ("page", "--resolution", "4k"),
                    Exit.USAGE,
                    "koda final SESSION --resolution ...); a page has --preset or",
                ),
                (("page", "--server=http://127.0.0.1:1"), Exit.USAGE, "a page is rendered here"),
                (
                    ("ses_1", "--out", "x.mp4", "--crf", "3"),
                    Exit.USAGE,
                    "koda final ses_1 [--resolution SIZE] [--fps N]",
                ),
                (("--resolution", "4k", "ses_1"), Exit.USAGE, "koda final ses_1 [--resolution SIZE] [--fps N]"),
                (("missing", "-o", "ses_1.mp4"), Exit.NOT_FOUND, "there is no 'missing'"),
            )
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_a_status(folder: Path, words: tuple[str, ...], status: int, says: str) -> None:
    ran = koda(folder, "render", *words)
    assert ran.status == status, ran.err
    assert says in " ".join(ran.err.split()) and "Traceback" not in ran.err


def test_what_is_named_and_is_not_there_is_told_with_the_way_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "page.zip").write_text("half a download")
    ran = koda(folder, "render", "page.zip", *SMALL)
    assert ran.status == Exit.USAGE and "page.zip is not a zip: give" in ran.err
    monkeypatch.setenv("KODA_CHROMIUM_PATH", str(folder / "chrome"))
    ran = koda(folder, "render", "page", *SMALL)
    assert ran.status == Exit.MISSING and f"KODA_CHROMIUM_PATH={folder}/chrome is not an executable" in ran.err
    assert "leave it out" in ran.err


def test_sizes_rates_and_names_are_read() -> None:
    assert read_size("1920x1080") == read_size(" 1920 × 1080 ") == (1920, 1080)
    assert (read_bitrate("8M"), read_bitrate("800k"), read_bitrate("2500"), read_bitrate("1.5M")) == (
        8000,
        800,
        2500,
        1500,
    )
    for text in ("8G", "fast", "-1"):
        with pytest.raises(InvalidInput):
            read_bitrate(text)
    assert usual_out(Path("/x/intro"), "mp4", batch=False) == "intro.mp4"
    assert usual_out(Path("/x/intro/dist"), "webm", batch=True) == "intro-{index}.webm"
    assert usual_out(Path("/x/intro/index.html"), "gif", batch=False) == "intro.gif"
    assert usual_out(Path("/x/intro.zip"), "png", batch=False) == "intro.zip"


def test_the_help_names_every_preset() -> None:
    import typer.main

    (option,) = [p for p in typer.main.get_group(app).commands["render"].params if p.name == "preset"]
    said = str(getattr(option, "help", ""))
    assert set(PRESET_NAMES) <= set(re.findall(r"[\w-]+", said))
