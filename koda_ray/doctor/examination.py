"""All checks at the same time, and the report: a table for people, JSON for programs."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from koda_ray.config import Settings
from koda_ray.doctor import containers, machine, measuring, programs, services
from koda_ray.doctor.finding import Check, Examination, Finding

__all__ = ["CHECKS", "examine", "run"]


def _places(examination: Examination) -> list[Finding]:
    """Run what makes and removes folders where the settings point: at the same time they would see each other's."""
    checks: tuple[Check, ...] = (services.stores, machine.sandboxes, machine.capacity)
    return [finding for check in checks for finding in _guarded(check, examination)]


CHECKS: tuple[Check, ...] = (
    programs.python,
    programs.node,
    programs.template,
    programs.page,
    programs.browser,
    programs.playwright,
    programs.ffmpeg,
    programs.tmux,
    programs.fonts,
    machine.isolation,
    containers.containers,
    machine.limits,
    machine.graphics,
    services.settings,
    services.agents,
    _places,
    services.ports,
)

_LOG_WIDTH = 240
_MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "missing": "[bold red]missing[/]"}


def examine(settings: Settings | None = None, *, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """Run every check and return what was found, in the order of the checks.

    Args:
        settings: What the main job would run with; read from the environment when None.
        checks: The checks to run.
    """
    problems: list[Finding] = []
    if settings is None:
        settings, problems = services.load_settings()
    examination = Examination(settings)
    with ThreadPoolExecutor(max_workers=len(checks) or 1, thread_name_prefix="doctor") as pool:
        running = [pool.submit(_guarded, check, examination) for check in checks]
        return [*problems, *(finding for one in running for finding in one.result())]


def _guarded(check: Check, examination: Examination) -> list[Finding]:
    try:
        return check(examination)
    except Exception as error:  # one broken check must not hide the others' findings
        name = getattr(check, "__name__", repr(check))
        return [Finding("Doctor", name, "missing", f"the check itself failed: {error!r}", "please report this")]


def run(
    settings: Settings | None = None, *, json: bool = False, measure: bool = False, checks: Sequence[Check] = CHECKS
) -> int:
    """Examine this machine, print the report, and return the exit status.

    Args:
        settings: As `examine`.
        json: Print one JSON object instead of a table.
        measure: Also measure what draws WebGL here, when all else is looked at: it wants the machine for itself.
        checks: As `examine`.

    Returns:
        0 when the main job can run here, 1 when something that it needs is missing.
    """
    began = time.monotonic()
    findings = examine(settings, checks=checks)
    if measure:
        findings += examine(settings, checks=(measuring.rasterizers,))
    lacking = [finding for finding in findings if finding.status == "missing"]
    if json:
        report = {"ready": not lacking, "findings": [asdict(finding) for finding in findings]}
        sys.stdout.write(jsonlib.dumps(report, indent=2) + "\n")
    else:
        _print(findings, lacking, time.monotonic() - began)
    return 1 if lacking else 0


def _print(findings: list[Finding], lacking: list[Finding], took_s: float) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:  # a log or a pipe: one finding a line, whatever its length
        console = Console(highlight=False, width=_LOG_WIDTH)
    ordered = sorted(findings, key=lambda finding: _first_place(findings, finding.group))
    for group, members in groupby(ordered, key=lambda finding: finding.group):
        console.print(f"\n[bold]{escape(group)}[/]")
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, min_width=7)
        table.add_column()
        table.add_column(overflow="fold")
        for finding in members:
            table.add_row(_MARKS[finding.status], escape(finding.name), escape(finding.detail))
            if finding.remedy and finding.status != "ok":
                table.add_row("", "", f"[cyan]{escape(finding.remedy)}[/]")
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
    warnings = sum(finding.status == "warning" for finding in findings)
    noted = f" ({warnings} warning{'s' if warnings != 1 else ''})" if warnings else ""
    if lacking:
        names = escape(", ".join(finding.name for finding in lacking))
        console.print(f"\n[bold red]The main job cannot run here:[/] {names}{noted}")
    else:
        console.print(
            f"\n[bold green]Ready:[/] the main job can run here{noted}. Looked at everything in {took_s:.1f} s."
        )


def _first_place(findings: list[Finding], group: str) -> int:
    return next(place for place, finding in enumerate(findings) if finding.group == group)
