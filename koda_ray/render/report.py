"""A render's report for people: one page without a network, with the contact sheet and where the time went.

It says nothing that report.json does not say; a program reads that.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, cast

from pydantic import JsonValue

from koda_ray.cancellation import all_or_cancel
from koda_ray.errors import NotFound
from koda_ray.render.charts import BY_JOIN, BY_UNIT, NAMES, bars, unit_columns
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.keys import report_key, report_page_key, sheet_key

__all__ = ["report_page", "write_report"]

_STYLE = """
:root{color-scheme:light dark;--page:#f6f6f4;--card:#fff;--ink:#1b1c1e;--soft:#686b70;--line:#e2e2de;--good:#1f7a4d;
--warn:#a15c00;--ready:#9aa5b1;--capture:#3b6fd8;--encode_tail:#e08a3c;--other:#5a9a78}
@media(prefers-color-scheme:dark){:root{--page:#131417;--card:#1c1e22;--ink:#ececea;--soft:#9a9da3;--line:#2e3137;
--good:#5fc492;--warn:#e9b35c;--ready:#66707c;--capture:#6c97ef;--encode_tail:#e9a15c;--other:#74b593}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:40px 24px 64px}h1{font-size:26px;line-height:1.25;margin:0 0 4px}
h2{font-size:16px;margin:0 0 14px}p{margin:0}.soft{color:var(--soft)}.card{background:var(--card);border:1px solid
var(--line);border-radius:12px;padding:22px 24px;margin-top:20px}.facts{display:flex;flex-wrap:wrap;gap:14px 40px}
.facts div{min-width:96px}.facts b{display:block;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums}
.facts span{color:var(--soft);font-size:13px}.sheet{display:block;width:100%;border-radius:8px}
.upright{max-width:760px;margin:0 auto}ul{margin:6px 0 0;padding-left:20px}
.note{margin-top:12px;font-size:13px;color:var(--soft)}.good{color:var(--good)}
.warn{color:var(--warn)}svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif}
svg text{fill:var(--soft)}svg .value{fill:var(--ink);font-variant-numeric:tabular-nums}svg line{stroke:var(--line)}
.ready{fill:var(--ready)}.capture{fill:var(--capture)}.encode_tail{fill:var(--encode_tail)}.other{fill:var(--other)}
.legend{display:flex;gap:20px;margin-top:10px;font-size:13px;color:var(--soft)}.legend svg{display:inline-block;
width:10px;height:10px;margin-right:6px}table{border-collapse:collapse;width:100%;font-size:14px}
td{padding:6px 0;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
tr:first-child td{border-top:0}td:first-child{color:var(--soft);width:170px;padding-right:16px}
details{margin-top:16px}summary{cursor:pointer;color:var(--soft)}pre{overflow:auto;font-size:12px;margin:10px 0 0}
"""


_AT_ONCE = "<p class=note>Check, thumbnail and contact sheet are made at the same time.</p>"


def report_page(report: Mapping[str, JsonValue], *, job_id: str, sheet: bytes | None = None) -> str:
    """Return the report as HTML.

    Args:
        report: The job's report as `koda_ray.render.protocol.RenderResult` has it.
        job_id: The job's.
        sheet: The contact sheet, a JPEG.
    """
    facts = cast("dict[str, Any]", report)
    spec = facts["spec"]
    width, height = (round(spec[side] * spec["scale"]) for side in ("width", "height"))
    units = cast("list[dict[str, Any]]", facts["units"])
    parts = [
        f"<h1>{width}&#8239;×&#8239;{height} · {_rate(spec['fps'])} fps · {escape(_kind(spec))}</h1>",
        f"<p class=soft>Render {escape(job_id)}</p>",
        _card(None, _facts(facts)),
        _card("Checks", _checks(facts)),
    ]
    if sheet is not None:
        shape = "sheet upright" if height > width else "sheet"
        image = base64.b64encode(sheet).decode()
        text = "Frames of the video with their times"
        parts.append(_card("Contact sheet", f'<img class="{shape}" alt="{text}" src="data:image/jpeg;base64,{image}">'))
    frames = max(1, int(facts["frames"]))
    legend = "".join(
        f'<span><svg viewBox="0 0 10 10"><rect class={stage} width=10 height=10 rx=2 /></svg>{NAMES[stage]}</span>'
        for stage in BY_UNIT
    )
    reused = "<span>pale: made by an earlier render</span>" if any(unit["reused"] for unit in units) else ""
    chart = unit_columns(units, seconds_per_frame=facts["durationS"] / frames)
    parts.append(_card("Time per frame along the video", f"{chart}<div class=legend>{legend}{reused}</div>"))
    parts.append(_card("Time per frame by stage", bars(_stages(units, facts["seconds"], frames)) + _AT_ONCE))
    parts.append(_card("Made with", _table(_origin(facts))))
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>Render {escape(job_id)}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


async def write_report(storage: RetryingStorage, user_id: str, job_id: str, report: Mapping[str, JsonValue]) -> None:
    """Store a report, for people and for programs.

    Raises:
        StorageError: It could not be stored.
    """
    try:
        sheet = await storage.get(sheet_key(user_id, job_id))
    except NotFound:
        sheet = None
    page = report_page(report, job_id=job_id, sheet=sheet)
    told = json.dumps(report, indent=1).encode()
    await all_or_cancel(
        [storage.put(report_page_key(user_id, job_id), page.encode()), storage.put(report_key(user_id, job_id), told)]
    )


def _card(title: str | None, body: str) -> str:
    return f"<section class=card>{f'<h2>{title}</h2>' if title else ''}{body}</section>"


def _facts(facts: dict[str, Any]) -> str:
    frames, seconds = int(facts["frames"]), facts["seconds"]
    shown = {
        "long": f"{facts['durationS']:.2f} s",
        "frames": f"{frames}",
        "file": _bytes(int(facts["sizeBytes"])),
        "to make": f"{seconds['total']:.1f} s",
        "a second": f"{frames / max(seconds['total'], 1e-3):.1f} frames",
        "units of earlier renders": f"{facts['unitsReused']} of {len(facts['units'])}",
    }
    if adopted := facts.get("unitsAdopted"):
        shown["of these, of the page before a change"] = f"{adopted}"
    return (
        "<div class=facts>"
        + "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in shown.items())
        + "</div>"
    )


def _checks(facts: dict[str, Any]) -> str:
    quality = cast("dict[str, Any]", facts.get("quality") or {})
    lines = ["<p class=good>Frame count, times, size, colours and the coded frames are what they should be.</p>"]
    warnings = list(cast("list[str]", quality.get("warnings", [])))
    warnings += [f"the page: {told}" for told in facts.get("pageWarnings", ())]
    if facts["replayed"]:
        warnings.append(
            "the page keeps state that seeking does not restore: every unit was played from the first frame"
        )
    if facts["unstableUnits"]:
        warnings.append(f"units that do not meet the one before: {', '.join(map(str, facts['unstableUnits']))}")
    if warnings:
        lines.append(f"<ul class=warn>{_items(warnings)}</ul>")
    preview = cast("dict[str, float] | None", quality.get("preview"))
    if preview is not None:
        lines.append(
            f"<p class=soft>Beside its preview: {preview['psnrDb']:.1f} dB on average, {preview['worstPsnrDb']:.1f} dB "
            f"at worst; mean level of light {preview['luminance']:.0f}, and {preview['previewLuminance']:.0f}.</p>"
        )
    if facts["failures"]:
        lines.append(f"<details><summary>{len(facts['failures'])} attempts failed and were made again</summary>")
        lines.append(f"<ul>{_items(facts['failures'])}</ul></details>")
    return "".join(lines)


def _items(lines: Sequence[object]) -> str:
    return "".join(f"<li>{escape(str(line))}</li>" for line in lines)


def _stages(units: Sequence[dict[str, Any]], seconds: Mapping[str, float], frames: int) -> dict[str, float]:
    """Return milliseconds per frame of each stage that took any, in the order of the work; all workers' together."""
    made = [unit for unit in units if not unit["reused"]]
    own = max(1, sum(unit["stop"] - unit["start"] for unit in made))
    by_unit = {stage: sum(unit["ms"].get(stage, 0.0) for unit in made) / own for stage in BY_UNIT}
    by_join = {stage: seconds.get(stage, 0.0) * 1000 / frames for stage in BY_JOIN}
    return {stage: ms for stage, ms in {**by_unit, **by_join}.items() if ms > 0}


def _origin(facts: dict[str, Any]) -> dict[str, str]:
    environment, spec = facts["environment"], facts["spec"]
    kept = {name: value for name, value in spec.items() if name not in ("props", "bundle")}
    return {
        "Browser": environment["chromium"],
        "Graphics": f"{environment['backend']}, {environment['graphics']}",
        "Encoder": environment["ffmpeg"],
        "Environment": environment["fingerprint"],
        "Bundle": spec["bundle"],
        "Pictures": facts["frameHash"],
        "File": facts["sha256"],
        "Spec": json.dumps(kept, separators=(", ", ": ")),
    }


def _table(rows: Mapping[str, str]) -> str:
    return (
        "<table>"
        + "".join(f"<tr><td>{name}</td><td>{escape(str(value))}</td></tr>" for name, value in rows.items())
        + "</table>"
    )


def _kind(spec: dict[str, Any]) -> str:
    name = "PNG pictures" if spec["format"] == "png" else str(spec["format"])
    return f"{name}, transparent" if spec["alpha"] else name


def _rate(fps: int | str) -> str:
    top, _, bottom = str(fps).partition("/")
    return f"{int(top) / int(bottom or 1):.2f}".rstrip("0").rstrip(".")


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
