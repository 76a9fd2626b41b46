"""``koda asset``: the files that a person uploaded to a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import typer

from koda_ray.client import KodaClient
from koda_ray.console.job import require_server
from koda_ray.wire import OwnAssetPage

__all__ = ["list_uploads", "remove", "upload"]


def list_uploads(*, limit: int, before: str | None, json: bool, server: str | None) -> None:
    """Print a page of uploads, newest first: fields apart by tabs, so that they can be cut out."""

    async def read() -> OwnAssetPage:
        async with KodaClient(require_server(server)) as client:
            return await client.uploads(limit=limit, before=before)

    page = asyncio.run(read())
    if json:
        typer.echo(page.model_dump_json(indent=2))
        return
    for found in page.assets:
        fields = (found.id, found.media_type, str(found.size_bytes), found.session_id or "-", found.name)
        typer.echo("\t".join(fields))
    if page.next is not None:
        typer.echo(f"more: koda asset list --before {page.next}", err=True)


def upload(file: Path, *, session: str | None, server: str | None) -> None:
    """Upload a file and print its id."""

    async def send() -> str:
        async with KodaClient(require_server(server)) as client:
            return (await client.upload(file, session_id=session)).id

    typer.echo(asyncio.run(send()))


def remove(assets: Sequence[str], *, server: str | None) -> None:
    """Remove uploads, and print the id of each that is gone."""

    async def send() -> None:
        async with KodaClient(require_server(server)) as client:
            for asset in assets:
                await client.remove_upload(asset)
                typer.echo(asset)

    asyncio.run(send())
