"""A picture taken inside a sandbox: the renderer's own frame to the last bit, and what is said where there is none."""

from __future__ import annotations

import asyncio
import io

import pytest
from PIL import Image

from koda_ray.actors.stills import still_clock
from koda_ray.errors import CommandTimeout, InvalidInput, SandboxError
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.screenshot import is_picture, screenshot
from tests.sandbox.conftest import AnySandbox
from tests.sandbox.project_conformance import rendered, same_picture, taken
from tests.sandbox.refusals import refusals

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("bwrap", "chromium", "node")]

CLOCK = still_clock()
# no contract: it is stepped through every frame, adds them up, and moves by CSS as well
_PLAIN = b"""<!doctype html><style>@keyframes go { to { transform: translateX(400px) } }
#css { width: 90px; height: 90px; background: #c03; animation: go 4s linear both }</style>
<div id="css"></div><canvas width="600" height="200"></canvas><script>
let n = 0; const draw = document.querySelector("canvas").getContext("2d");
(function tick() { draw.fillRect((n += 3), 20, 2, (n * 7) % 160); requestAnimationFrame(tick); })();
</script>"""


@pytest.mark.browser
async def test_a_page_without_a_contract_is_played_to_that_time(project_box: LocalSandbox) -> None:
    await project_box.write_files({"index.html": _PLAIN})
    assert same_picture(await taken(project_box, 2.0), await rendered(project_box, 60, 30))


@pytest.mark.browser
@pytest.mark.full
async def test_pictures_that_are_taken_at_once_are_those_that_are_taken_one_by_one(project_box: LocalSandbox) -> None:
    times = (0.0, 1.5, 3.0)
    whole = await project_box.read_file("src/App.tsx")
    at_once: list[bytes] = []
    for turn in range(3):
        await project_box.write_files({"src/App.tsx": whole + f"\n// {turn}\n".encode()})  # built by all of them
        at_once = await asyncio.gather(*(taken(project_box, at_s) for at_s in times))
    assert at_once == [await taken(project_box, at_s) for at_s in times]
    assert not [each.path for each in await project_box.list_files(".vite/koda-still") if "bundle-" not in each.path]


@pytest.mark.browser
@pytest.mark.full
async def test_nothing_of_it_outlives_its_end(project_box: LocalSandbox) -> None:
    await project_box.write_files({"index.html": b"<script>for (;;);</script>"})
    with pytest.raises(CommandTimeout):
        await screenshot(project_box, 1.0, clock=CLOCK, timeout_s=8)
    waiting = asyncio.create_task(screenshot(project_box, 1.0, clock=CLOCK))
    await asyncio.sleep(2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    seen = await project_box.run(("sh", "-c", "ls /proc | grep -c '^[0-9]'; ls -A /tmp"))
    assert int(seen.stdout.split()[0]) <= 6 and "koda-still" not in seen.stdout


@pytest.fixture(params=["project_box", pytest.param("docker_browser", marks=pytest.mark.needs("docker"))])
def either(request: pytest.FixtureRequest) -> AnySandbox:
    return request.getfixturevalue(request.param)


@pytest.mark.browser
@pytest.mark.full
async def test_a_page_reaches_neither_files_nor_the_cluster(
    either: AnySandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it tries is not in the picture, and is written down."""
    await either.write_files({"index.html": _PLAIN})
    quiet = await taken(either, 0.5)
    assert refusals(capsys, either.id) <= {"network"}  # browsers look whether there is one
    tries = b"""<script>
      for (const url of ["file:///etc/passwd", "http://127.0.0.1:8265/api/jobs/", "http://169.254.169.254/latest"]) {
        const frame = document.createElement("iframe");
        frame.src = url; frame.style = "position: fixed; inset: 0; border: 0; background: transparent; display: none";
        document.documentElement.append(frame);
        fetch(url).catch(() => 0);
      }
      setTimeout(() => (location.href = "file:///etc/passwd"), 1);
    </script>"""
    await either.write_files({"index.html": _PLAIN + tries})
    assert same_picture(await taken(either, 0.5), quiet)
    said = capsys.readouterr().out
    for words in ("file:///etc/passwd", "http://127.0.0.1:8265", "http://169.254.169.254"):
        assert any(words in line and "sandbox refused" in line for line in said.splitlines()), said


async def test_a_picture_that_cannot_be(sandbox: LocalSandbox) -> None:
    for at_s, width in ((-1.0, 640), (float("nan"), 640), (4000.0, 640), (1.0, 0), (1.0, 5000)):
        with pytest.raises(InvalidInput):
            await screenshot(sandbox, at_s, clock=CLOCK, width_px=width)
    with pytest.raises(SandboxError) as caught:  # its packages hold no Vite
        await screenshot(sandbox, 0.0, clock=CLOCK)
    assert caught.value.code == "CAPTURE_FAILED" and "does not build" in caught.value.message


async def test_colours_hide_no_place_of_what_does_not_build(project_box: LocalSandbox) -> None:
    said = "\\u001b[31msrc/App.tsx:2:1: ERROR: Unexpected\\u001b[39m"
    await project_box.write_files({"vite.config.ts": f'console.error("{said}"); process.exit(1);'.encode()})
    with pytest.raises(SandboxError) as caught:
        await screenshot(project_box, 0.0, clock=CLOCK)
    assert "src/App.tsx:2: Unexpected" in caught.value.message and "\ufffd" not in caught.value.message


def test_what_comes_out_is_looked_at() -> None:
    """A picture comes from where hostile code runs, which may put anything in its place."""
    file = io.BytesIO()
    Image.new("RGB", (64, 36)).save(file, "png")
    made = file.getvalue()
    assert is_picture(made, 64, 36)
    assert not is_picture(made, 64, 37)
    for lie in (b"", b"not a picture", made[:20], made[8:], b"\xff\xd8\xff" + made):
        assert not is_picture(lie, 64, 36)
