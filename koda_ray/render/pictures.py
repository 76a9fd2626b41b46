"""Units that are the captured pictures themselves: what a GIF or a picture sequence is made of, without loss.

A unit is a zip of PNG files named by their frame in it; one that is not there shows what the frame before it shows.
So nothing is encoded twice, and a GIF of frames that a picture sequence was made of captures nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import zipfile
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import ParamSpec, TypeVar

from koda_ray.cancellation import see_through
from koda_ray.errors import EncodeFailed
from koda_ray.render import matroska
from koda_ray.render.kept import KeptPictures

__all__ = ["PictureUnit", "feed_of", "frame_name", "join_pictures", "read_pictures", "sequence_feed", "unwritten"]

P = ParamSpec("P")
T = TypeVar("T")
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def frame_name(frame: int) -> str:
    """Return a frame's name in a picture sequence."""
    return f"frame-{frame:06d}.png"


class PictureUnit:
    """Takes pictures one by one and leaves a unit's file: an encoder that does not encode.

    Args:
        target: The file to write.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._archive: zipfile.ZipFile | None = None
        self._count = 0
        self._last: bytes | None = None

    async def start(self) -> None:
        """Begin the file.

        Raises:
            EncodeFailed: It cannot be written; code DISK_FULL where that is why.
        """
        self._archive = await asyncio.to_thread(zipfile.ZipFile, self._target, "w")

    async def write(self, image: bytes) -> None:
        """Take the next picture; the very object of the call before is not written again.

        Raises:
            EncodeFailed: It is not a PNG, or cannot be written.
        """
        if self._archive is None:
            raise RuntimeError("PictureUnit.start has not been called")
        index, self._count = self._count, self._count + 1
        if image is self._last:
            return
        if not image.startswith(_PNG_MAGIC):
            raise EncodeFailed(f"picture {index} of {len(image)} bytes is not a PNG")
        self._last = image
        await _whole(_put, self._archive, frame_name(index), image)

    async def finish(self) -> Path:
        """Return the unit's file, which is whole now. Raises as `write`."""
        archive, self._archive = self._archive, None
        if archive is not None:
            await _whole(_end, archive)
        return self._target

    def kept(self) -> KeptPictures:
        """Nothing is kept: all pictures are there."""
        return KeptPictures()

    async def close(self) -> None:
        """Leave the file as it is; nothing happens after `finish`."""
        archive, self._archive = self._archive, None
        if archive is not None:
            with contextlib.suppress(EncodeFailed):  # nobody will read it
                await _whole(_end, archive)


async def _whole(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call in a thread, and return after it has ended also when the caller is cancelled: it holds a file."""
    task = asyncio.ensure_future(asyncio.to_thread(call, *args, **options))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await see_through(task)
        raise


def _put(archive: zipfile.ZipFile, name: str, image: bytes) -> None:
    try:
        archive.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), image)
    except OSError as error:
        raise unwritten(error) from error


def _end(archive: zipfile.ZipFile) -> None:
    """Write an archive's index and close it."""
    try:
        archive.close()
    except OSError as error:
        raise unwritten(error) from error


def unwritten(error: OSError) -> EncodeFailed:
    """Return the error for a unit's file that cannot be written; code DISK_FULL where that is why."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EncodeFailed("pictures: the disk is full; free some space and try again", code="DISK_FULL")
    return EncodeFailed(f"pictures cannot be written: {error.strerror}", retryable=True)


def read_pictures(units: Sequence[tuple[Path, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield each picture with the first frame that shows it, in order; what stands is yielded once.

    Args:
        units: Each unit's file and number of frames, in order.

    Raises:
        EncodeFailed: A unit is not one.
    """
    start = 0
    for path, frames in units:
        try:
            with zipfile.ZipFile(path) as archive:
                names = set(archive.namelist())
                for frame in range(frames):
                    if (name := frame_name(frame)) in names:
                        yield start + frame, archive.read(name)
        except (zipfile.BadZipFile, OSError) as error:
            raise EncodeFailed(f"the pictures of {path.name} cannot be read: {error}", retryable=True) from error
        start += frames


async def feed_of(units: Sequence[tuple[Path, int]], *, size: tuple[int, int], fps: Fraction) -> AsyncGenerator[bytes]:
    """Yield units' pictures as a stream for FFmpeg's standard input, one at a time.

    Args:
        units: Each unit's file and number of frames, in order.
        size: Width and height of the pictures.
        fps: Frames per second.
    """
    yield matroska.header(*size, fps, "png")
    pictures = read_pictures(units)
    last: tuple[int, bytes] | None = None
    while (shown := await asyncio.to_thread(next, pictures, None)) is not None:
        last = shown
        yield matroska.lead(shown[0], fps, len(shown[1]))
        yield shown[1]
    end = sum(frames for _, frames in units) - 1
    if last is not None and last[0] < end:  # the end has to be marked
        yield matroska.lead(end, fps, len(last[1]))
        yield last[1]


async def join_pictures(units: Sequence[tuple[Path, int]], target: Path) -> None:
    """Write the picture sequence: a zip with a file for each frame, and no more than two of them in memory.

    Raises:
        EncodeFailed: A unit is not one, or the file cannot be written.
    """
    total = sum(frames for _, frames in units)

    def write(archive: zipfile.ZipFile, pictures: Iterator[tuple[int, bytes]]) -> bool:
        """Write one picture, as often as it is shown."""
        nonlocal shown
        following = next(pictures, None)
        if shown is not None:
            for frame in range(shown[0], total if following is None else following[0]):
                _put(archive, frame_name(frame), shown[1])
        shown = following
        return following is not None

    shown: tuple[int, bytes] | None = None
    pictures = read_pictures(units)
    archive = await asyncio.to_thread(zipfile.ZipFile, target, "w")
    try:
        while await _whole(write, archive, pictures):
            pass
    except BaseException:
        with contextlib.suppress(EncodeFailed):
            _end(archive)
        raise
    await _whole(_end, archive)


async def sequence_feed(
    path: Path, frames: Sequence[int], *, size: tuple[int, int], fps: Fraction
) -> AsyncGenerator[bytes]:
    """Yield some frames of a picture sequence as a stream for FFmpeg's standard input, at their times.

    Args:
        path: What `join_pictures` wrote.
        frames: Which, in order.
        size: Width and height of the pictures.
        fps: Frames per second.
    """
    yield matroska.header(*size, fps, "png")
    with await asyncio.to_thread(zipfile.ZipFile, path) as archive:
        for frame in frames:
            data = await asyncio.to_thread(archive.read, frame_name(frame))
            yield matroska.lead(frame, fps, len(data))
            yield data
