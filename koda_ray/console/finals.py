"""A session's final videos at the terminal: numbered in the order in which they were made, chosen, and deleted.

Their numbers are for people who have just seen the list: where one is deleted, those after it move up. The id of a job
stays what it is.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from koda_ray.client import KodaClient
from koda_ray.console.text import age, clean, duration, size
from koda_ray.errors import InvalidInput, NotFound
from koda_ray.wire import RenderList, RenderSummary

__all__ = ["all_finals", "chosen_final", "delete_job", "final_words", "print_finals"]


async def all_finals(client: KodaClient, session_id: str) -> RenderList:
    """Read all final videos that a session has, newest first.

    Raises:
        NotFound: There is no such session.
    """
    await client.session(session_id)  # a list of somebody else's is just empty
    page = await client.finals(session_id, limit=200)
    found = list(page.renders)
    while page.next is not None:
        page = await client.finals(session_id, limit=200, before=page.next)
        found += page.renders
    return RenderList(renders=tuple(found), next=None)


async def chosen_final(client: KodaClient, session_id: str, named: str) -> RenderSummary:
    """Find one of a session's final videos.

    Args:
        client: The server.
        session_id: The session.
        named: The job that made it, or its number as `print_finals` tells it.

    Raises:
        NotFound: There is no such one; the message names what there is.
    """
    found = (await all_finals(client, session_id)).renders[::-1]
    for number, each in enumerate(found, start=1):
        if named in (each.id, str(number)):
            return each
    if not found:
        raise NotFound(f"session {session_id} has no final video; render one with: koda final {session_id}")
    there = "\n".join(f"  {number}  {each.id}  {final_words(each)}" for number, each in enumerate(found, start=1))
    raise NotFound(f"session {session_id} has no final video {named!r}; it has:\n{there}")


async def delete_job(client: KodaClient, job_id: str) -> None:
    """Delete a page render, or one final video of a session.

    Raises:
        NotFound: There is no such job.
        InvalidInput: It is a session's preview.
        Conflict: It is a session's final video that is still being rendered.
    """
    job = await client.job(job_id)
    if job.session_id is None:
        await client.delete_page_render(job_id)
    elif job.kind == "final":
        await client.delete_final(job.session_id, job_id)
    else:
        raise InvalidInput(f"{job_id} is a preview of session {job.session_id}, and goes with that")


def final_words(final: RenderSummary) -> str:
    """Say what a final video is: format, size, rate, length and bytes, as far as they are known."""
    picture = f"{final.width}x{final.height}" if final.width and final.height else ""
    rate = f"{final.fps:g} fps" if final.fps else ""
    length = duration(final.duration) if final.duration else ""
    told = [f"{final.format or '?'}{', transparent' if final.transparent else ''}", picture, rate, length]
    return " · ".join(part for part in (*told, size(final.file_size) if final.file_size else "") if part)


def print_finals(console: Console, session_id: str, found: RenderList) -> None:
    """Print a session's final videos, newest first; for programs, fields apart by tabs."""
    numbered = list(enumerate(found.renders[::-1], start=1))[::-1]
    if not console.is_terminal:
        for number, each in numbered:
            console.file.write(f"{number}\t{each.id}\t{each.created_at.isoformat()}\t{final_words(each)}\n")
        return
    if not numbered:
        console.print(f"No final video yet. Render one: [bold]koda final {clean(session_id)}[/bold]")
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for name, style in (("", ""), ("final", ""), ("age", "dim"), ("", "")):
        table.add_column(name, no_wrap=True, style=style)
    for number, each in numbered:
        table.add_row(str(number), each.id, age(each.created_at), final_words(each))
    console.print(table)
