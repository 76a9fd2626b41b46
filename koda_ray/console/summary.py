"""What is said when it is over, and sessions as tables: the parts that stay on the terminal."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from koda_ray.console.exits import Exit
from koda_ray.console.live import ACCENT, phase_line, plan_table
from koda_ray.console.plain import phase_words
from koda_ray.console.save import Saved
from koda_ray.console.text import age, clean, duration, one_line, plural, size
from koda_ray.console.view import View
from koda_ray.types import NodeState, now
from koda_ray.wire import (
    ApprovalPage,
    FileList,
    HistoryView,
    JobPage,
    RenderList,
    SessionPage,
    SessionView,
    VersionPage,
)

__all__ = [
    "one_command",
    "print_approvals",
    "print_end",
    "print_history",
    "print_renders",
    "print_saved",
    "print_session",
    "print_sessions",
    "print_versions",
]

_PHASE_STYLES = {"complete": "green", "error": "red", "preview": "yellow", "plan": "yellow", "question": "yellow"}
_RENDER_STYLES = {"succeeded": "green", "failed": "red", "cancelled": "dim"}


def print_saved(console: Console, view: View, saved: Saved) -> None:
    """Say what was written, and what each render took."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", style="cyan", no_wrap=True)
    table.add_column(style="dim")
    for name, count in saved.files.items():
        bar = view.bars.get(saved.jobs.get(name, ""))
        length = saved.duration_s if name.startswith("video.") else None
        told = [bar.size if bar else "", duration(length) if length else ""]
        if bar is not None and bar.began is not None and bar.ended is not None:
            told.append(f"rendered in {duration((bar.ended - bar.began).total_seconds())}")
        table.add_row(escape(name), size(count), " · ".join(part for part in told if part))
    if saved.source_files:
        table.add_row("source/", "", plural(saved.source_files, "file"))
    console.print(f"\n  [bold]{escape(str(saved.folder))}[/bold]", soft_wrap=True)
    console.print(Padding(table, (0, 0, 0, 4)))


def print_end(console: Console, view: View, state: NodeState, *, own_server: bool) -> Exit:
    """Say how it ended and what can be done next; return the exit status for it."""
    again = "resume" if own_server else "watch"
    session_id = view.session_id
    match state.phase:
        case "complete":
            spent = sum(span.seconds(now()) for span in view.spans if span.owes is not None)
            took = f" after [bold]{duration(spent)}[/bold] of work" if spent else ""
            change = f'koda resume {session_id} "make it twice as fast"'
            console.print(f"\n  [green]✔[/green] Done{took}. To change it:")
            console.print(f"    [bold]{escape(change)}[/bold]\n", soft_wrap=True)
            return Exit.DONE
        case "error":
            error = state.error
            message = clean(error.message) if error is not None else "it failed"
            console.print(f"\n  [red]✖[/red] {escape(message)}", soft_wrap=not console.is_terminal)
            if error is not None and error.details:
                console.print(Padding(Text(clean(error.details)[:2000], style="dim"), (0, 0, 0, 4)))
            if error is not None and error.can_retry:
                console.print(f"  To try again: [bold]koda resume {session_id}[/bold]\n")
            return Exit.FAILED
        case _:
            if not console.is_terminal:
                console.print(f"koda: {phase_words(state)}", markup=False, soft_wrap=True)
            console.print(f"  It waits for you. Go on with: [bold]koda {again} {session_id}[/bold]", soft_wrap=True)
            if not own_server and (way := one_command(session_id, state)):
                console.print(f"  Or in one command: [bold]{escape(way)}[/bold]", soft_wrap=True)
            return Exit.WAITING


def one_command(session_id: str, state: NodeState) -> str | None:
    """Return the command that gives a session what it waits for; None where it waits for nothing."""
    if state.owes is not None:
        return None
    if state.approval is not None:
        return f"koda accept {session_id}"
    match state.phase:
        case "question" if state.paused is not None:  # to agree, not what is done by default
            return f"koda budget {session_id} --help"
        case "question":
            options = state.question.options if state.question is not None else ()
            words = options[0].id if options else '"in your own words"'
            return f"koda answer {session_id} {words}"
        case "plan" | "preview":
            return f"koda accept {session_id}"
        case "error" if state.error is not None and state.error.can_retry:
            return f"koda retry {session_id}"
        case "idle" | "error":
            return f'koda say {session_id} "what should be different"'
        case _:
            return None


def print_approvals(console: Console, session_id: str, page: ApprovalPage) -> None:
    """Print a page of what a person was asked to agree to; of tool calls that wait, what they would change too."""
    if not page.approvals:
        console.print("Nothing waits for you.")
    for each in page.approvals:
        about = each.payload
        what = str(about.get("name")) if each.kind == "tool_call" else each.kind
        console.print(f"{each.id}  {each.status}  {clean(what)}", markup=False, soft_wrap=True)
        if each.kind == "tool_call" and each.status == "pending":
            proposed = json.dumps(about.get("proposed"), ensure_ascii=False)
            shown = clean(str(about.get("shown") or ""))
            console.print(f"  {clean(proposed)}\n{shown}".rstrip(), markup=False, soft_wrap=True)
    if page.next is not None:
        console.print(f"[dim]more: koda approvals {session_id} --before {page.next}[/dim]")


def print_sessions(console: Console, page: SessionPage) -> None:
    """Print sessions as a table; for programs, fields apart by tabs."""
    if not page.sessions:
        console.print('No sessions yet. Make one: [bold]koda create "Create a bouncing ball animation"[/bold]')
        return
    if not console.is_terminal:
        for found in page.sessions:  # for programs: fields apart by tabs
            fields = (
                found.id,
                found.phase,
                found.owes or "",
                found.created_at.isoformat(),
                one_line(found.title or found.prompt, 200),
            )
            console.file.write("\t".join(fields) + "\n")
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("session", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True, style="dim")
    table.add_column("title or prompt", no_wrap=True)
    for found in page.sessions:
        phase = Text(found.phase, style=ACCENT if found.owes else _PHASE_STYLES.get(found.phase, ""))
        if found.owes:
            phase.append(" ●")
        called = one_line(found.title or found.prompt, max(20, console.width - 68))
        table.add_row(found.id, phase, age(found.created_at), f"★ {called}" if found.pinned else called)
    console.print(table)
    if page.next is not None:
        console.print(f"[dim]more: koda list --before {page.next}[/dim]")


def print_renders(console: Console, page: RenderList, *, sought: str | None = None) -> None:
    """Print renders of pages as a table; for programs, fields apart by tabs; ``sought`` says which, where not all."""
    if not page.renders and sought is not None:
        console.print(f"No {escape(sought)}. All there are: [bold]koda renders[/bold]")
        return
    if not page.renders:
        console.print("No renders at the server. Make one: [bold]POST /v1/renders[/bold]")
        return
    if not console.is_terminal:
        for found in page.renders:  # for programs: fields apart by tabs
            fields = (found.id, found.status, f"{found.percent:g}", found.created_at.isoformat(), found.bundle)
            console.file.write("\t".join(fields) + "\n")
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("render", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True, style="dim")
    table.add_column("", no_wrap=True)
    for found in page.renders:
        said = f"{found.percent:.0f} %" if found.status == "running" else ""
        if found.error is not None:
            said = one_line(str(found.error.get("message", "")), max(20, console.width - 66))
        style = ACCENT if found.status in ("queued", "running") else _RENDER_STYLES.get(found.status, "")
        table.add_row(found.id, Text(found.status, style=style), age(found.created_at), said)
    console.print(table)
    if page.next is not None:
        console.print(f"[dim]more: koda renders --before {page.next}[/dim]")


def print_session(console: Console, found: SessionView, files: FileList | None, jobs: JobPage | None) -> None:
    """Print one session: where it is, how to go on, what was decided, what was made."""
    state = found.state
    if found.title is not None:
        console.print(f"[bold]{escape(one_line(found.title, 300))}[/bold]")
    console.print(f"[bold]{escape(one_line(state.prompt, 300))}[/bold]")
    console.print(f"[dim]{found.id} · made {age(found.created_at)} ago · {found.status}[/dim]\n")
    console.print(phase_line(state))
    console.print(f"\n  {escape(one_line(phase_words(state), 300))}\n")
    if (way := one_command(found.id, state)) is not None:
        console.print(f"  go on     [bold]{escape(way)}[/bold]", soft_wrap=True)
    if state.answer:
        console.print(f"  answer    {escape(one_line(state.answer, 200))}")
    for words in state.feedback:
        console.print(f"  changes   {escape(one_line(words, 200))}")
    for unread in state.unread:
        console.print(f"  unread    {escape(one_line(unread.told, 200))}")
    if state.plan is not None:
        console.print(Padding(plan_table(state.plan, min(100, console.width - 4)), (1, 0, 0, 2)))
    if state.execution is not None and state.execution.todos:
        console.print()
        for todo in state.execution.todos:
            mark = {"done": "[green]✔[/]", "active": f"[{ACCENT}]●[/]", "pending": "○"}[todo.status]
            console.print(f"  {mark} {escape(one_line(todo.label, 100))}")
    if files is not None and files.files:
        total = sum(file.size_bytes for file in files.files)
        console.print(f"\n  {plural(len(files.files), 'file')}, {size(total)}, as of {age(files.created_at)} ago")
    for job in jobs.jobs if jobs is not None else ():
        percent = job.progress.get("percent")
        told = f"{percent:.0f} %" if job.status == "running" and isinstance(percent, int | float) else job.status
        console.print(f"  {job.kind:<8} {told:<10} [dim]{job.id}[/dim]")
    if state.output is not None and state.output.video_url:
        console.print(f"\n  get it    [bold]koda save {found.id}[/bold]", soft_wrap=True)


def print_history(console: Console, session_id: str, found: HistoryView) -> None:
    """Print a page of a session's points, newest first; for programs, fields apart by tabs."""
    if not console.is_terminal:
        for point in found.points:  # for programs: fields apart by tabs
            fields = (point.id, point.kind, point.role or "", point.created_at.isoformat(), one_line(point.text, 200))
            console.file.write("\t".join(fields) + "\n")
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("point", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True, style="dim")
    table.add_column("", no_wrap=True)
    for point in found.points:
        who = point.role or ("undone" if point.undone else point.kind)
        table.add_row(point.id, who, age(point.created_at), one_line(point.text, max(20, console.width - 66)))
    console.print(table)
    if found.next is not None:
        console.print(f"[dim]more: koda history {session_id} --before {found.next}[/dim]")


def print_versions(console: Console, session_id: str, found: VersionPage) -> None:
    """Print a page of a session's versions, newest first; for programs, fields apart by tabs."""
    if not console.is_terminal:
        for each in found.versions:
            marks = " ".join(name for name in ("current", "undone", "starred") if getattr(each, name))
            fields = (each.id, str(each.number), marks, each.created_at.isoformat(), one_line(each.asked, 200))
            console.file.write("\t".join(fields) + "\n")
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for name, style in (("", ""), ("version", ""), ("", ACCENT), ("age", "dim"), ("asked", "")):
        table.add_column(name, no_wrap=True, style=style)
    for each in found.versions:
        state = "now" if each.current else "undone" if each.undone else ""
        words = one_line(each.note or each.asked, max(20, console.width - 72))
        table.add_row(f"v{each.number}", each.id, f"{state}{' *' * each.starred}".strip(), age(each.created_at), words)
    console.print(table)
    if found.next is not None:
        console.print(f"[dim]more: koda versions {session_id} --before {found.next}[/dim]")
