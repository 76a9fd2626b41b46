"""The instruments of the benchmarks measure what they say: a wrong one would make every figure wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.chart import Group, draw
from benchmarks.contention import slower_together
from benchmarks.cpu import ProcessKind, children_cpu_s, kind_of, pinned_to, tree_cpu_by_kind, tree_cpu_s
from benchmarks.ssim import ssim
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.programs import find_program

BUSY = """<script>
let sum = 0;
for (let i = 0; i < 3e8; i++) sum = (sum * 31 + i) | 0;
document.title = sum;
window.__koda = { version: 1, mode: "export", duration: 1, fps: 10, size: { width: 64, height: 64 },
  ready: Promise.resolve(), seek: async () => {} };
</script>"""
BURN = "import time\nwhile time.process_time() < {}: pass"


def test_processor_time_counts_children_and_grandchildren_that_have_ended() -> None:
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN.format(0.3)!r}])"
    tree, children = tree_cpu_s(), children_cpu_s()
    subprocess.run([sys.executable, "-c", nested], check=True)
    assert children_cpu_s() - children >= 0.3
    assert tree_cpu_s() - tree >= 0.28  # counted in ticks


def test_processor_time_counts_a_child_that_lives() -> None:
    before = tree_cpu_s()
    script = f"{BURN.format(0.3)}\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert tree_cpu_s() - before >= 0.28
        child.communicate(b"\n")


def test_what_a_child_left_behind_is_waited_for_once_it_has_ended_and_nothing_else() -> None:
    script = """
import subprocess, psutil
from benchmarks.cpu import adopt_orphans, reap_orphans
adopt_orphans()
with subprocess.Popen(["sleep", "600"]) as alive:
    subprocess.run(["sh", "-c", "sleep 600 >/dev/null &"], check=True)
    left = next(child for child in psutil.Process().children() if child.pid != alive.pid)
    none = reap_orphans()
    left.kill()
    while left.status() != psutil.STATUS_ZOMBIE:
        pass
    print(none, reap_orphans(), reap_orphans(), [child.pid for child in psutil.Process().children()] == [alive.pid])
    alive.kill()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1", "0", "True"]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("python", "python3.12 -m benchmarks.render"),
        ("ffmpeg", "ffmpeg-linux-x86_64-v7 -i pipe:"),
        ("browser", "chromium --headless=new --remote-debugging-pipe"),
        ("browser", "chromium --type=zygote --headless=new"),
        ("browser", "chromium --type=utility --utility-sub-type=network.mojom.NetworkService"),
        ("gpu", "chromium --type=gpu-process --use-gl=angle"),
        ("renderer", "chromium --type=renderer --headless=new"),
        ("other", "bwrap --unshare-all chromium --headless=new"),
        ("other", "fc-list"),
    ],
)
def test_a_process_is_known_by_its_name_and_its_command_line(kind: ProcessKind, line: str) -> None:
    assert kind_of(line.partition(" ")[0], line.split()) == kind


@pytest.mark.browser
async def test_processor_time_of_a_browser_is_known_by_its_processes() -> None:
    before = tree_cpu_by_kind()
    async with await Browser.launch() as browser:
        page = await LoadedPage.open(browser, Bundle({"index.html": BUSY.encode()}), PageSetup(width=64, height=64))
        await page.wait_ready(60)
        then = tree_cpu_by_kind()
        taken = {kind: each - before.get(kind, 0.0) for kind, each in then.items()}
        assert all(taken[kind] > 0 for kind in ("browser", "gpu", "renderer"))
        assert taken["renderer"] >= 0.1
        await page.close()
        assert tree_cpu_by_kind()["renderer"] >= then["renderer"]  # also where it has ended


@pytest.mark.needs("ffmpeg")
def test_processor_time_of_an_encoder_that_has_ended_is_the_encoders() -> None:
    before = tree_cpu_by_kind().get("ffmpeg", 0.0)
    source = ["-f", "lavfi", "-i", "testsrc2=s=640x360", "-frames:v", "300"]
    subprocess.run([find_program("ffmpeg"), "-v", "error", *source, "-c:v", "libx264", "-f", "null", "-"], check=True)
    assert tree_cpu_by_kind()["ffmpeg"] - before >= 0.1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_what_was_pinned_to_a_core_leaves_nothing_there() -> None:
    """Not even a thread that was begun meanwhile, from which other programs are started later."""
    cores = os.sched_getaffinity(0)
    with ThreadPoolExecutor(1) as threads:
        with pinned_to(min(cores)):
            assert threads.submit(_cores_of_a_child).result() == {min(cores)}
        assert threads.submit(_cores_of_a_child).result() == cores == os.sched_getaffinity(0)


def _cores_of_a_child() -> set[int]:
    script = "import os; print(*os.sched_getaffinity(0))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(map(int, done.stdout.split()))


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_renders_that_share_a_machine_are_held_against_one_alone() -> None:
    found = slower_together(sorted(os.sched_getaffinity(0))[:2], units=1, rounds=1)
    assert -90 < found.each_a_core_pct < 1_000
    assert 1 < found.two_a_core_times < 20


@pytest.mark.needs("ffmpeg")
async def test_similarity_compares_the_frames_that_are_named(tmp_path: Path) -> None:
    def ffmpeg(*arguments: str) -> None:
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=64x64:r=10", *arguments], check=True)

    video = tmp_path / "video.mkv"
    ffmpeg("-frames:v", "20", "-c:v", "ffv1", "-pix_fmt", "gbrp", str(video))
    ffmpeg("-frames:v", "20", "-start_number", "0", str(tmp_path / "%d.png"))
    right = {frame: tmp_path / f"{frame}.png" for frame in (0, 9, 19)}
    assert await ssim(video, right) == pytest.approx(1.0)
    assert await ssim(video, {0: right[19], 9: right[9], 19: right[0]}) < 0.999


def test_the_chart_has_a_bar_for_each_renderer_and_a_line_for_each_floor() -> None:
    groups = [Group("a & b", [("koda", 10.0), ("remotion", 40.0)], 8.0), Group("c", [("koda", 5.0)], 4.0)]
    root = ET.fromstring(draw("title", groups))
    name = "{http://www.w3.org/2000/svg}"
    bars = [float(bar.get("width", "0")) for bar in root.iter(f"{name}rect") if bar.get("rx")]
    assert bars[1] == pytest.approx(4 * bars[0], rel=0.01)
    assert len(bars) == 3
    assert len(list(root.iter(f"{name}line"))) == 2
