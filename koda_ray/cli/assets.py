"""Commands on the files that a person uploaded: list them, and remove those that no session has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from koda_ray.cli.options import Json, Server

__all__ = ["app"]

app = typer.Typer(help="Pictures, films and sounds that were uploaded.", no_args_is_help=True)


@app.command("list")
def list_assets(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="ID", help="The page after this file.")] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """List uploaded files, newest first, with the session that has each."""
    from koda_ray.console.assets import list_uploads

    list_uploads(limit=limit, before=before, json=json, server=server)


@app.command("upload")
def upload_asset(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A picture, a film or a sound.", show_default=False)],
    session: Annotated[str | None, typer.Option(metavar="ID", help="Give it to a session that exists.")] = None,
    server: Server = None,
) -> None:
    """Upload a file and print its id. One that no session has is removed after some days."""
    from koda_ray.console.assets import upload

    upload(file, session=session, server=server)


@app.command("remove")
def remove_asset(
    assets: Annotated[list[str], typer.Argument(metavar="ID...", help="Files' ids.", show_default=False)],
    server: Server = None,
) -> None:
    """Remove uploaded files that no session has; a session's go with it."""
    from koda_ray.console.assets import remove

    remove(assets, server=server)
