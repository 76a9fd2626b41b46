"""``koda keys``: who may use a server, straight in its database, for whoever runs it.

A key is shown once, when it is made; the database has its hash. With the first key a server that was open to its own
machine asks everybody for one, and that is said.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from koda_ray.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from koda_ray.state.store import Store

__all__ = ["app"]

T = TypeVar("T")
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
app = typer.Typer(help="Make, list and revoke the keys of a server.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def create(
    user: Annotated[str, typer.Argument(help="Whose: what is made with the key is this user's.")] = "local",
    name: Annotated[str, typer.Option(metavar="TEXT", help="What it is for, to know it again.")] = "",
) -> None:
    """Make a key and print it, this once. From then on requests need one."""
    if not _USER.fullmatch(user):
        raise InvalidInput(f"user {user[:80]!r}: give letters, digits, '-' and '_', at most 64")

    async def work(store: Store) -> tuple[str, bool]:
        first = not await store.has_api_keys()
        return await store.create_api_key(user, name=name[:200]), first

    key, first = _with_store(work)
    typer.echo(key)
    if first:
        typer.echo("requests need a key from now on: set KODA_API_KEY to it where you use koda", err=True)


@app.command("list")
def list_keys(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List keys by their ids. Those of KODA_API_KEYS are not among them."""
    found = _with_store(lambda store: store.api_keys())
    rows = [
        {
            "id": key.id,
            "user": key.user_id,
            "name": key.name,
            "createdAt": key.created_at.isoformat(),
            "revokedAt": key.revoked_at.isoformat() if key.revoked_at else None,
        }
        for key in found
    ]
    if as_json:
        typer.echo(json.dumps({"keys": rows}, indent=2))
        return
    for row in rows:
        state = "revoked" if row["revokedAt"] else "valid"
        typer.echo("\t".join((str(row["id"]), str(row["user"]), state, str(row["createdAt"]), str(row["name"]))))


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID|KEY", help="The key, or its id (see: koda keys list).")],
) -> None:
    """Make a key useless."""
    if not _with_store(lambda store: store.revoke_api_key(key)):
        raise NotFound("no valid key has this id: see koda keys list")
    typer.echo("revoked")


def _with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    from koda_ray.config import Settings
    from koda_ray.state.stores import store_from

    async def run() -> T:
        store = store_from(Settings.model_validate({}), processes="one")
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())
