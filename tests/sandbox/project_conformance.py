"""What every provider does with a project of the animation template: shows it, builds it, takes pictures of it.

A test module defines the fixture ``project_box``, a sandbox of the real template that holds a Chromium, and a class
that inherits ``ProjectConformance``.
"""

from __future__ import annotations

import asyncio
import io

import httpx
import pytest
from PIL import Image, ImageChops, ImageStat
from websockets.typing import Subprotocol

from koda_ray.actors.stills import still_clock
from koda_ray.errors import NotFound, SandboxError, ServerFailed
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.sandbox.base import Sandbox
from koda_ray.sandbox.build import build, export
from koda_ray.sandbox.preview import PREVIEW, answers_at, http_client, open_socket
from koda_ray.sandbox.screenshot import screenshot

__all__ = ["ProjectConformance", "rendered", "same_picture", "taken"]

SIZE = (640, 360)
_TIMEOUT = httpx.Timeout(60)


class ProjectConformance:
    """The suite.

    ``exact`` is False where another software renderer than this machine's draws 3D: edges differ by a little then.
    """

    exact = True

    # the dev server

    async def test_the_dev_server_answers_and_reloads(self, project_box: Sandbox) -> None:
        endpoint = await project_box.start_preview(timeout_s=60)
        async with http_client(endpoint, timeout=_TIMEOUT) as http:
            page = await http.get(endpoint.base)
            assert page.status_code == 200 and "/src/main.tsx" in page.text
            assert f'"{endpoint.base}' in page.text
            module = await http.get(f"{endpoint.base}src/main.tsx")
            assert module.status_code == 200 and "javascript" in module.headers["content-type"]
            script = (await http.get(f"{endpoint.base}@vite/client")).text
            token = script.split('wsToken = "')[1].split('"')[0]
            await http.get(f"{endpoint.base}src/App.tsx")
        target = f"{endpoint.base}?token={token}"
        async with await open_socket(endpoint, target, protocols=[Subprotocol("vite-hmr")]) as hmr:
            assert '"connected"' in str(await asyncio.wait_for(hmr.recv(), 60))
            source = await project_box.read_file("src/App.tsx")
            await project_box.write_files({"src/App.tsx": source + b"\n// changed\n"})
            async with asyncio.timeout(60):
                while True:
                    message = str(await hmr.recv())
                    if '"update"' in message or "full-reload" in message:
                        break

    async def test_one_server_serves_all_and_is_started_again_when_it_is_gone(self, project_box: Sandbox) -> None:
        first, second = await asyncio.gather(
            project_box.start_preview(timeout_s=60), project_box.start_preview(timeout_s=60)
        )
        assert first == second
        server = next(process for process in await project_box.processes() if process.name == PREVIEW)
        assert server.running
        assert await project_box.start_preview() == first
        assert [one.pid for one in await project_box.processes() if one.name == PREVIEW] == [server.pid]
        await project_box.stop(PREVIEW)
        assert not await answers_at(first)
        again = await project_box.start_preview(timeout_s=60)
        async with http_client(again, timeout=_TIMEOUT) as http:
            assert (await http.get(again.base)).status_code == 200

    async def test_a_server_that_ends_says_why(self, project_box: Sandbox) -> None:
        await project_box.write_files({"vite.config.ts": b"throw new Error('this configuration is broken');\n"})
        with pytest.raises(ServerFailed, match="this configuration is broken"):
            await project_box.start_preview(timeout_s=60)
        assert not any(process.running for process in await project_box.processes())

    @pytest.mark.full
    async def test_a_server_that_never_answers_is_ended(self, project_box: Sandbox) -> None:
        never = b"export default async () => new Promise(() => setTimeout(() => 0, 1e9));\n"
        await project_box.write_files({"vite.config.ts": never})
        with pytest.raises(ServerFailed, match="2 s"):
            await project_box.start_preview(timeout_s=2)
        assert await project_box.processes() == []

    # what is built

    async def test_the_project_builds_and_its_bundle_comes_out(self, project_box: Sandbox) -> None:
        with pytest.raises(NotFound, match=r"index\.html"):
            await export(project_box)
        await project_box.run(("sh", "-c", "mkdir dist && echo stale > dist/stale.txt"))
        result = await build(project_box, timeout_s=120)
        assert result.ok and result.problems == (), result.problems
        assert {"index.html"} < set(result.files) and "stale.txt" not in result.files
        assert any(path.startswith("assets/") and path.endswith(".js") for path in result.files)
        assert b"<script" in result.files["index.html"]
        assert await export(project_box) == result.files
        snapshot = await project_box.snapshot()
        assert "src/App.tsx" in snapshot.stamps and not any(path.startswith("dist/") for path in snapshot.stamps)

    # pictures

    @pytest.mark.browser
    @pytest.mark.full
    async def test_a_picture_is_the_frame_that_a_render_shows(self, project_box: Sandbox) -> None:
        shots = {at_s: await taken(project_box, at_s) for at_s in (0.0, 1.5, 3.0)}
        assert len(set(shots.values())) == 3
        frame = await rendered(project_box, 45, 30)
        assert same_picture(shots[1.5], frame) if self.exact else _alike(shots[1.5], frame)
        assert await taken(project_box, 1.5) == shots[1.5]  # from the build that is there still
        snapshot = await project_box.snapshot()
        assert not any(".vite" in path for path in snapshot.stamps)
        (left,) = await project_box.list_files(".vite/koda-still")
        assert left.path.startswith(".vite/koda-still/bundle-")

    @pytest.mark.browser
    @pytest.mark.full
    async def test_what_is_wrong_with_a_pictured_project_is_said_with_its_place(self, project_box: Sandbox) -> None:
        whole = await project_box.read_file("src/App.tsx")
        await project_box.write_files({"src/App.tsx": b"import './none';\n" + whole})
        with pytest.raises(SandboxError, match=r"does not build.*none") as caught:
            await taken(project_box, 1.0)
        assert caught.value.code == "CAPTURE_FAILED"
        throws = b"export default function App(): never {\n  throw new Error('no bounce today');\n}\n"
        await project_box.write_files({"src/App.tsx": throws})
        with pytest.raises(SandboxError, match="no bounce today") as caught:
            await taken(project_box, 1.0)
        assert caught.value.code == "SEEK_FAILED"
        # the build of the broken one is not taken for that of the mended one
        await project_box.write_files({"src/App.tsx": whole})
        assert await taken(project_box, 1.0)


async def taken(sandbox: Sandbox, at_s: float) -> bytes:
    """Take a small picture of the page, and look that it is one."""
    made = await screenshot(sandbox, at_s, clock=still_clock(), width_px=SIZE[0], height_px=SIZE[1])
    assert Image.open(io.BytesIO(made.png)).size == SIZE
    return made.png


async def rendered(sandbox: Sandbox, frame: int, fps: float) -> bytes:
    """Build the project, and take the frame that this machine's renderer makes of it."""
    built = await build(sandbox)
    assert built.ok, built.problems
    async with await Browser.launch() as browser:
        page = await LoadedPage.open(browser, Bundle(built.files), PageSetup(width=SIZE[0], height=SIZE[1]))
        await page.wait_ready(60)
        await page.go(frame, fps)
        return await page.picture()


def _alike(one: bytes, two: bytes) -> bool:
    """Whether two pictures differ by less than a twentieth of a step of each channel's 255, on the average."""
    first, second = (Image.open(io.BytesIO(data)).convert("RGB") for data in (one, two))
    return max(ImageStat.Stat(ImageChops.difference(first, second)).mean) < 0.05


def same_picture(one: bytes, two: bytes) -> bool:
    """Whether two pictures have the same pixels."""
    first, second = (Image.open(io.BytesIO(data)).convert("RGB") for data in (one, two))
    return first.tobytes() == second.tobytes()
