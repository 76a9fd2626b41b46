"""What was used, as a table: one line for each resource, with a bar where there is a limit."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from koda_ray.console.live import ACCENT
from koda_ray.console.text import clean
from koda_ray.types import Budget
from koda_ray.wire import SessionUsage, Usage, UserUsage

__all__ = ["print_usage", "usage_lines"]

_BAR = 20
_NAMES = (
    ("tokens", "tokens", "{:,.0f}"),
    ("cost_usd", "models", "${:,.4f}"),
    ("sandbox_minutes", "sandbox", "{:,.2f} min"),
    ("render_minutes", "rendering", "{:,.2f} min"),
)


def usage_lines(spent: Usage, held: Usage, budget: Budget) -> list[tuple[str, str, str, float | None]]:
    """Say each resource: its name, what was used, of what, and the share of its limit, None without one."""
    lines: list[tuple[str, str, str, float | None]] = []
    for name, shown, form in _NAMES:
        used, limit = float(getattr(spent, name)), getattr(budget, name)
        under_way = float(getattr(held, name))
        of = [f"of {form.format(limit)}"] if limit is not None else []
        of += [f"{form.format(under_way)} held"] if under_way else []
        share = None if limit is None else 1.0 if limit == 0 else used / limit
        lines.append((shown, form.format(used), ", ".join(of), share))
    return lines


def print_usage(console: Console, found: SessionUsage | UserUsage) -> None:
    """Print what was used; for programs, fields apart by tabs."""
    lines = usage_lines(found.spent, found.held, found.budget)
    if not console.is_terminal:
        for name, used, of, _ in lines:
            console.file.write(f"{name}\t{used}\t{of}\n")
        if isinstance(found, UserUsage):
            for name, used, of, _ in _quota_lines(found):
                console.file.write(f"{name}\t{used}\t{of}\n")
        return
    whose = found.session_id if isinstance(found, SessionUsage) else f"all work in {found.month}"
    console.print(f"[dim]{whose}[/dim]\n")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    for name, used, of, share in lines:
        table.add_row(f"  {name}", Text(used, justify="right"), Text(of, style="dim"), _bar(share))
    if isinstance(found, UserUsage):
        for name, used, of, share in _quota_lines(found):
            table.add_row(f"  {name}", Text(used, justify="right"), Text(of, style="dim"), _bar(share))
    console.print(table)
    if found.spent.unpriced_tokens:
        console.print(
            f"\n  [yellow]{found.spent.unpriced_tokens:,} tokens have no known price[/yellow]: set KODA_MODEL_PRICES"
        )
    if isinstance(found, SessionUsage) and found.parts:
        console.print()
        for part in found.parts:
            who = " · ".join(clean(word) for word in (part.agent, part.model) if word) or part.kind
            amounts = [used for (_, used, _, _), (name, _, _) in zip(
                usage_lines(part.spent, Usage(), Budget()), _NAMES, strict=True
            ) if getattr(part.spent, name)]  # fmt: skip
            console.print(Text(f"  {part.kind:<8} {who}  {part.count} x  {', '.join(amounts)}", style="dim"))


def _quota_lines(found: UserUsage) -> list[tuple[str, str, str, float | None]]:
    """Say what there is now, as `usage_lines` says what was used."""
    most = found.most_sessions
    stored, of = found.stored_bytes / 1e6, found.most_stored_bytes / 1e6
    return [
        ("awake", str(found.awake), f"of {found.most_awake}", found.awake / found.most_awake),
        ("sessions", f"{found.sessions:,}", f"of {most:,}" if most else "", found.sessions / most if most else None),
        ("stored", f"{stored:,.1f} MB", f"of {of:,.0f} MB", stored / of),
    ]


def _bar(share: float | None) -> Text:
    if share is None:
        return Text("no limit", style="dim")
    full = min(_BAR, round(share * _BAR))
    style = "red" if share >= 1 else "yellow" if share >= 0.8 else ACCENT
    return Text("━" * full, style=style) + Text("━" * (_BAR - full), style="dim") + Text(f" {share:.0%}")
