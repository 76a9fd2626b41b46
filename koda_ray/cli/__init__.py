"""The command line, ``koda``: everything the API does, and the whole job in one command.

Commands import what they need when they run: ``koda --help`` must not pay for a server, a database or Ray. What they
print and how they end is in `koda_ray.console`.
"""

from __future__ import annotations

import typer

from koda_ray.cli import assets, cluster, finals, machine, renders, sandboxes, sessions, usage
from koda_ray.cli.shapes import Listing
from koda_ray.console import keys
from koda_ray.console.exits import EXITS, reported

__all__ = ["app", "main"]

app = typer.Typer(
    name="koda",
    cls=Listing,
    help="A sentence becomes a finished animation.",
    epilog=EXITS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (sessions.app, finals.app, renders.app, usage.app, machine.app):
    app.add_typer(commands)
app.add_typer(assets.app, name="asset")
app.add_typer(sandboxes.image_app, name="image")
app.add_typer(sandboxes.sandbox_app, name="sandbox")
app.add_typer(sandboxes.process_app, name="process")
app.add_typer(keys.app, name="keys")
app.add_typer(cluster.app, name="cluster")


def main() -> None:
    """Run the command line."""
    with reported():
        app(prog_name="koda")
