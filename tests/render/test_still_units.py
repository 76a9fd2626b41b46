"""Units in which one picture stands: encoded once, and the same file as if each had been encoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.errors import EncodeFailed
from koda_ray.render import encode, still_units
from koda_ray.render.bundle import Bundle
from koda_ray.render.encode import unit_encoder
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext, RenderResult
from koda_ray.render.spec import RenderSpec
from koda_ray.render.still_units import StillUnits
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small
from tests.render.test_encode import picture

pytestmark = pytest.mark.needs("ffmpeg")
SPEC = small("a" * 64, duration_s=2.0)
PICTURES = [picture(SPEC, frame) for frame in (0, 13, 27)]
SHOWN = st.lists(st.integers(0, 2), min_size=6, max_size=6) | st.integers(0, 2).map(lambda one: [one] * 6)
UNIT = st.tuples(SHOWN, st.sampled_from([(), (0,), (2, 5)]), st.sampled_from(["ann", "bob"]))


async def plainly(frames: Sequence[int], cells: Sequence[int], path: Path) -> tuple[bytes, list[bytes]]:
    encoder = unit_encoder(SPEC, len(frames), path, image="jpeg", cells=cells)
    await encoder.start()
    for frame in frames:
        await encoder.write(PICTURES[frame])
    data = (await encoder.finish()).read_bytes()
    await encoder.close()
    return data, [*encoder.cells()]


async def remembering(
    stills: StillUnits, frames: Sequence[int], cells: Sequence[int], path: Path, user_id: str = USER
) -> tuple[bytes, list[bytes]]:
    encoder = stills.encoder(
        SPEC, len(frames), path, user_id=user_id, image="jpeg", encoder="libx264", cells=cells
    )  # fmt: skip
    try:
        await encoder.start()
        last = b""
        for frame in frames:
            if last != PICTURES[frame]:
                last = bytes(bytearray(PICTURES[frame]))  # as pages do: the same object while nothing changes
            await encoder.write(last)
        data = (await encoder.finish()).read_bytes()
        return data, [*encoder.cells()]
    finally:
        await encoder.close()


@pytest.mark.full
@settings(max_examples=25, deadline=None, derandomize=True)
@given(units=st.lists(UNIT, min_size=2, max_size=5))
async def test_whatever_was_encoded_before_a_unit_is_the_file_that_it_is_alone(
    tmp_path_factory: pytest.TempPathFactory, units: list[tuple[list[int], tuple[int, ...], str]]
) -> None:
    folder, stills = tmp_path_factory.mktemp("units"), StillUnits()
    for number, (frames, cells, user_id) in enumerate(units):
        found = await remembering(stills, frames, cells, folder / f"unit-{number}", user_id)
        assert found == await plainly(frames, cells, folder / f"plain-{number}")


async def test_a_unit_that_stands_is_encoded_once_for_each_user_and_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[Path]()

    class Counted(encode.UnitEncoder):
        async def start(self) -> None:
            started.append(self._target)
            await super().start()

    monkeypatch.setattr(encode, "UnitEncoder", Counted)
    stills, path = StillUnits(), tmp_path / "unit"
    await remembering(stills, [0] * 6, (), path)
    for cells, count in (((), 1), ((1,), 2), ((1, 2), 2), ((), 2)):  # one picture of the sheet is as good as another
        await remembering(stills, [0] * 6, cells, path)
        assert len(started) == count, cells
    await remembering(stills, [0] * 5, (), path)
    await remembering(stills, [0] * 6, (), path, "bob")
    await remembering(stills, [0, 0, 1, 1, 1, 1], (), path)
    assert len(started) == 5


async def test_a_film_that_stands_has_the_bytes_that_it_has_on_a_machine_that_remembers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Bundle({"index.html": b"<body style='background:#369'>still</body>"})

    async def film(name: str) -> tuple[RenderResult, bytes]:
        storage = Storage(str(tmp_path / name))
        spec: RenderSpec = small(await put_page(storage, page), duration_s=4.0, moves=False)
        async with LocalExecutor(workers=1) as executor:
            context = JobContext(storage=storage, executor=executor, job_id="j", user_id=USER)
            result = await RenderJob(spec, context).run()
        return result, await storage.get(result.video_key)

    one, video = await film("remembers")
    monkeypatch.setattr(still_units, "_KEPT", 0)
    other, plain = await film("forgets")
    assert video == plain
    assert one.report["still"] is other.report["still"] is True


async def test_a_full_disk_is_said_of_a_unit_that_is_known_too(tmp_path: Path) -> None:
    stills = StillUnits()
    await remembering(stills, [0] * 6, (), tmp_path / "unit")
    with pytest.raises(EncodeFailed, match="cannot be written"):
        await remembering(stills, [0] * 6, (), tmp_path / "none" / "unit")
