"""Units in which one picture stands: encoded once, and the same file as if each had been encoded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.errors import EncodeFailed
from koda_ray.render import encode, local
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.encode import unit_encoder
from koda_ray.render.job import RenderJob
from koda_ray.render.kept import KeptFrames, KeptPictures
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext
from koda_ray.render.still_units import StillUnits
from koda_ray.state.storage import Storage
from tests.render.conftest import small
from tests.render.test_encode import picture

pytestmark = pytest.mark.needs("ffmpeg")
SPEC = small("a" * 64, duration_s=2.0)
PICTURES = [picture(SPEC, frame) for frame in (0, 13, 27)]
SHOWN = st.lists(st.integers(0, 2), min_size=6, max_size=6) | st.integers(0, 2).map(lambda one: [one] * 6)
NOTHING, MIDDLE = KeptFrames(), KeptFrames(thumbnail=3)
UNIT = st.tuples(SHOWN, st.sampled_from([NOTHING, KeptFrames((0,)), KeptFrames((2, 5)), MIDDLE, KeptFrames((1, 4), 4)]))


async def plainly(frames: Sequence[int], kept: KeptFrames, path: Path) -> tuple[bytes, KeptPictures]:
    encoder = unit_encoder(SPEC, len(frames), path, image="jpeg", kept=kept)
    await encoder.start()
    for frame in frames:
        await encoder.write(PICTURES[frame])
    data = (await encoder.finish()).read_bytes()
    await encoder.close()
    return data, encoder.kept()


async def remembering(
    stills: StillUnits, frames: Sequence[int], kept: KeptFrames, path: Path
) -> tuple[bytes, KeptPictures]:
    encoder = stills.encoder(
        SPEC, len(frames), path, image="jpeg", encoder="libx264", kept=kept
    )  # fmt: skip
    try:
        await encoder.start()
        last = b""
        for frame in frames:
            if last != PICTURES[frame]:
                last = bytes(bytearray(PICTURES[frame]))  # as pages do: the same object while nothing changes
            await encoder.write(last)
        data = (await encoder.finish()).read_bytes()
        return data, encoder.kept()
    finally:
        await encoder.close()


@pytest.mark.full
@settings(max_examples=25, deadline=None, derandomize=True)
@given(units=st.lists(UNIT, min_size=2, max_size=5))
async def test_whatever_was_encoded_before_a_unit_is_the_file_that_it_is_alone(
    tmp_path_factory: pytest.TempPathFactory, units: list[tuple[list[int], KeptFrames]]
) -> None:
    folder, stills = tmp_path_factory.mktemp("units"), StillUnits()
    for number, (frames, kept) in enumerate(units):
        found = await remembering(stills, frames, kept, folder / f"unit-{number}")
        assert found == await plainly(frames, kept, folder / f"plain-{number}")
        assert (len(found[1].cells), found[1].thumbnail is None) == (len(kept.cells), kept.thumbnail is None)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files for which an FFmpeg was started."""
    files = list[Path]()
    begin = encode.UnitEncoder.start

    async def start(encoder: encode.UnitEncoder) -> None:
        await begin(encoder)
        files.append(Path())

    monkeypatch.setattr(encode.UnitEncoder, "start", start)
    return files


async def test_a_unit_that_stands_is_encoded_once_for_each_length(tmp_path: Path, started: list[Path]) -> None:
    stills, path = StillUnits(), tmp_path / "unit"
    await remembering(stills, [0] * 6, NOTHING, path)
    # one picture of the sheet is as good as another; what was not kept of the first is
    first, more = KeptFrames((1,)), KeptFrames((1, 2))
    for kept, count in ((NOTHING, 1), (first, 2), (more, 2), (NOTHING, 2), (KeptFrames((4,), 3), 3), (MIDDLE, 3)):
        await remembering(stills, [0] * 6, kept, path)
        assert len(started) == count, kept
    await remembering(stills, [0] * 5, NOTHING, path)
    assert len(started) == 4
    await remembering(stills, [0] * 6, NOTHING, path)
    assert len(started) == 4
    await remembering(stills, [0, 0, 1, 1, 1, 1], NOTHING, path)
    assert len(started) == 5


@pytest.mark.browser
async def test_a_film_that_stands_is_encoded_once_for_each_user_and_is_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Path]
) -> None:
    page = Bundle({"index.html": b"<body style='background:#369'>still</body>"})

    async def film(*users: str) -> list[bytes]:
        videos = list[bytes]()
        async with LocalExecutor(workers=1) as executor:
            for user_id in users:
                storage = Storage(str(tmp_path / f"{len(started)}"))
                bundle = await store_bundle(storage, user_id, page)
                spec = small(bundle, duration_s=4.0, moves=False)
                context = JobContext(storage=storage, executor=executor, job_id="j", user_id=user_id)
                result = await RenderJob(spec, context).run()
                assert result.report["still"] is True
                videos.append(await storage.get(result.video_key))
        return videos

    one, other = await film("ann", "bob")
    # of four units each: the second begins while the first is being encoded, the third has the film's thumbnail
    assert len(started) == 2 * 3
    monkeypatch.setattr(local, "StillUnits", partial(StillUnits, most=0))
    (plain,) = await film("ann")
    assert len(started) == 2 * 3 + 4
    assert one == other == plain


async def test_a_full_disk_is_said_of_a_unit_that_is_known_too(tmp_path: Path) -> None:
    stills = StillUnits()
    await remembering(stills, [0] * 6, NOTHING, tmp_path / "unit")
    with pytest.raises(EncodeFailed, match="cannot be written"):
        await remembering(stills, [0] * 6, NOTHING, tmp_path / "none" / "unit")
