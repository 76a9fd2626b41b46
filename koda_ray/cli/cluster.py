"""Commands on clusters of many machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koda_ray.cli.options import Json, Server, run
from koda_ray.console.exits import Exit, Left

if TYPE_CHECKING:
    from koda_ray.deploy import Checked

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Clusters of many machines: check their files, see how they are.")


@app.callback()
def _group() -> None:
    """Clusters of many machines: check their files, see how they are."""


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="A launcher's, Kubernetes', Compose or Serve file.")
    ],
    json: Json = False,
) -> None:
    """Say what is wrong with a file that a cluster is started with, line by line, before anything is started."""
    from koda_ray.deploy import check_file

    found: list[Checked] = []
    for path in files:
        found.append(check_file(path))
        if not json:
            _tell(found[-1])
    if json:
        typer.echo(_as_json(found))
    if not all(checked.works for checked in found):
        raise Left(Exit.FAILED)


@app.command()
def status(json: Json = False, server: Server = None) -> None:
    """Show nodes, browsers, sessions, what waits, what it cost, and the janitor's last round."""
    from rich.console import Console

    from koda_ray.client import KodaClient
    from koda_ray.console.cluster import print_cluster
    from koda_ray.console.job import require_server
    from koda_ray.wire import ClusterReport

    async def read() -> ClusterReport:
        async with KodaClient(require_server(server)) as client:
            return await client.cluster()

    found = run(read())
    if json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_cluster(Console(highlight=False), found)
    if found.problem is not None or found.janitor is None:
        raise Left(Exit.FAILED)


@app.command("drain-on-notice")
def drain_on_notice(
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The cluster's head; that of the node here when left out.")
    ] = None,
) -> None:
    """Wait until the cloud says that it takes this machine away, then have its work leave it; for each spot machine."""
    from koda_ray.deploy.draining import drain_this_machine
    from koda_ray.deploy.notice import FIND_S, Notice, find_metadata, metadata_client, wait_for_notice

    async def wait() -> Notice:
        typer.echo(f"asking AWS and Google Cloud for {FIND_S:.0f} s whether this machine is theirs")
        async with metadata_client() as client:
            metadata = await find_metadata(client)
            typer.echo(f"waiting for a notice from {metadata.cloud}")
            return await wait_for_notice(metadata)

    notice = run(wait())
    why = f"{notice.cloud} takes this machine away"
    for node in drain_this_machine(why, left_s=notice.left_s, address=address):
        typer.echo(f"{why} in {notice.left_s:.0f} s: node {node} gets no more work, and what works there leaves")


def _tell(checked: Checked) -> None:
    for defect in checked.defects:
        place = f"{checked.path}:{defect.line}" if defect.line is not None else str(checked.path)
        advised = "advice, " if defect.advice else ""
        typer.echo(f"{place}: {defect.what} ({advised}{defect.rule})\n    {defect.remedy}")
    wrong = sum(not defect.advice for defect in checked.defects)
    verdict = "nothing is wrong with it" if wrong == 0 else "1 thing is wrong" if wrong == 1 else f"{wrong} are wrong"
    typer.echo(f"{checked.path} ({checked.kind}): {verdict}")


def _as_json(found: list[Checked]) -> str:
    import json
    from dataclasses import asdict

    report = [
        {
            "path": str(checked.path),
            "kind": checked.kind,
            "works": checked.works,
            "defects": [asdict(defect) for defect in checked.defects],
        }
        for checked in found
    ]
    return json.dumps(report, indent=2)
