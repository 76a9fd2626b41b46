"""Which files of a project fit into what is kept of one: all but the largest.

A file counts with its whole size, since that is what whoever reads it holds: the holes of a sparse file take nothing of
a sandbox's disk, and a file with a thousand names takes one file's room.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["left_out"]


def left_out(sizes: Mapping[str, int], kept: Mapping[str, int], *, most_bytes: int) -> frozenset[str]:
    """Choose what to leave out, the largest first.

    Args:
        sizes: The bytes of each file as it is now.
        kept: The bytes that are remembered of some, and stay so where the file is left out.
        most_bytes: What all may have together.
    """
    over = sum(sizes.values()) - most_bytes
    chosen: set[str] = set()
    if over > 0:
        gains = {path: size - kept.get(path, 0) for path, size in sizes.items()}
        for path in sorted(gains, key=lambda path: (-gains[path], path)):
            if over <= 0 or gains[path] <= 0:
                break
            chosen.add(path)
            over -= gains[path]
    return frozenset(chosen)
