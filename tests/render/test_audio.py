"""Sound in a video: every sample where it belongs, whatever the file was and the container is."""

from __future__ import annotations

import asyncio
import io
import os
import re
import wave
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from koda_ray.errors import EncodeFailed, InvalidInput
from koda_ray.render import audio
from koda_ray.render.audio import SAMPLE_RATE, check_audio, decode_audio, total_samples
from koda_ray.render.bundle import Bundle
from koda_ray.render.encode import UnitEncoder
from koda_ray.render.facts import probe_video
from koda_ray.render.ffmpeg import run
from koda_ray.render.foreign import run_on_foreign
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.mux import join_units
from koda_ray.render.protocol import JobContext
from koda_ray.render.quality import check_video
from koda_ray.render.spec import AudioTrack, RenderSpec
from koda_ray.state.storage import Storage
from koda_ray.video_formats import VideoFormat
from tests.render.conftest import USER, put_page, small
from tests.render.test_encode import picture

pytestmark = pytest.mark.needs("ffmpeg")
BUNDLE = "a" * 64
Samples = NDArray[np.float32]


def wav(samples: Samples, rate: int = SAMPLE_RATE) -> bytes:
    """A 16 bit file of samples in (count,) or (count, channels), from -1 to 1."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return buffer.getvalue()


def click(at: int, length: int = SAMPLE_RATE, *, level: float = 0.8) -> Samples:
    samples = np.zeros(length, np.float32)
    samples[at] = level
    return samples


def tone(seconds: float, *, level: float = 0.5, hertz: float = 440, rate: int = SAMPLE_RATE) -> Samples:
    return (level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


async def heard(path: Path) -> Samples:
    """Decode a video's sound; (count, 2) float32."""
    arguments = ["-v", "error", "-i", str(path), "-map", "0:a:0", "-f", "f32le", "-ac", "2", "-ar", "48000", "-"]
    return np.frombuffer(await run("ffmpeg", arguments, timeout_s=60), np.float32).reshape(-1, 2)


async def video_with(folder: Path, files: dict[str, bytes], *tracks: AudioTrack, **fields: object) -> Path:
    """A video of two units with sound, as the join makes it, and through its gate."""
    spec = small(BUNDLE, **({"duration_s": 2.0, "format": "mov", "audio": tracks, "width": 32, "height": 32} | fields))
    units: list[tuple[Path, int]] = []
    half = spec.frame_count // 2
    for start, stop in ((0, half), (half, spec.frame_count)):
        image = "png" if spec.lossless else "jpeg"
        encoder = UnitEncoder(spec, stop - start, folder / f"unit-{start}", image=image)
        await encoder.start()
        for frame in range(start, stop):
            await encoder.write(picture(spec, frame, image))
        units.append((await encoder.finish(), stop - start))
        await encoder.close()
    sounds = await decode_audio(spec, Bundle(files), folder)
    video = folder / f"video.{spec.format}"
    sums = await join_units(spec, units, video, sounds=sounds)
    await check_video(spec, video, [str(frame) for frame in range(spec.frame_count)], checksums=sums)
    return video


@pytest.mark.parametrize("fps", [*(pytest.param(fps, marks=pytest.mark.full) for fps in (10, "23.976")), "29.97"])
async def test_a_click_lies_at_its_sample(tmp_path: Path, fps: object) -> None:
    track = AudioTrack(path="click.wav", start_s=0.5, trim_start_s=0.1)
    video = await video_with(tmp_path, {"click.wav": wav(click(14_400))}, track, fps=fps)
    samples = await heard(video)
    spec = small(BUNDLE, duration_s=2.0, fps=fps)
    assert len(samples) == total_samples(spec) == round(Fraction(spec.frame_count * SAMPLE_RATE) / spec.fps)
    assert np.argmax(np.abs(samples), axis=0).tolist() == [24_000 + 14_400 - 4_800] * 2
    assert samples.max() == pytest.approx(0.8, abs=0.001)
    assert np.count_nonzero(np.abs(samples[:, 0]) > 0.001) == 1


@pytest.mark.parametrize(("form", "late"), [("mp4", 1), ("webm", 1)])
@pytest.mark.full
async def test_lossy_sound_is_in_its_place_too(tmp_path: Path, form: VideoFormat, late: int) -> None:
    track = AudioTrack(path="click.wav", start_s=1.0)
    video = await video_with(tmp_path, {"click.wav": wav(click(9_600))}, track, format=form)
    samples = await heard(video)
    assert abs(int(np.argmax(np.abs(samples[:, 0]))) - 57_600) <= late
    assert 0 <= len(samples) - 96_000 <= 1024
    assert np.abs(samples[96_000:]).max(initial=0) < 0.01
    facts = await probe_video(video)
    assert facts.duration_s == pytest.approx(2.0, abs=1024 / 48000 + 0.001)
    again = tmp_path / "again"
    again.mkdir()
    same = await video_with(again, {"click.wav": wav(click(9_600))}, track, format=form)
    assert same.read_bytes() == video.read_bytes()
    streams = ["-v", "error", "-show_entries", "stream=codec_name,sample_rate", "-of", "csv=p=0", str(video)]
    assert ("aac,48000" if form == "mp4" else "opus,48000") in (await run("ffprobe", streams, timeout_s=60)).decode()


async def test_tracks_are_mixed_as_loud_as_they_are(tmp_path: Path) -> None:
    files = {"low.wav": wav(tone(2.0, level=0.25)), "loud.wav": wav(np.full(96_000, 0.5, np.float32))}
    low, loud = AudioTrack(path="low.wav"), AudioTrack(path="loud.wav", volume=0.5, start_s=0.5, duration_s=0.5)
    samples = (await heard(await video_with(tmp_path, files, low, loud)))[:, 0]
    wanted = tone(2.0, level=0.25)
    wanted[24_000:48_000] += 0.25
    assert np.abs(samples - wanted).max() < 0.001


async def test_what_is_too_loud_together_is_limited(tmp_path: Path) -> None:
    files = {"tone.wav": wav(tone(2.0, level=0.9))}
    samples = await heard(await video_with(tmp_path, files, *[AudioTrack(path="tone.wav")] * 3))
    assert 0.9 < np.abs(samples).max() <= 0.985


async def test_fades_go_up_and_down_in_their_time(tmp_path: Path) -> None:
    track = AudioTrack(path="a.wav", start_s=0.5, duration_s=1.0, fade_in_s=0.25, fade_out_s=0.5)
    video = await video_with(tmp_path, {"a.wav": wav(np.full(96_000, 0.8, np.float32))}, track)
    samples = (await heard(video))[:, 0]
    assert np.abs(samples[:24_000]).max() == 0
    assert np.abs(samples[72_000:]).max() < 0.001
    for at_s, level in ((0.625, 0.4), (0.8, 0.8), (0.999, 0.8), (1.25, 0.4), (1.375, 0.2)):
        assert samples[round(at_s * SAMPLE_RATE)] == pytest.approx(level, abs=0.005), at_s


@pytest.mark.full
async def test_other_rates_channels_and_codecs_are_taken(tmp_path: Path) -> None:
    stereo = np.stack([tone(1.0, rate=44_100), np.zeros(44_100, np.float32)], axis=1)
    source = tmp_path / "source.wav"
    source.write_bytes(wav(stereo, 44_100))
    files = {"tone.wav": source.read_bytes()}
    for name in ("tone.mp3", "tone.ogg", "tone.flac", "tone.m4a"):
        await run("ffmpeg", ["-v", "error", "-i", str(source), str(tmp_path / name)], timeout_s=60)
        files[name] = (tmp_path / name).read_bytes()
    reference = tone(1.0)
    for name in files:
        folder = tmp_path / f"of-{name}"
        folder.mkdir()
        samples = await heard(await video_with(folder, files, AudioTrack(path=name)))
        # encoders leave a lead-in of silence where the file does not say how long it is
        assert np.abs(samples[2_000:46_000, 0]).max() == pytest.approx(0.5, abs=0.05), name
        assert np.abs(samples[:, 1]).max() < 0.02, name
        if name in ("tone.wav", "tone.flac"):
            assert np.abs(samples[500:47_500, 0] - reference[500:47_500]).max() < 0.002


async def test_a_sound_that_begins_after_the_end_is_not_heard(tmp_path: Path) -> None:
    track = AudioTrack(path="click.wav", start_s=5.0)
    samples = await heard(await video_with(tmp_path, {"click.wav": wav(click(0))}, track))
    assert len(samples) == 96_000
    assert np.abs(samples).max() == 0


@pytest.mark.sandbox
@pytest.mark.parametrize("program", ["ffprobe", "ffmpeg"])
async def test_a_decoder_that_a_file_took_over_sees_nothing_of_ours(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its place is a script that tells, as its last words, what it finds."""
    tools, data = tmp_path / "tools", tmp_path / "data"
    tools.mkdir()
    data.mkdir()
    (data / "koda.db").write_text("everybody's")
    script = (
        "#!/bin/sh\n"
        f'echo "x: secret=$ANTHROPIC_API_KEY,$(tr "\\0" " " </proc/1/environ | grep -o hush)'
        f' net=$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " \\n") data=$(cat {data}/koda.db 2>/dev/null)'
        " user=$(stat -c %u /proc/self) calls=$(grep -c 'Seccomp:.2' /proc/self/status)"
        ' sound=$(head -c 4 /dev/stdin | tr -dc A-Z)" >&2\nexit 1\n'
    )
    (tools / program).write_text(script)
    (tools / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "ffmpeg")  # the one on PATH
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hush")
    spec = small(BUNDLE, format="mov", audio=(AudioTrack(path="click.wav"),))
    with pytest.raises(InvalidInput) as caught:
        await decode_audio(spec, Bundle({"click.wav": wav(click(0))}), tmp_path)
    said = re.search(r"\((.*)\)", caught.value.message)
    assert said is not None and said[1] == "secret=, net=lo data= user=65534 calls=1 sound=RIFF"


@pytest.mark.sandbox
async def test_a_decoder_that_does_what_a_stranger_says_reaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FFmpeg itself, told to read a file of ours, its environment and a server, and to write: outside, it does."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hush")
    data, sound = tmp_path / "koda.db", tmp_path / "click.wav"
    data.write_bytes(b"everybody's")
    sound.write_bytes(wav(click(0)))
    callers: list[str] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append("came")
        writer.write(b"everybody's")
        writer.close()

    async def outside(*arguments: str) -> bytes:
        return await run("ffmpeg", ["-v", "error", *arguments], timeout_s=60)

    async def inside(*arguments: str) -> bytes:
        return await run_on_foreign("ffmpeg", ["-v", "error", *arguments], source=sound, timeout_s=60)

    def read(place: str) -> list[str]:
        return ["-f", "u8", "-ar", "8000", "-ac", "1", "-i", place, "-f", "u8", "-"]

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for place in (str(data), url):
            assert await outside(*read(place)) == b"everybody's"
            with pytest.raises(EncodeFailed):
                await inside(*read(place))
        assert callers == ["came"]
    assert b"hush" in await outside(*read("/proc/self/environ"))
    for process in ("self", "1"):
        told = await inside(*read(f"/proc/{process}/environ"))
        assert b"PATH=" in told and b"hush" not in told
    with pytest.raises(EncodeFailed):
        await inside("-y", "-i", "/dev/stdin", "-f", "wav", str(data))
    assert data.read_bytes() == b"everybody's"
    assert await inside(
        "-i", "/dev/stdin", "-f", "u8", "-ac", "1", "-"
    )  # of the file that it has, it makes what it can


async def test_tracks_together_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "MAX_HEARD_S", 2.5)
    files = Bundle({"tone.wav": wav(tone(1)), "long.wav": wav(tone(9))})
    tracks = [AudioTrack(path="tone.wav"), AudioTrack(path="long.wav", duration_s=1)]
    heard = small(BUNDLE, duration_s=9, format="mov", audio=tuple(tracks))
    await check_audio(heard, files)
    assert [sound.samples for sound in await decode_audio(heard, files, tmp_path)] == [SAMPLE_RATE, SAMPLE_RATE]
    too_long = small(BUNDLE, duration_s=9, format="mov", audio=(*tracks, AudioTrack(path="long.wav", start_s=8)))
    for refused in (check_audio(too_long, files), decode_audio(too_long, files, tmp_path)):
        with pytest.raises(InvalidInput, match=r"long.wav: .* more than the 2.5 s that are taken: mix"):
            await refused


async def test_what_is_not_sound_is_named(tmp_path: Path) -> None:
    playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"
    files = {
        "index.html": b"<p>", "noise.mp3": bytes(range(256)) * 64, "empty.wav": b"", "list.m3u8": playlist,
        "short.wav": wav(click(0, 4_800)), "concat.wav": b"ffconcat version 1.0\nfile /etc/hostname\n",
    }  # fmt: skip
    for name, words in (
        ("missing.mp3", r"missing\.mp3 is not in the bundle: it has noise\.mp3"),
        ("missing.ogg", r"missing\.ogg is not in the bundle: it has no \.ogg files"),
        ("noise.mp3", r"noise\.mp3 cannot be read \(.+\): give an mp3"),
        ("empty.wav", r"empty\.wav cannot be read"),
        ("list.m3u8", r"list\.m3u8 cannot be read"),
        ("concat.wav", r"concat\.wav cannot be read"),
    ):
        spec = small(BUNDLE, audio=(AudioTrack(path=name),))
        with pytest.raises(InvalidInput, match=words):
            await check_audio(spec, Bundle(files))
    spec = small(BUNDLE, audio=(AudioTrack(path="short.wav", trim_start_s=3),))
    with pytest.raises(InvalidInput, match=r"short\.wav: nothing of it is left after 3 s"):
        await decode_audio(spec, Bundle(files), tmp_path)


@pytest.mark.browser
async def test_a_render_has_the_sound_of_its_bundle(storage: Storage) -> None:
    page = "<!doctype html><body><b id=b>x</b><script>setInterval(() => { b.style.marginLeft = performance.now() / 9 + 'px' }, 50)</script>"  # noqa: E501
    files = {"index.html": page.encode(), "sounds/click.wav": wav(click(24_000))}
    bundle = await put_page(storage, Bundle(files))

    async def render(spec: RenderSpec, executor: LocalExecutor, job_id: str) -> Path:
        result = await RenderJob(
            spec, JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER)
        ).run()
        assert result.report["unitsReused"] == (0 if job_id == "job_1" else 1)
        path = storage.local_path(result.video_key)
        assert path is not None
        return path

    async with LocalExecutor(workers=1) as executor:
        track = AudioTrack(path="sounds/click.wav")
        samples = await heard(await render(small(bundle, audio=(track,)), executor, "job_1"))
        assert abs(int(np.argmax(np.abs(samples[:, 0]))) - 24_000) <= 1
        # another mix of the same pictures captures nothing
        later = AudioTrack(path="sounds/click.wav", start_s=0.25)
        samples = await heard(await render(small(bundle, audio=(later,)), executor, "job_2"))
        assert abs(int(np.argmax(np.abs(samples[:, 0]))) - 36_000) <= 1
        with pytest.raises(InvalidInput, match=r"sounds/clack\.wav is not in the bundle: it has sounds/click\.wav"):
            await render(small(bundle, audio=(AudioTrack(path="sounds/clack.wav"),), seed=2), executor, "job_3")
