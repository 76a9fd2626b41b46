"""A process that clears a machine once: ``python -m tests.actors.clearer FOLDER``; prints what it did as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from koda_ray.actors.reaper import Reaper
from tests.actors.house import House


async def main(folder: Path) -> None:
    house = House(folder)
    await house.store.open()
    done = await Reaper(store=house.store, sandboxes=house.sandboxes, settings=house.settings).clear()
    await house.store.close()
    sys.stdout.write(f"\n{json.dumps(asdict(done))}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
