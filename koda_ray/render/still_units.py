"""Units in which one picture stands, encoded once: a title that is held, a page that has come to rest.

The same pictures give the same bytes, so a unit that shows for as long what another showed is that one's file. To start
FFmpeg is most of what such a unit costs: 15 ms, where to find that a frame has not changed takes 1 or 2. Before the
first unit that stands, and for every other, nothing is done otherwise.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path

from koda_ray.render.encode import Encoder, unit_encoder, unit_options
from koda_ray.render.formats import FORMATS
from koda_ray.render.graphics import H264Encoder
from koda_ray.render.kept import KeptFrames, KeptPictures
from koda_ray.render.matroska import ImageKind
from koda_ray.render.pictures import unwritten
from koda_ray.render.spec import RenderSpec

__all__ = ["StillUnits"]


@dataclass(frozen=True)
class _Still:
    """A unit's picture and file, and the picture as sheet and thumbnail show it; None where they do not."""

    picture: bytes
    data: bytes
    cell: bytes | None
    thumbnail: bytes | None

    def has(self, kept: KeptFrames) -> bool:
        """Whether all is here that is kept of a unit."""
        return (self.cell is not None or not kept.cells) and (self.thumbnail is not None or kept.thumbnail is None)

    def shows(self, kept: KeptFrames) -> KeptPictures:
        """Return what is kept of a unit."""
        cells = () if self.cell is None else (self.cell,) * len(kept.cells)
        return KeptPictures(cells, None if kept.thumbnail is None else self.thumbnail)


class StillUnits:
    """Remembers the last units of one picture, of one user: nobody learns by how long it takes what another's show.

    Args:
        most: How many, each with its picture: 3 MB of a 1080p video.
    """

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, _Still] = OrderedDict()

    def encoder(
        self,
        spec: RenderSpec,
        frames: int,
        target: Path,
        *,
        image: ImageKind,
        encoder: H264Encoder,
        kept: KeptFrames,
    ) -> Encoder:
        """Return what makes a unit's file; where the unit is one that is known, without FFmpeg.

        Args:
            spec: As `unit_encoder`.
            frames: As `unit_encoder`.
            target: As `unit_encoder`.
            image: As `unit_encoder`.
            encoder: As `unit_encoder`.
            kept: As `unit_encoder`.
        """

        def begin() -> Encoder:
            return unit_encoder(spec, frames, target, image=image, encoder=encoder, kept=kept)

        if FORMATS[spec.format].pictures:
            return begin()
        how = sorted(unit_options(spec, frames, image=image, encoder=encoder).items(), key=lambda option: option[0])
        kind = (spec.picture, image, repr(how))

        def keep(still: _Still) -> None:
            before = self._known.get(kind)
            if before is not None and before.picture == still.picture:
                still = replace(still, cell=still.cell or before.cell, thumbnail=still.thumbnail or before.thumbnail)
            self._known[kind] = still
            self._known.move_to_end(kind)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

        known = self._known.get(kind)
        if known is not None and not known.has(kept):
            known = None
        return _Patient(begin, target, known=known, kept=kept, keep=keep)


class _Patient:
    """An `Encoder` that starts once there is something that is not known yet.

    Args:
        begin: Makes the one that does the work.
        target: The file to write.
        known: What the unit may be, if anything.
        kept: Which of its frames are kept.
        keep: Is given the unit where one picture stands in it.
    """

    def __init__(
        self,
        begin: Callable[[], Encoder],
        target: Path,
        *,
        known: _Still | None,
        kept: KeptFrames,
        keep: Callable[[_Still], None],
    ) -> None:
        self._begin = begin
        self._target = target
        self._known = known
        self._kept = kept
        self._keep = keep
        self._encoder: Encoder | None = None
        self._held = 0
        self._last: bytes | None = None
        self._moves = False
        self._data = b""

    async def start(self) -> None:
        """Begin. Raises as `UnitEncoder.start`."""
        if self._known is None:
            await self._begun()

    async def _begun(self) -> Encoder:
        if self._encoder is None:
            self._encoder = self._begin()
            await self._encoder.start()
        return self._encoder

    async def write(self, image: bytes) -> None:
        """Take the next picture. Raises as `UnitEncoder.write`, and as `start` where it begins with this one."""
        known = self._known
        if self._encoder is None and known is not None:
            if image is self._last or image == known.picture:
                self._held, self._last = self._held + 1, image
                return
            encoder = await self._begun()
            for _ in range(self._held):
                await encoder.write(known.picture)
        if image is not self._last:
            self._moves = self._last is not None
            self._last = image
        await (await self._begun()).write(image)

    async def finish(self) -> Path:
        """Return the unit's file, which is whole now. Raises as `UnitEncoder.finish`."""
        if self._encoder is None and self._known is not None:
            try:
                await asyncio.to_thread(self._target.write_bytes, self._known.data)
            except OSError as error:
                raise unwritten(error) from error
            return self._target
        path = await (await self._begun()).finish()
        if not self._moves:
            self._data = await asyncio.to_thread(path.read_bytes)
        return path

    def kept(self) -> KeptPictures:
        """Return what was kept, after `finish`."""
        if self._encoder is None:
            return KeptPictures() if self._known is None else self._known.shows(self._kept)
        kept = self._encoder.kept()
        if self._data and self._last is not None:
            self._keep(_Still(self._last, self._data, kept.cells[0] if kept.cells else None, kept.thumbnail))
        return kept

    async def close(self) -> None:
        """End what still runs; nothing happens after `finish`."""
        if self._encoder is not None:
            await self._encoder.close()
