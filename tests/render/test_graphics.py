"""What draws and encodes: device files are really opened, a browser really draws, FFmpeg really tries NVENC."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.doctor import machine
from koda_ray.doctor.finding import Examination
from koda_ray.errors import BrowserCrashed, EncodeFailed, Missing, RenderError
from koda_ray.render import gpu, rasterizers
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import load_bundle
from koda_ray.render.capture import capture_units
from koda_ray.render.encode import unit_options
from koda_ray.render.environment import read_environment
from koda_ray.render.ffmpeg import command_line, run
from koda_ray.render.frames import Interposer
from koda_ray.render.gpu import choose_graphics, confirm_graphics, try_gpu, try_nvenc
from koda_ray.render.graphics import (
    DEVICES,
    RASTERIZERS,
    Graphics,
    find_devices,
    software_because,
    software_graphics,
)
from koda_ray.render.isolation import WorkFolder, browser_command
from koda_ray.render.job import RenderJob
from koda_ray.render.likeness import encoded_unlike, try_encoder, unlike
from koda_ray.render.local import LocalExecutor, check_environment
from koda_ray.render.mux import join_units
from koda_ray.render.programs import find_browser
from koda_ray.render.protocol import CaptureTask, JobContext
from koda_ray.render.quality import check_video
from koda_ray.render.rasterizers import choose_rasterizer
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import plan_units
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

DASH = Path("/usr/bin/dash")
NOWHERE = Path("/nowhere/chromium-headless-shell")
BUNDLE = "a" * 64
GPU = Graphics(kind="gpu", flags=("--use-angle=gl-egl",), renderer="NVIDIA Corporation", driver="535.183.01")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that browsers' user may walk through, for files that stand in /dev."""
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    (tmp_path / "dev" / "dri").mkdir(parents=True)
    return tmp_path / "dev"


def has_gpu() -> bool:
    return bool([*DEVICES.glob("dri/renderD*"), *DEVICES.glob("nvidia[0-9]*")])


@pytest.mark.browser
async def test_without_device_files_no_gpu_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gpu, "try_gpu")
    for folder in (tmp_path, tmp_path / "not there"):
        chosen = await choose_graphics(find_browser().path, folder=folder)
        assert chosen.kind == "software" and chosen.encoder == "libx264" and chosen.devices == ()
        assert chosen.why == f"no {folder}/dri/renderD* and no {folder}/nvidia[0-9]*"
        assert replace(chosen, why="", interposer=Interposer()) == software_graphics()


@pytest.mark.browser
async def test_who_wants_none_gets_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "dri" / "renderD128").symlink_to("/dev/null")
    monkeypatch.delattr(gpu, "try_gpu")
    chosen = await choose_graphics(find_browser().path, "software", folder=folder)
    assert (chosen.kind, chosen.why) == ("software", "KODA_RENDER_GRAPHICS=software")


@pytest.mark.browser
async def test_a_gpu_that_is_asked_for_and_not_there_is_an_error_that_says_why(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"KODA_RENDER_GRAPHICS=gpu .*: no .*/renderD\* and no .*\. Set it to auto"):
        await choose_graphics(find_browser().path, "gpu", folder=tmp_path)


def test_what_is_no_device_is_not_taken_for_one(folder: Path) -> None:
    (folder / "dri" / "renderD128").write_text("a file")
    (folder / "nvidia0").symlink_to("/nowhere")
    (folder / "nvidiactl").symlink_to("/dev/null")  # alone it draws nothing
    found = find_devices(NOWHERE, folder)
    assert found.usable == ()
    assert f"{folder}/dri/renderD128: not a device file" in found.why
    assert f"{folder}/nvidia0: No such file or directory" in found.why


@pytest.mark.sandbox
def test_only_device_files_that_the_browsers_user_may_open_are_taken(folder: Path) -> None:
    private = next((path for path in map(Path, ("/dev/console", "/dev/kmsg")) if path.is_char_device()), None)
    (folder / "nvidia0").symlink_to("/dev/null")
    (folder / "nvidiactl").symlink_to("/dev/zero")
    (folder / "nvidia-caps").mkdir()
    if private is not None:
        (folder / "dri" / "renderD128").symlink_to(private)
    found = find_devices(DASH, folder)
    assert found.usable == (folder / "nvidia0", folder / "nvidiactl")
    if private is not None:
        (folder / "nvidia0").unlink()
        why = find_devices(DASH, folder).why
        assert why == f"{folder}/dri/renderD128: Permission denied, for the user that browsers run as"


@pytest.mark.sandbox
def test_devices_come_into_the_isolation_with_what_drivers_read_and_not_otherwise(folder: Path) -> None:
    device = folder / "nvidia0"
    device.symlink_to("/dev/full")
    work = WorkFolder("test")
    look = f"exec >&4; test -c {device} && echo device; ls -d /sys/devices; touch /sys/devices/x || echo read-only"
    try:
        profile = work.writable_by_browser("profile", DASH)
        for devices, seen in (([device], ["device", "/sys/devices", "read-only"]), ([], ["read-only"])):
            command = [*browser_command(DASH, profile, devices=devices), "-c", f"{look} 2>/dev/null"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
            assert done.stdout.split() == seen
    finally:
        work.close()


@pytest.mark.browser
async def test_a_device_behind_which_mesa_draws_in_software_is_refused_by_name(folder: Path) -> None:
    if (await choose_rasterizer(find_browser().path)).rasterizer != "llvmpipe":
        pytest.skip("Mesa draws nothing here")
    (folder / "dri" / "renderD128").symlink_to("/dev/null")
    chosen = await choose_graphics(find_browser().path, folder=folder)
    assert replace(chosen, why="", interposer=Interposer()) == software_graphics()
    assert re.match(r"gl-egl: llvmpipe is software: ANGLE \(Mesa.*; vulkan: ", chosen.why), chosen.why
    assert await choose_graphics(find_browser().path, folder=folder) is chosen
    with pytest.raises(Missing, match="llvmpipe is software"):
        await choose_graphics(find_browser().path, "gpu", folder=folder)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'cannot open shared object' >&2; exit 127", "did not start: cannot open shared object"),
        ("exec /bin/false", "did not start: it said nothing"),
        ("exec sleep 60", "(nothing was drawn within|did not start)"),
    ],
)
@pytest.mark.full
async def test_a_browser_that_dies_or_hangs_with_a_device_is_refused_with_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    limit_s = 1.0 if "sleep" in script else 60.0
    monkeypatch.setattr(gpu, "draw", partial(gpu.draw, timeout_s=limit_s))
    broken = folder / "chromium-headless-shell"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    broken.chmod(0o755)
    tried = await try_gpu(broken, ())
    assert tried.kind == "software"
    assert re.fullmatch(rf"gl-egl: .*{words}.*; vulkan: .*{words}.*", tried.why), tried.why


@pytest.mark.browser
async def test_a_browser_that_draws_with_something_else_than_the_first_is_refused() -> None:
    if (await choose_rasterizer(find_browser().path)).rasterizer != "llvmpipe":
        pytest.skip("Mesa draws nothing here")
    one = replace(GPU, flags=gpu.FLAGS + GPU.flags)
    async with await Browser.launch(graphics=one) as browser:
        with pytest.raises(BrowserCrashed, match=r"draws with ANGLE .*llvmpipe.* with NVIDIA") as caught:
            await confirm_graphics(browser)
    seen = re.search(r"with (ANGLE.*), and", caught.value.message)
    assert caught.value.retryable and seen is not None
    async with await Browser.launch(graphics=replace(one, renderer=seen[1])) as browser:
        await confirm_graphics(browser)
    async with await Browser.launch(graphics=replace(one, flags=(*gpu.FLAGS, "--use-angle=none"))) as browser:
        with pytest.raises(BrowserCrashed, match="draws with no WebGL 2, and"):
            await confirm_graphics(browser)


@pytest.mark.parametrize(
    ("renderer", "why"),
    [
        ("ANGLE (NVIDIA Corporation, NVIDIA GeForce RTX 4090/PCIe/SSE2, OpenGL ES 3.2)", None),
        ("ANGLE (NVIDIA Corporation, Tesla T4/PCIe/SSE2, OpenGL ES 3.2)", None),
        ("ANGLE (NVIDIA, Vulkan 1.4.312 (NVIDIA NVIDIA GeForce RTX 5080 (0x00002C02)), NVIDIA)", None),
        ("ANGLE (NVIDIA, Vulkan 1.3.242 (NVIDIA GeForce RTX 4070 (0x00002786)), NVIDIA-535.86.5.0)", None),
        ("ANGLE (AMD, AMD Custom GPU 0405 (radeonsi, vangogh, LLVM 15.0.7, DRM 3.52), OpenGL ES 3.2)", None),
        ("ANGLE (AMD, Vulkan 1.3.255 (AMD RADV NAVI22 (0x000073DF)), radv)", None),
        ("ANGLE (Intel, Mesa Intel(R) Iris(R) Xe Graphics (TGL GT2), OpenGL ES 3.2)", None),
        ("ANGLE (Intel, Mesa Intel(R) UHD Graphics 630 (CFL GT2), OpenGL 4.6)", None),
        ("ANGLE (nouveau, NV138, OpenGL ES 3.2)", None),
        ("ANGLE (Microsoft Corporation, D3D12 (NVIDIA GeForce RTX 3080), OpenGL ES 3.1)", None),
        ("ANGLE (Mesa, virgl (D3D12 (NVIDIA GeForce RTX 4060 Laptop GPU)), OpenGL ES 3.1)", None),
        ("ANGLE (Mesa, virgl (AMD Radeon RX 6800 (radeonsi, navi21)), OpenGL ES 3.2)", None),
        ("ANGLE (Mesa, virgl, OpenGL 4.5 (Core Profile) Mesa 22.3.6)", "virgl does not say who draws"),
        ("ANGLE (Mesa, virgl (LLVMPIPE (LLVM 15.0.7, 256 bits)), OpenGL ES 3.2)", "LLVMPIPE is software"),
        ("ANGLE (VMware, Inc., SVGA3D; build: RELEASE;  LLVM;, OpenGL 4.3)", "SVGA3D does not say who draws"),
        ("ANGLE (Mesa/X.org, llvmpipe (LLVM 15.0.6 256 bits), OpenGL ES 3.2)", "llvmpipe is software"),
        (
            "ANGLE (Mesa, Vulkan 1.3.255 (llvmpipe (LLVM 15.0.7 256 bits) (0x00000000)), llvmpipe)",
            "llvmpipe is software",
        ),
        ("ANGLE (Mesa, zink Vulkan 1.3(llvmpipe (LLVM 17.0.6) (MESA_LLVMPIPE)), OpenGL 4.6)", "llvmpipe is software"),
        ("ANGLE (Mesa, softpipe, OpenGL 3.3)", "softpipe is software"),
        (
            "ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero) (0x0000C0DE)), SwiftShader driver)",
            "SwiftShader is software",
        ),
        (
            "ANGLE (Microsoft Corporation, D3D12 (Microsoft Basic Render Driver), GL)",
            "Basic Render is software",
        ),
        ("Apple Software Renderer", "Software is software"),
        ("WebKit WebGL", "no maker of hardware that is known"),
        ("", "no maker of hardware that is known"),
    ],
)
def test_renderers_are_told_apart(renderer: str, why: str | None) -> None:
    assert software_because(renderer) == why


@pytest.mark.needs("ffmpeg")
async def test_nvenc_is_tried_and_says_no_in_its_own_words() -> None:
    why = await try_nvenc()
    if why is None:
        pytest.skip("NVENC encodes here")
    assert re.search("libcuda|CUDA|nvenc|device", why, re.IGNORECASE), why
    assert "\n" not in why and "0x" not in why


@pytest.mark.needs("ffmpeg")
async def test_what_is_encoded_is_held_against_its_source(tmp_path: Path) -> None:
    assert await try_encoder("libx264") is None
    spec = small(BUNDLE, width=320, height=180)
    other, target = "testsrc2=size=320x180:rate=10,hue=h=20", str(tmp_path / "other.mp4")
    options = unit_options(spec, spec.frame_count, image="png")
    await run("ffmpeg", command_line(other, {"format": "lavfi"}, target, options), timeout_s=60)
    assert await encoded_unlike(spec, other, Path(target)) is None
    why = await encoded_unlike(spec, "testsrc2=size=320x180:rate=10", Path(target))
    assert re.fullmatch(r"frame \d is \d+\.\d dB from its source, less than 33", why or "")
    short = unit_options(spec, 4, image="png")
    await run("ffmpeg", command_line(other, {"format": "lavfi"}, target, short), timeout_s=60)
    assert await encoded_unlike(spec, other, Path(target)) == "4 frames came out in place of 10"


@pytest.mark.browser
@pytest.mark.needs("ffmpeg")
@pytest.mark.full
async def test_different_rasterizers_draw_alike_and_another_picture_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = find_browser().path
    if (await choose_rasterizer(binary)).rasterizer != "llvmpipe":
        pytest.skip("Mesa draws nothing here")
    monkeypatch.setattr(gpu, "software_because", lambda renderer: None)  # llvmpipe stands for a GPU
    monkeypatch.setattr(rasterizers, "own_folder", lambda name: folder)
    swiftshader = software_graphics("", RASTERIZERS["swiftshader"])
    assert await unlike(binary, swiftshader, reference=software_graphics()) is None
    taken = await try_gpu(binary, ())
    assert (taken.kind, taken.why) == ("gpu", "gl-egl draws what llvmpipe draws; NVENC: only NVIDIA has it")
    right = gpu.FLAGS
    monkeypatch.setattr(gpu, "FLAGS", (*right, "--blink-settings=minimumFontSize=160"))
    refused = await try_gpu(binary, ())
    assert refused.kind == "software"
    assert re.search(r"gl-egl: ANGLE .* does not draw what llvmpipe draws: frame 0 is [\d.]+ dB from it", refused.why)
    # what was seen is kept until the machine starts anew, or its driver is another
    monkeypatch.delattr(gpu, "unlike")
    assert (await try_gpu(binary, ())).why == refused.why
    monkeypatch.setattr(gpu, "FLAGS", right)
    assert await try_gpu(binary, ()) == taken


@pytest.mark.needs("ffmpeg")
def test_nvencs_options_are_ones_that_this_ffmpeg_knows() -> None:
    line = ["ffmpeg", "-hide_banner", "-h", "encoder=h264_nvenc"]
    said = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60).stdout
    if "AVOptions" not in said:
        pytest.skip("this FFmpeg is built without h264_nvenc")
    known: dict[str, set[str]] = {}
    name = ""
    for word, value in re.findall(r"^  +(?:-(\S+)|(\S+))", said, re.MULTILINE):
        name = word or name
        known.setdefault(name, set()).add(value)
    common = set(unit_options(small(BUNDLE, format="webm"), 10, image="jpeg")) | {"g", "bf", "maxrate", "bufsize"}
    for fields in ({}, {"effort": "draft"}, {"bitrate_kbps": 500}):
        options = unit_options(small(BUNDLE, **fields), 10, image="jpeg", encoder="h264_nvenc")
        assert options["vcodec"] == "h264_nvenc"
        own = {name.partition(":")[0]: value for name, value in options.items() if name not in common}
        assert own.keys() - known.keys() <= {"rc_init_occupancy", "video_bitrate"}
        for name in ("preset", "tune", "profile", "rc"):
            assert str(own[name]) in known[name]
        assert ("cq" in own) is ("bitrate_kbps" not in fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"width": 128, "height": 90},
        {"width": 4098, "height": 90},
        {"effort": "small"},
        {"crf": 0},
        {"format": "webm"},
    ],
)
def test_what_nvenc_cannot_do_is_done_as_ever(fields: dict[str, object]) -> None:
    spec = small(BUNDLE, **fields)
    assert unit_options(spec, 10, image="jpeg", encoder="h264_nvenc") == unit_options(spec, 10, image="jpeg")


@pytest.mark.needs("ffmpeg")
@pytest.mark.parametrize("fps", [Fraction(10), Fraction(30000, 1001)])
async def test_units_without_b_frames_as_nvenc_makes_them_meet_exactly(tmp_path: Path, fps: Fraction) -> None:
    spec = small(BUNDLE, duration_s=float(41 / fps), fps=fps)
    units: list[tuple[Path, int]] = []
    for index, frames in enumerate((20, 20, 1)):
        options = unit_options(spec, frames, image="png", encoder="h264_nvenc")
        # x264 stands for it: the order of the frames is what matters
        for name in ("preset", "tune", "profile:v", "rc", "cq", "video_bitrate"):
            del options[name]
        options["vcodec"] = "libx264"
        path = tmp_path / f"{index}.mp4"
        source = f"testsrc=size=160x90:rate={fps}:duration=10"
        await run("ffmpeg", command_line(source, {"format": "lavfi"}, str(path), options), timeout_s=60)
        units.append((path, frames))
    video = tmp_path / "video.mp4"
    checksums = await join_units(spec, units, video)
    await check_video(spec, video, [str(frame) for frame in range(41)], checksums=checksums)
    line = ["-v", "error", "-show_entries", "packet=pts,dts,flags", "-of", "csv=p=0", str(video)]
    packets = [row.split(",") for row in (await run("ffprobe", line, timeout_s=60)).decode().split()]
    step = int(packets[1][1])
    assert [int(dts) for _, dts, _ in packets] == [int(pts) for pts, _, _ in packets] == list(range(0, 41 * step, step))
    assert [index for index, (_, _, flags) in enumerate(packets) if "K" in flags] == [0, 20, 40]


@pytest.mark.browser
async def test_a_browsers_encoder_is_the_one_that_its_units_get(storage: Storage) -> None:
    if await try_nvenc() is None:
        pytest.skip("NVENC encodes here")
    spec = small(await put_page(storage, "plain"))
    units = plan_units(spec)
    task = CaptureTask(
        storage=storage, user_id=USER, job_id="job_1", spec=spec, units=tuple(units),
        keys=tuple(f"{unit.index:064}" for unit in units), mode="seek", environment="",
    )  # fmt: skip
    bundle = await load_bundle(RetryingStorage(storage), USER, spec.bundle)
    async with await Browser.launch(graphics=replace(software_graphics(), encoder="h264_nvenc")) as browser:
        with pytest.raises(EncodeFailed, match=r"(?i)cuda|nvenc") as caught:
            await capture_units(task, browser, bundle)
    assert caught.value.retryable


@pytest.mark.needs("ffmpeg", "chromium")
def test_the_fingerprint_tells_gpus_and_encoders_apart_and_not_why_software_was_chosen() -> None:
    nvenc, other = replace(GPU, encoder="h264_nvenc"), replace(GPU, driver="550.54.14")
    kinds = [software_graphics("one"), software_graphics("two"), GPU, nvenc, other]
    one, two, *rest = (read_environment(None, graphics) for graphics in kinds)
    assert one.fingerprint == two.fingerprint
    assert len({one.fingerprint, *(each.fingerprint for each in rest)}) == 4
    assert one.graphics.startswith("software: llvmpipe (one), ")
    assert rest[1].graphics.startswith("GPU NVIDIA Corporation, driver 535.183.01, JPEG frames; mp4 with h264_nvenc")


@pytest.mark.needs("ffmpeg", "chromium")
def test_a_worker_with_other_graphics_refuses_and_says_what_to_set() -> None:
    mine = read_environment(None, GPU)
    spec = small(BUNDLE)
    task = CaptureTask(
        storage=Storage("/nowhere"), user_id=USER, job_id="job_1", spec=spec, units=(), keys=(), mode="seek",
        environment=read_environment(None, software_graphics()).fingerprint,
    )  # fmt: skip
    with pytest.raises(RenderError, match=r"graphics: GPU NVIDIA.*only some have a GPU, set KODA_RENDER_GRAPHICS"):
        check_environment(task, mine)


@pytest.mark.browser
@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU's device files")
async def test_a_job_reports_what_draws_or_ends_at_once(storage: Storage) -> None:
    spec = small(await put_page(storage, "plain"))

    async def render(executor: LocalExecutor) -> object:
        async with executor:
            job = RenderJob(spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER))
            return (await job.run()).report["environment"]

    with pytest.raises(Missing, match="KODA_RENDER_GRAPHICS=gpu and no GPU can be used here: no /dev/dri"):
        await render(LocalExecutor(workers=1, graphics="gpu"))
    environment = await render(LocalExecutor(workers=1))
    assert isinstance(environment, dict)
    assert environment["graphics"].startswith("software: llvmpipe (no /dev/dri/renderD* and no /dev/nvidia[0-9]*), ")


@pytest.mark.needs("chromium", "bwrap")
@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU's device files")
def test_the_doctor_says_what_was_chosen_and_why() -> None:
    def graphics(wish: str) -> tuple[str, str]:
        examination = Examination(Settings.model_validate({"render_graphics": wish}), dict(os.environ))
        *_, finding = machine.graphics(examination)
        return finding.status, finding.detail

    none = "no /dev/dri/renderD* and no /dev/nvidia[0-9]*"
    for wish, why in (("auto", none), ("software", "KODA_RENDER_GRAPHICS=software")):
        status, detail = graphics(wish)
        assert status == "ok" and detail in {
            f"software: llvmpipe ({why}), {frames}" for frames in ("raw frames", "JPEG frames")
        }
    status, detail = graphics("gpu")
    assert status == "missing" and none in detail


@pytest.mark.browser
async def test_the_doctor_says_of_webgl_what_drawing_found_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rasterizers, "own_folder", lambda name: folder)
    usual = await choose_rasterizer(find_browser().path)
    finding = machine.webgl(usual)
    assert finding.detail.startswith(f"{usual.rasterizer} draws it, on the processor")
    assert finding.status == ("ok" if usual.rasterizer == "llvmpipe" else "warning")
    seen: list[tuple[str, str]] = []
    for name in rasterizers.USUAL:
        broken = replace(RASTERIZERS[name], flags=("--use-gl=angle", "--use-angle=none"))
        monkeypatch.setitem(RASTERIZERS, name, broken)
        finding = machine.webgl(await choose_rasterizer(find_browser().path))
        assert finding.status == "warning" and "libgl1-mesa-dri" in finding.remedy
        seen.append((finding.status, finding.detail))
    assert seen == [
        ("warning", "swiftshader draws it, on the processor; llvmpipe: no WebGL 2"),
        ("warning", "nothing draws it: llvmpipe: no WebGL 2; swiftshader: no WebGL 2"),
    ]
    assert machine.webgl(GPU).detail == "NVIDIA Corporation draws it"
