"""What a deployment is watched by: its figures, alerts, dashboard and what to do, and that Prometheus gets them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from ray.util import get_node_ip_address

from koda_ray.actors.ray_metrics import RayMetrics
from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT
from koda_ray.console import server
from koda_ray.console.server import OwnServer
from koda_ray.metrics import FIGURES, FRAMES, LOOKS, SCHEDULE_TO_START, SESSIONS, UNIT, Figure
from koda_ray.render.capture_notes import CaptureNotes
from koda_ray.render.protocol import Captured, UnitResult
from koda_ray.render.spec import Unit
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE, URGENT_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.wire import PageOptions
from tests.serve.world import free_port

CLUSTER = REPO_ROOT / "cluster"
OPERATIONS = (REPO_ROOT / "docs" / "operations.md").read_text()
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((CLUSTER / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
OWN_LABELS = {"urgent", "state", "kind", "le"}
"""What figures are told apart by: few values each, and nobody's."""
RAYS_LABELS = {"Component", "NodeAddress", "SessionName", "Version", "WorkerId", "otel_scope_name"}
"""What Ray says of each figure: which of its processes has it, on which node; the session is Ray's own."""
IN_TIME_S = 450.0
PAGE = "<!doctype html><title>Metrics</title><style>body{background:teal}</style><h1>figures</h1>"


class Noted:
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, float, dict[str, str]]] = []

    def note(self, figure: Figure, value: float, **labels: str) -> None:
        assert set(labels) == set(figure.labels)
        self.notes.append((figure.name, value, labels))


def test_no_figure_is_told_apart_by_whose_it_is() -> None:
    assert {label for figure in FIGURES for label in figure.labels} == OWN_LABELS - {"le"}
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
    assert all(figure.buckets == tuple(sorted(set(figure.buckets))) for figure in FIGURES)


def test_rules_and_dashboard_tell_nothing_apart_by_whose_it_is() -> None:
    dashboard = json.loads((CLUSTER / "grafana" / "koda.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    expressions = [rule["expr"] for rule in RULES] + [target["expr"] for target in targets]
    words = [text for rule in RULES for text in rule.get("annotations", {}).values()]
    named = {name.strip() for text in expressions for names in re.findall(r"(?:by|on) \(([^)]*)\)", text)
             for name in names.split(",")}  # fmt: skip
    named |= {name for text in expressions for name in re.findall(r"(\w+)\s*(?:=~|!~|!=|=(?!=))\s*\"", text)}
    named |= {name for text in words for name in re.findall(r"\$labels\.(\w+)", text)}
    named |= {name for target in targets for name in re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))}
    assert {"urgent", "state", "kind"} <= named <= {*OWN_LABELS, "instance", "job"}
    assert all("without (" not in text for text in expressions), "which would keep what nobody has named"


def test_each_figure_is_recorded_and_told_of() -> None:
    recorded = " ".join(rule["expr"] for rule in RULES if "record" in rule)
    for figure in FIGURES:
        assert f"ray_{figure.name}" in recorded and f"`{figure.name}`" in OPERATIONS


def test_each_alert_says_what_is_wrong_and_what_to_do_then() -> None:
    alerts = [rule for rule in RULES if "alert" in rule]
    assert re.findall(r"^### (\w+)$", OPERATIONS, flags=re.MULTILINE) == [rule["alert"] for rule in alerts]
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] in ("page", "ticket") for rule in alerts)


def test_the_dashboard_is_what_is_made_and_shows_what_is_recorded() -> None:
    made = subprocess.run(
        [sys.executable, CLUSTER / "grafana" / "make-dashboard"], capture_output=True, text=True, check=True
    )
    assert made.stdout == (CLUSTER / "grafana" / "koda.json").read_text()
    shown = {target["expr"] for panel in json.loads(made.stdout)["panels"] for target in panel["targets"]}
    assert {rule["record"] for rule in RULES if "record" in rule} <= shown


async def test_what_a_capture_waited_for_and_took_is_noted_once_somebody_has_it() -> None:
    noted, heard = Noted(), list[object]()

    async def hear(told: Captured | UnitResult) -> None:
        heard.append(told)
        if len(heard) > 2:
            raise RuntimeError("refused")

    unit = UnitResult(
        unit=Unit(0, 0, 30), key="k", mode="seek", frame_hashes=(), before_hash=None, sha256="", size_bytes=1,
        worker="w", timings_ms={"total": 1500.0},
    )  # fmt: skip
    notes = CaptureNotes(noted, hear, urgent=True)
    assert noted.notes == []
    notes.begun()
    await notes.heard(Captured(0, 12))
    await notes.heard(unit)
    with pytest.raises(RuntimeError, match="refused"):
        await notes.heard(unit)
    (waited, *rest) = noted.notes
    assert waited[0] == SCHEDULE_TO_START.name and waited[1] >= 0
    assert rest == [(FRAMES.name, 30, {"urgent": "yes"}), (UNIT.name, 1.5, {"urgent": "yes"})]


def test_a_gauge_that_is_noted_seldom_is_told_again_with_what_is_noted_often(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, dict[str, str]]] = []
    monkeypatch.setattr("ray.util.metrics.Gauge.set", lambda _, value, tags: told.append((value, tags)))
    at = [100.0]
    metrics = RayMetrics(clock=lambda: at[0])
    metrics.note(SESSIONS, 3, state="active")
    metrics.note(SESSIONS, 2, state="asleep")
    metrics.note(LOOKS, 1)
    assert told == [(3, {"state": "active"}), (2, {"state": "asleep"})]
    at[0] += 6
    metrics.note(LOOKS, 1)
    assert told[2:] == told[:2]
    metrics.note(LOOKS, 1)
    assert len(told) == 4, "not with each"


@pytest.mark.needs("prometheus")
def test_prometheus_takes_the_rules_and_what_compose_gives_it() -> None:
    for words in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        subprocess.run(["promtool", "check", words[0], CLUSTER / words[1]], check=True, capture_output=True)


@pytest.mark.needs("prometheus")
def test_each_alert_goes_off_when_it_is_to_and_no_sooner() -> None:
    cases = Path(__file__).with_name("alerts_test.yml")
    done = subprocess.run(["promtool", "test", "rules", cases], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    looked = [case for test in yaml.safe_load(cases.read_text())["tests"] for case in test["alert_rule_test"]]
    for went_off in (True, False):
        names = {case["alertname"] for case in looked if bool(case["exp_alerts"]) == went_off}
        assert names == {rule["alert"] for rule in RULES if "alert" in rule}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A cluster of one node; the address at which Ray gives its figures."""
    folder, port, figures = ray_folder.make(), free_port(), free_port()
    address = get_node_ip_address()
    resources = json.dumps({CHROMIUM_RESOURCE: 1, URGENT_RESOURCE: 1, SESSION_RESOURCE: 4})
    line = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}", "--num-cpus=2"]
    line += [f"--node-ip-address={address}", "--include-dashboard=false", f"--temp-dir={folder}"]
    line += [f"--resources={resources}", f"--object-store-memory={10**8}", "--disable-usage-stats"]
    line += [f"--metrics-export-port={figures}", "--min-worker-port=0", "--max-worker-port=0"]
    for name, value in {
        "DATABASE_PATH": str(tmp_path / "koda.db"),
        "STORAGE_PATH": str(tmp_path / "storage"),
        "SANDBOX_PATH": str(tmp_path / "sandboxes"),
        "KODA_SIGNING_KEY": "0123456789abcdef0123456789abcdef",
        "KODA_RUNFILE": str(tmp_path / "server.json"),
        "KODA_DIRECTOR": "offline",
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # 5 are too few on a machine that is busy
        "PYTHONPATH": str(REPO_ROOT),
    }.items():
        monkeypatch.setenv(name, value)
    head = subprocess.Popen(line, env=os.environ.copy(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    monkeypatch.setenv("KODA_RAY_ADDRESS", f"{address}:{port}")
    try:
        yield f"{address}:{figures}"
    finally:
        head.terminate()
        head.wait(60)
        ray_folder.remove(folder)


@pytest.fixture
def prometheus(cluster: str, tmp_path: Path) -> Iterator[str]:
    """A Prometheus that reads the cluster each second, with the rules that are shipped; its address."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(CLUSTER / "alerts.yml")],
        "scrape_configs": [{"job_name": "ray", "static_configs": [{"targets": [cluster]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    line = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    line += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    process = subprocess.Popen(line)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.alone
@pytest.mark.browser
@pytest.mark.sandbox
@pytest.mark.ray
@pytest.mark.full
@pytest.mark.needs("prometheus")
@pytest.mark.timeout(900)
async def test_every_expression_gives_a_series_after_a_render(
    prometheus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "START_S", 400.0)  # a cluster starts, and a server on it
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text(PAGE)
    own = OwnServer(tmp_path / "server.log")
    try:
        url = await asyncio.to_thread(own.start)
        async with KodaClient(url) as client, httpx.AsyncClient(base_url=prometheus, trust_env=False) as asked:
            options = PageOptions(duration=1.0, width=160, height=90, fps=10)
            made = await client.render_page(tmp_path / "page", options)
            session = await client.create("Create a bouncing ball animation", key="once")
            events = [event async for event in client.follow_page_render(made.id)]
            assert events[-1].data["status"] == "succeeded", (tmp_path / "server.log").read_text()[-2000:]
            dashboard = json.loads((CLUSTER / "grafana" / "koda.json").read_text())
            wanted = {target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
            wanted |= {rule["record"] for rule in RULES if "record" in rule}
            missing = wanted
            deadline = time.monotonic() + IN_TIME_S
            while missing:
                assert time.monotonic() < deadline, f"no series: {missing}"
                await asyncio.sleep(0.5)
                missing = {expression for expression in wanted if not await _found(asked, expression)}
            assert await _found(asked, 'koda:frames:rate5m{urgent="no"}')
            frames = await _found(asked, "sum(ray_koda_render_frames_total)")
            assert float(frames[0]["value"][1]) == 10
            assert await _found(asked, 'ALERTS{alertname="KodaJanitorSilent"}') == []
            everything = await _series(asked, '{__name__=~".+"}')
            names = {name for each in everything for name in each}
            assert not [name for name in names if re.search("user|person|koda.*session|session_?id|job_?id", name)]
            ours = [each for each in everything if re.match("ray_koda_|koda:", each["__name__"])]
            assert {figure.name for figure in FIGURES if figure.kind == "gauge"} <= {
                each["__name__"].removeprefix("ray_") for each in ours
            }
            said = {value for each in ours for value in each.values()}  # Ray's own name actors, and so sessions
            assert not [value for value in said for name in (made.id, session.session_id) if name in value]
            labels = {name for each in ours for name in each} - {"__name__", "instance", "job"}
            assert {"urgent", "state", "kind"} <= labels <= OWN_LABELS | RAYS_LABELS, labels
            assert "local" not in said, "the only user there was"
    finally:
        await asyncio.to_thread(own.stop)


async def _series(asked: httpx.AsyncClient, which: str) -> list[dict[str, str]]:
    """Return the labels of all series that match."""
    return (await asked.get("/api/v1/series", params={"match[]": which})).json()["data"]


async def _found(asked: httpx.AsyncClient, expression: str) -> list[Any]:
    try:
        answer = await asked.get("/api/v1/query", params={"query": expression})
    except httpx.TransportError:  # it starts
        return []
    return answer.json()["data"]["result"] if answer.status_code == 200 else []
