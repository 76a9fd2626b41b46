"""What a browser may use, what it uses, and its end when that is too much."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from koda_ray import processes
from koda_ray.errors import InvalidInput, PageError
from koda_ray.render import memory
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.memory import OUT_OF_MEMORY, MemoryLimit, MemoryWatch, machine_bytes, tree_bytes
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.protocol import CaptureTask, Hear, JobContext, ProbeTask
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

MIB = 1 << 20
CAP = MemoryLimit(400)

# a parent and its child: each holds 60 MiB of its own, and 50 MiB are the same for both
FAMILY = """
import mmap, os, sys
shared = mmap.mmap(-1, 50 << 20)
shared.write(b"x" * (50 << 20))
child = os.fork()
own = bytearray(b"x" * (60 << 20))
if child == 0:
    shared.seek(0)
    shared.read()
    print("there", flush=True)
    sys.stdin.readline()
    os._exit(0)
print("here", flush=True)
sys.stdin.readline()
os.wait()
"""

# a parent that holds little, and two pairs of children: each pair shares 60 MiB of which the other has nothing
PAIRS = """
import mmap, os, sys
for pair in range(2):
    if os.fork() == 0:
        shared = mmap.mmap(-1, 60 << 20)
        shared.write(b"x" * (60 << 20))
        os.fork()
        shared.seek(0)
        shared.read()
        os.write(1, b"there\\n")  # as one
        sys.stdin.readline()
        os._exit(0)
for number in range(2):
    os.wait()
"""


@contextmanager
def family() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert {parent.stdout.readline().strip() for _ in range(2)} == {"here", "there"}
        yield parent.pid
        parent.stdin.write("\n\n")


@pytest.mark.parametrize("kernel_lists_children", [True, False])
def test_what_a_family_holds_counts_once(monkeypatch: pytest.MonkeyPatch, *, kernel_lists_children: bool) -> None:
    if not kernel_lists_children:
        monkeypatch.setattr(processes, "_kernel_lists_children", lambda: False)
    with family() as pid:
        assert 170 * MIB < tree_bytes(pid) < 215 * MIB
    assert tree_bytes(pid) == 0


def test_what_each_pair_of_a_family_shares_counts_for_each() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PAIRS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert {parent.stdout.readline().strip() for _ in range(4)} == {"there"}
        assert 120 * MIB < tree_bytes(parent.pid) < 200 * MIB
        parent.stdin.close()


async def test_what_works_with_a_browser_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_LEAST_WORKER_BYTES", 0)
    said: asyncio.Queue[PageError] = asyncio.Queue()
    with family() as pid:
        watch = MemoryWatch(pid, MemoryLimit(256), said.put_nowait)
        kept = bytearray(b"x" * (300 * MIB))
        async with asyncio.timeout(60):
            error = await said.get()
        await watch.close()
    assert error.code == OUT_OF_MEMORY and "may grow by 256 MiB" in error.message
    assert int(str(error.context["used_bytes"])) > len(kept) - 44 * MIB


def test_a_browsers_share_follows_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_bytes", lambda: 20 << 30)
    assert MemoryLimit(browsers=4).cap_bytes == 3 << 30
    assert MemoryLimit().cap_bytes == 8 << 30
    assert MemoryLimit(browsers=400).cap_bytes == 512 * MIB
    assert MemoryLimit(1000, browsers=4).cap_bytes == 1000 * MIB
    assert MemoryLimit().among(4).cap_bytes == 3 << 30
    assert MemoryLimit(browsers=2).among(4) == MemoryLimit(browsers=2)
    with pytest.raises(InvalidInput, match=r"100 MiB .* 256 or more"):
        MemoryLimit(100)


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_a_containers_limit_is_the_machines(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine_bytes() <= whole
    limit = tmp_path / name
    limit.parent.mkdir(exist_ok=True)
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    for text, expected in (("max\n", whole), (f"{1 << 30}\n", 1 << 30), (f"{1 << 62}\n", whole)):
        limit.write_text(text)
        assert machine_bytes.__wrapped__() == expected


FILL = "for (;;) kept.push(new Uint8Array(1 << 24).fill(1));"
GREEDY = {
    "objects": "for (;;) kept.push({ name: [kept.length] });",
    "buffers": FILL,
    "in a worker": f"new Worker(URL.createObjectURL(new Blob([`const kept = []; {FILL}`])));",
    "in a frame": f"""const frame = document.createElement("iframe");
      frame.srcdoc = `<script>const kept = []; {FILL}<\\/script>`;
      document.body.append(frame);""",
    "canvases at each frame": """requestAnimationFrame(function more() {
        for (let i = 0; i < 8; i++) {
          const canvas = new OffscreenCanvas(1024, 1024);
          canvas.getContext("2d").fillRect(0, 0, 1024, 1024);
          kept.push(canvas);
        }
        requestAnimationFrame(more);
      });""",
    "textures at each frame": """const gl = document.createElement("canvas").getContext("webgl2");
      requestAnimationFrame(function more() {
        for (let i = 0; i < 8; i++) {
          gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
          gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 2048, 2048, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(1 << 24));
        }
        gl.finish();
        requestAnimationFrame(more);
      });""",
    "a database": """const open = indexedDB.open("d");
      open.onupgradeneeded = () => open.result.createObjectStore("s", { autoIncrement: true });
      const noise = crypto.getRandomValues(new Uint8Array(1 << 20));
      open.onsuccess = () => requestAnimationFrame(function more() {
        const store = open.result.transaction("s", "readwrite").objectStore("s");
        for (let i = 0; i < 16; i++) store.add(noise);
        requestAnimationFrame(more);
      });""",
}


@pytest.mark.browser
@pytest.mark.parametrize("how", GREEDY)
@pytest.mark.full
async def test_a_page_that_allocates_without_end_is_ended(how: str) -> None:
    html = f"<!doctype html><body><script>const kept = []; {GREEDY[how]}</script>"
    async with await Browser.launch(memory=CAP) as browser:
        with pytest.raises(
            PageError, match=r"the page used \d.* and may use 400 MiB.* KODA_RENDER_MEMORY_MB"
        ) as caught:
            page = await LoadedPage.open(
                browser, Bundle({"index.html": html.encode()}), PageSetup(width=160, height=90)
            )
            await page.wait_ready(120)
            for frame in range(1000):
                await page.go(frame, 10)
                await page.picture()
        assert browser.worn
    assert (caught.value.code, caught.value.retryable) == (OUT_OF_MEMORY, False)
    used = caught.value.context["used_bytes"]
    assert isinstance(used, int) and used > 400 * MIB


class Counting(LocalExecutor):
    """Counts the captures that it was asked for."""

    def __init__(self, workers: int, memory: MemoryLimit) -> None:
        super().__init__(workers=workers, memory=memory)
        self.captures = 0

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        self.captures += 1
        await super().capture(task, hear)


@pytest.mark.browser
async def test_a_job_whose_page_uses_too_much_ends_at_once(storage: Storage) -> None:
    html = "<!doctype html><script>const kept = []; requestAnimationFrame(function more(at) {"
    html += f"if (at > 300) {{ {FILL} }} requestAnimationFrame(more); }});</script>"
    bundle = await put_page(storage, html)
    async with Counting(2, CAP) as executor:
        job = RenderJob(
            small(bundle, duration_s=6.0, moves=False),
            JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER),
        )
        with pytest.raises(PageError, match="may use 400 MiB") as caught:
            await job.run()
        assert caught.value.code == OUT_OF_MEMORY
        assert executor.captures <= 2
        report = await executor.probe(ProbeTask(storage=storage, user_id=USER, bundle=bundle))
        assert "may use 400 MiB" in report.problems[-1].message
        # the executor is as good as new
        spec = small(await put_page(storage, "plain"))
        result = await RenderJob(
            spec, JobContext(storage=storage, executor=executor, job_id="job_2", user_id=USER)
        ).run()
        assert result.frame_count == 10


@pytest.mark.browser
@pytest.mark.full
async def test_a_browser_that_keeps_too_much_is_not_used_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def once(executor: LocalExecutor, job: str) -> set[int]:
        fresh = Storage(f"{storage.url}-{job}")
        spec = small(await put_page(fresh, "plain"))
        await RenderJob(spec, JobContext(storage=fresh, executor=executor, job_id=job, user_id=USER)).run()
        return {browser.pid for browser in executor._idle}

    async with LocalExecutor(workers=1) as executor:
        kept = await once(executor, "job_1")
        assert len(kept) == 1
        assert await once(executor, "job_2") == kept
        await executor.tidy()
        monkeypatch.setattr(executor._idle[0]._watch, "_keep", 1)
        await once(executor, "job_3")
        await executor.tidy()  # known once its page is closed
        assert executor._idle == []
        assert not any(psutil.pid_exists(pid) for pid in kept)
