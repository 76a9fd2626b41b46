"""A process that makes an image or a sandbox of its own and says how that ended; to be stopped and killed meanwhile.

python -m tests.sandbox.maker '{"settings": {...}, "store": "koda.db", "lease_s": 60, "image": "notes"}'
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

from koda_ray.config import Settings
from koda_ray.errors import KodaError
from koda_ray.sandbox import unfinished, workshop
from koda_ray.sandbox.providers import Providers
from koda_ray.state.sql import SqlStore


async def main() -> None:
    given = json.loads(sys.argv[1])
    unfinished.LEASE = workshop.LEASE = timedelta(seconds=given["lease_s"])
    store = SqlStore(Path(given["store"]))
    await store.open()
    providers = Providers(Settings.model_validate(given["settings"]), store)
    ann = workshop.Workshop(store, providers, user_id="ann")
    try:
        if "folder" in given:
            made = await ann.create_image(Path(given["folder"]))
        else:
            made = await ann.create_sandbox(given["image"])
        say(f"made {made.id}")
    except KodaError as error:
        say(f"failed {error.code}")
    finally:
        await providers.close()
        await store.close()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


asyncio.run(main())
