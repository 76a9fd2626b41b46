"""What Mesa compiled for a user's pages serves that user's next browser, and nobody else's."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.render import shaders
from koda_ray.render.bundle import Bundle
from koda_ray.render.graphics import software_graphics
from koda_ray.render.local import LocalExecutor
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.shaders import ShaderCache

FILE = f"ab/{'0' * 38}"
PAGE = b"""<!doctype html><style>body{margin:0}</style><canvas id=c width=64 height=36></canvas><script>
const gl = c.getContext("webgl2"), program = gl.createProgram();
const make = (type, text) => {
  const shader = gl.createShader(type);
  gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
};
make(gl.VERTEX_SHADER, `#version 300 es
  in vec2 p; void main() { gl_Position = vec4(p, 0., 1.); }`);
make(gl.FRAGMENT_SHADER, `#version 300 es
  precision highp float; out vec4 c; void main() { c = vec4(fract(sin(gl_FragCoord.xyx * .37)), 1.); }`);
gl.linkProgram(program); gl.useProgram(program);
gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 3, -1, -1, 3]), gl.STATIC_DRAW);
gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
const draw = () => { gl.drawArrays(gl.TRIANGLES, 0, 3); requestAnimationFrame(draw); };
requestAnimationFrame(draw);
</script>"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of the test's own for what is kept, which browsers' users can walk through."""
    folder = Path(tempfile.mkdtemp(prefix="koda-kept-"))
    folder.chmod(0o711)

    def kept_in(_name: str) -> Path:
        return folder

    monkeypatch.setattr(shaders, "own_folder", kept_in)
    yield folder
    for each in sorted(folder.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    folder.rmdir()


def cache(user_id: str = "bob") -> ShaderCache:
    return ShaderCache(user_id, software_graphics())


def kept(root: Path) -> dict[str, int]:
    """What is kept of anybody: the files, and which they are on the disk."""
    return {str(path.relative_to(root)): path.stat().st_ino for path in root.rglob("*") if path.is_file()}


def left(folder: Path, name: str, data: bytes = b"code") -> Path:
    """Leave a file as Mesa does in a browser's folder."""
    path = folder / "mesa_shader_cache" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def lent(cache: ShaderCache, folder: Path) -> dict[str, bytes]:
    """What a browser of a user begins with."""
    folder.mkdir()
    cache.lend(folder)
    inside = folder / "mesa_shader_cache"
    return {str(path.relative_to(inside)): path.read_bytes() for path in inside.rglob("*") if path.is_file()}


async def show(*users: str) -> str:
    """Show the page to users, one after the other in one browser; return what the last one's picture is."""
    picture = b""
    async with LocalExecutor(workers=1) as executor:
        for user in users:
            async with executor.browser(user) as browser:
                if browser.graphics.rasterizer != "llvmpipe":
                    pytest.skip(f"{browser.graphics} draws here, not Mesa's llvmpipe")
                page = await LoadedPage.open(browser, Bundle({"index.html": PAGE}), PageSetup(width=64, height=36))
                await page.wait_ready(60)
                await page.go(0, 10)
                picture = await page.picture()
                await page.close()
    return hashlib.sha256(picture).hexdigest()


class Seen:
    """Which files each browser began with and ended with, of whom, by the name and the place of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began: list[tuple[str, dict[str, int]]] = []
        self.ended: list[tuple[str, dict[str, int]]] = []
        lend, take = ShaderCache.lend, ShaderCache.take

        def lent(cache: ShaderCache, folder: Path) -> None:
            lend(cache, folder)
            self.began.append((cache.user_id, kept(folder / "mesa_shader_cache")))

        def taken(cache: ShaderCache, folder: Path) -> None:
            self.ended.append((cache.user_id, kept(folder / "mesa_shader_cache")))
            take(cache, folder)

        monkeypatch.setattr(ShaderCache, "lend", lent)
        monkeypatch.setattr(ShaderCache, "take", taken)


@pytest.mark.browser
async def test_what_a_user_had_compiled_is_not_compiled_again_and_shows_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Seen(monkeypatch)
    first = await show("bob")
    assert await show("bob") == first
    (_, nothing), (_, given) = seen.began
    assert nothing == {} != given
    assert given.items() <= seen.ended[1][1].items()  # what is compiled again is written again


@pytest.mark.browser
async def test_a_browser_that_is_warm_for_a_user_began_with_what_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    await show("bob")
    seen = Seen(monkeypatch)
    async with LocalExecutor(workers=1) as executor:
        await executor.warm("bob")
        async with executor.browser("bob"):
            assert [user for user, _ in seen.began] == ["bob"]
            assert seen.began[0][1]


@pytest.mark.browser
async def test_nobody_gets_a_browser_that_began_with_what_is_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    await show("bob")
    seen = Seen(monkeypatch)
    await show("bob", "eve", "bob")
    assert [user for user, _ in seen.began] == [user for user, _ in seen.ended] == ["bob", "eve", "bob"]
    assert seen.began[0][1] and seen.began[1][1] == {}


def test_nobody_gets_what_is_anothers(tmp_path: Path) -> None:
    left(tmp_path, FILE)
    cache().take(tmp_path)
    assert lent(cache(), tmp_path / "bob") == {FILE: b"code"}
    assert lent(cache("eve"), tmp_path / "eve") == {}


def test_what_a_page_may_have_left_in_place_of_code_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shaders, "MAX_FILE_BYTES", 1000)
    good = left(tmp_path, FILE)
    left(tmp_path, f"ab/{'1' * 38}", bytes(1001))
    left(tmp_path, f"ab/{'2' * 38}.tmp")
    left(tmp_path, "index")
    left(tmp_path, f"ab/{'3' * 38}", b"")
    (good.parent / ("4" * 38)).symlink_to("/etc/passwd")
    os.mkfifo(good.parent / ("5" * 38))
    (good.parent / ("6" * 38)).mkdir()
    (good.parent.parent / "cd").symlink_to(good.parent)
    cache().take(tmp_path)
    assert lent(cache(), tmp_path / "next") == {FILE: b"code"}


def test_no_link_leads_out_of_a_browsers_folder(tmp_path: Path) -> None:
    left(tmp_path / "secrets", FILE, b"of the machine")
    inside = tmp_path / "profile"
    inside.mkdir()
    (inside / "mesa_shader_cache").symlink_to(tmp_path / "secrets" / "mesa_shader_cache")
    cache().take(inside)
    assert lent(cache(), tmp_path / "next") == {}


def test_nobody_else_may_look_at_or_change_what_is_kept(root: Path, tmp_path: Path) -> None:
    left(tmp_path, FILE)
    before = os.umask(0)
    try:
        cache().take(tmp_path)
    finally:
        os.umask(before)
    folders = [path for path in root.rglob("*") if path.is_dir()]
    assert len(folders) == 2
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_no_more_is_copied_than_is_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shaders, "MAX_BYTES", 10 << 20)
    copied, usual = 0, os.replace

    def counted(source: str, target: Path) -> None:
        nonlocal copied
        copied += 1
        usual(source, target)

    monkeypatch.setattr(os, "replace", counted)
    for number in range(100):
        with left(tmp_path, f"ab/{number:038x}").open("wb") as file:
            file.truncate(1 << 20)  # a hole, which costs nothing
    cache().take(tmp_path)
    assert len(kept(root)) == copied == 10


def test_the_oldest_go_where_there_are_too_many(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shaders, "MAX_BYTES", 25)
    monkeypatch.setattr(shaders, "MAX_USERS", 2)
    for number in range(4):
        left(tmp_path / str(number), f"ab/{number:038x}", bytes(10))
        cache().take(tmp_path / str(number))
        for path in root.rglob(f"{number:038x}"):
            os.utime(path, (number, number))
    assert set(lent(cache(), tmp_path / "next")) == {f"ab/{number:038x}" for number in (2, 3)}
    for user in ("eve", "ann"):
        cache(user).take(tmp_path / "0")
    assert len(list(root.iterdir())) == 2
