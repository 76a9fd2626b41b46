"""What work has used, and how much more it may."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

import typer

from koda_ray.cli.options import Json, Server, Session, checked, run, tell

__all__ = ["app"]

app = typer.Typer()


def _limit(text: str) -> float:
    if text == "none":
        return math.inf
    if not math.isfinite(limit := float(text)):
        raise typer.BadParameter(f"{text!r} is no limit: give a number, or none to take the limit away")
    return limit


def _limits(unit: str, what: str) -> Any:
    return typer.Option(parser=_limit, metavar=f"{unit}|none", help=f"{what}, in all.")


@app.command()
def usage(
    session: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A session's id; else all of your work.", show_default=False)
    ] = None,
    month: Annotated[str | None, typer.Option(metavar="YYYY-MM", help="Of all your work; else this month.")] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """Show tokens, money, sandbox and render time that were used, and their limits. Works without a server too."""
    from rich.console import Console

    from koda_ray.client import KodaClient
    from koda_ray.console.server import running_url
    from koda_ray.console.usage import print_usage

    if session is not None and month is not None:
        raise typer.BadParameter("a session is not counted by months: leave one of the two out", param_hint="--month")
    if month is not None and re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month) is None:
        raise typer.BadParameter(f"{month!r} is no month: write it as 2026-11", param_hint="--month")

    async def read(url: str) -> Any:
        async with KodaClient(url) as client:
            return await (client.usage(month=month) if session is None else client.session_usage(session))

    url = running_url(server)
    if url is None:
        from koda_ray.console.database import read_usage

        found = run(read_usage(session, month=month))
    else:
        found = run(read(url))
    if json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_usage(Console(highlight=False), found)


@app.command()
def budget(
    session: Session,
    tokens: Annotated[float | None, _limits("N", "Tokens of models")] = None,
    cost_usd: Annotated[float | None, _limits("USD", "Dollars for models")] = None,
    sandbox_minutes: Annotated[float | None, _limits("MIN", "Minutes of sandbox")] = None,
    render_minutes: Annotated[float | None, _limits("MIN", "Minutes of rendering")] = None,
    server: Server = None,
) -> None:
    """Set a session's limits: what may be used in all. One that waits because of a limit goes on when it is raised.

    A limit that is said to be none is taken away; then the server's own holds, if it has one.
    """
    from koda_ray.types import Budget

    given = {
        "tokens": tokens,
        "cost_usd": cost_usd,
        "sandbox_minutes": sandbox_minutes,
        "render_minutes": render_minutes,
    }
    named = {name: None if value == math.inf else value for name, value in given.items() if value is not None}
    if not named:
        raise typer.BadParameter("name at least one limit", param_hint="--cost-usd")
    limits = checked(Budget, named)
    tell(session, server, lambda client: client.budget(session, limits))
