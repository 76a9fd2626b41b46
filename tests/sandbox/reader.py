"""A process that reads something large: ``python -m tests.sandbox.reader FOLDER TOTAL SIZE USER``.

Takes room for SIZE bytes of TOTAL in FOLDER, says ``held``, and gives it back when a line comes; then says ``over``.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from koda_ray.sandbox.reading_memory import ReadingMemory


async def main(folder: Path, total: int, size: int, user_id: str) -> None:
    async with ReadingMemory(folder, total_bytes=total, user_id=user_id).holding(size):
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
    sys.stdout.write("over\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
