"""``koda renders``: the pages that a server renders, from the server or, without one, from the database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.console import Console

from koda_ray.client import KodaClient
from koda_ray.console.database import read_renders
from koda_ray.console.server import running_url
from koda_ray.console.summary import print_renders
from koda_ray.console.text import clean
from koda_ray.wire import RenderList, RenderStatus

__all__ = ["list_renders"]


def list_renders(
    *,
    limit: int,
    before: str | None,
    status: Sequence[RenderStatus],
    text: str | None,
    json: bool,
    server: str | None,
) -> None:
    """Print a page of renders, newest first."""
    url = running_url(server)

    async def read() -> RenderList:
        if url is None:
            return await read_renders(limit=limit, before=before, status=status, text=text)
        async with KodaClient(url) as client:
            return await client.page_renders(limit=limit, before=before, status=status, text=text)

    page = asyncio.run(read())
    console = Console(highlight=False)
    if json:
        console.file.write(page.model_dump_json(indent=2) + "\n")
    else:
        is_sought = bool(before or status or text)
        print_renders(console, page, sought=_sought(before, status, text) if is_sought else None)


def _sought(before: str | None, status: Sequence[RenderStatus], text: str | None) -> str:
    """Say which renders were asked for."""
    kind = f"{' or '.join(status)} renders" if status else "renders"
    words = f" with the words {clean(text)!r} in their page's file, row and data" if text else ""
    return kind + words + (f" after {clean(before)}" if before else "")
