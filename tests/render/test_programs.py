"""Which browser is taken: the shells before whole browsers, and none that cannot run isolated; and which FFmpeg."""

from __future__ import annotations

from pathlib import Path

import imageio_ffmpeg
import pytest

from koda_ray.errors import Missing
from koda_ray.render import programs
from koda_ray.render.programs import BrowserBinary, find_browser, find_program, version_of


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home of a machine that has nothing but what a test puts into its bin."""
    for paths in ("_SHELL_PATHS", "_FULL_PATHS"):
        monkeypatch.setattr(programs, paths, ())
    monkeypatch.delenv("PLAYWRIGHT_BROWSERS_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_a_snap_is_no_browser(home: Path) -> None:
    snap = program(home / "bin" / "snap")
    (home / "bin" / "chromium").symlink_to(snap)
    program(home / "bin" / "chromium-browser")
    with pytest.raises(Missing, match="no Chromium is installed"):
        find_browser()


def test_a_downloaded_shell_comes_before_a_whole_browser(home: Path) -> None:
    whole = program(home / "bin" / "google-chrome-stable")
    assert find_browser() == BrowserBinary(whole, "full")
    downloads = home / ".cache" / "ms-playwright" / "chromium_headless_shell-1255"
    downloaded = program(downloads / "chrome-headless-shell-linux64" / "chrome-headless-shell")
    assert find_browser() == BrowserBinary(downloaded, "shell")
    installed = program(home / "bin" / "chromium-headless-shell")
    assert find_browser() == BrowserBinary(installed, "shell")


def test_ffmpeg_is_the_one_that_came_along_unless_another_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = program(home / "bin" / "ffmpeg")
    came_along = find_program("ffmpeg")
    assert Path(came_along).is_relative_to(Path(imageio_ffmpeg.__file__).parent)
    assert version_of(came_along, "-version").startswith("ffmpeg version ")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "ffmpeg")
    assert find_program("ffmpeg") == str(installed)
    another = program(home / "another")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(another))
    assert find_program("ffmpeg") == str(another)
    another.unlink()
    with pytest.raises(Missing, match=f"IMAGEIO_FFMPEG_EXE={another} is not an executable"):
        find_program("ffmpeg")


def test_where_none_came_along_ffmpeg_is_that_of_the_system(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", none)  # as on a machine that has none at all
    with pytest.raises(Missing, match="ffmpeg is not installed: apt-get install ffmpeg"):
        find_program("ffmpeg")
    installed = program(home / "bin" / "ffmpeg")
    assert find_program("ffmpeg") == str(installed)
