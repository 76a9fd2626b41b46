"""``koda cluster status``: a deployment on one screen, and as fields apart by tabs where a program reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from koda_ray.console.live import ACCENT
from koda_ray.console.text import clean, duration, plural, size
from koda_ray.wire import Capacity, ClusterReport, DatabaseReport, JanitorReport, NodeReport

__all__ = ["cluster_lines", "print_cluster"]

_BAR = 20
_STYLES = {"working": "green", "idle": "dim", "draining": "yellow"}
_UNFIT = {None: "", "full": ", disk full", "outdated": ", older version"}
_BYTES = ("memory", "object_store_memory")
_NAMES = {"object_store_memory": "objects", "chromium": "browsers", "chromium_urgent": "urgent", "session": "sessions"}


def print_cluster(console: Console, found: ClusterReport) -> None:
    """Print how everything is."""
    if not console.is_terminal:
        for name, value in cluster_lines(found):
            console.file.write(f"{name}\t{value}\n")
        for node in found.nodes or ():
            status = node.status if node.unfit is None else f"{node.status},{node.unfit}"
            fields = ("node", node.id, node.address, node.group or "-", status, f"{node.idle_s:.0f}")
            amounts = (f"{name}={_amount(name, taken)}" for name, taken in node.resources.items())
            console.file.write("\t".join((*fields, *amounts)) + "\n")
        return
    if found.problem is not None:
        console.print(f"\n  [red]✖[/red] {escape(clean(found.problem))}", soft_wrap=True)
    console.print()
    console.print(_summary(found))
    if found.nodes is not None:
        console.print()
        console.print(_nodes(found.nodes))


def cluster_lines(found: ClusterReport) -> Iterator[tuple[str, str]]:
    """Say each figure by a name and in words."""
    if found.problem is not None:
        yield "problem", clean(found.problem)
    if found.nodes is not None:
        count = plural(len(found.nodes), "node")
        told = [f"{found.coming_nodes} coming"] if found.coming_nodes else []
        told += [f"{found.lost_nodes} lost since the head began"] if found.lost_nodes else []
        yield "nodes", ", ".join([count, *told])
    for name, taken in (("browsers", found.browsers), ("urgent", found.urgent), ("places", found.room)):
        if taken is not None and (taken.total or name == "browsers"):
            yield name, f"{taken.used:g} of {taken.total:g} taken"
    sessions, renders, owed = found.sessions, found.renders, found.owed
    closing = f", {sessions.closing} being removed" if sessions.closing else ""
    yield "sessions", f"{sessions.active} active, {sessions.asleep} asleep, {sessions.owing} at work{closing}"
    waiting = f", {plural(renders.waiting, 'piece')} waiting for a browser" if renders.waiting else ""
    yield "renders", f"{renders.queued} queued, {renders.running} under way{waiting}"
    yield "owed", f"{owed.count} that nobody holds{_since(owed.since, found.at)}"
    yield "sandboxes", str(found.sandboxes)
    yield "database", _database(found.database)
    yield "cost", f"${found.spent_in_month.cost_usd:,.2f} this month, ${found.spent.cost_usd:,.2f} in all"
    if found.janitor is not None:
        yield "janitor", _janitor(found.janitor, found.at)
    elif found.janitor_problem is not None and found.janitor_problem != found.problem:
        yield "janitor", clean(found.janitor_problem)


def _database(told: DatabaseReport) -> str:
    large = [size(told.size_bytes)] if told.size_bytes is not None else []
    parts = [told.backend, *large, plural(sum(told.rows.values()), "row"), f"reads {told.read_ms:.1f} ms"]
    parts.append(f"writes {told.write_ms:.1f} ms, the slowest {told.slowest_write_ms:.0f}")
    parts += [plural(told.failures, "failure")] if told.failures else []
    return ", ".join(parts)


def _janitor(told: JanitorReport, at: datetime) -> str:
    if told.woke_at is None:
        return "it starts"
    parts = [f"looked {_ago(told.woke_at, at)}"]
    if told.cleared_at is not None:
        machines = plural(told.machines, "machine")
        parts.append(f"cleared {machines} {_ago(told.cleared_at, at)} in {duration(told.took_s)}, {told.gone} gone")
    parts += [f"{told.waking} being woken"] if told.waking else []
    parts += [f"{told.failing} that cannot be woken"] if told.failing else []
    return ", ".join(parts)


def _ago(then: datetime, at: datetime) -> str:
    return f"{duration(max(0.0, (at - then).total_seconds()))} ago"


def _since(then: datetime | None, at: datetime) -> str:
    return "" if then is None else f", the oldest from {_ago(then, at)}"


def _summary(found: ClusterReport) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    bars = {"browsers": found.browsers, "urgent": found.urgent, "places": found.room}
    for name, value in cluster_lines(found):
        if name != "problem":
            shown = Text(value, style="red" if name == "janitor" and found.janitor is None else "")
            taken = bars.get(name)
            table.add_row(f"  {name}", shown if taken is None else _bar(taken) + Text("  ") + shown)
    return table


def _bar(taken: Capacity) -> Text:
    share = taken.used / taken.total if taken.total else 0.0
    full = min(_BAR, round(share * _BAR))
    style = "yellow" if share >= 1 else ACCENT
    return Text("━" * full, style=style) + Text("━" * (_BAR - full), style="dim")


def _nodes(nodes: tuple[NodeReport, ...]) -> Table:
    resources = [name for name in ("chromium", "chromium_urgent", "session", "CPU", "GPU", "memory")
                 if any(name in node.resources for node in nodes)]  # fmt: skip
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("  node", "address", "group", "status", *(_NAMES.get(name, name) for name in resources)):
        table.add_column(name, no_wrap=True)
    for node in nodes:
        idle = f" {duration(node.idle_s)}" if node.status == "idle" else ""
        table.add_row(
            f"  {node.id[:8]}",
            clean(node.address),
            clean(node.group) or "-",
            Text(f"{node.status}{idle}", style=_STYLES[node.status]) + Text(_UNFIT[node.unfit], "red"),
            *(_amount(name, node.resources[name]) if name in node.resources else "" for name in resources),
        )
    return table


def _amount(name: str, taken: Capacity) -> str:
    if name in _BYTES:
        return f"{size(taken.used)}/{size(taken.total)}"
    return f"{taken.used:g}/{taken.total:g}"
