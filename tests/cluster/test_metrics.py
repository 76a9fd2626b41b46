"""What a deployment is watched by: its figures, alerts, dashboard and what to do, and that Prometheus gets them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from ray.util import get_node_ip_address

from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT
from koda_ray.console import server
from koda_ray.console.server import OwnServer
from koda_ray.metrics import FIGURES, FRAMES, SCHEDULE_TO_START, UNIT, Figure
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
PAGE = "<!doctype html><title>Metrics</title><style>body{background:teal}</style><h1>figures</h1>"


class Noted:
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, float, dict[str, str]]] = []

    def note(self, figure: Figure, value: float, **labels: str) -> None:
        assert set(labels) == set(figure.labels)
        self.notes.append((figure.name, value, labels))


def test_no_figure_is_told_apart_by_whose_it_is() -> None:
    assert {label for figure in FIGURES for label in figure.labels} == {"urgent", "state", "kind"}
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
    assert all(figure.buckets == tuple(sorted(set(figure.buckets))) for figure in FIGURES)


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
            async with asyncio.timeout(200):
                while missing:
                    await asyncio.sleep(0.5)
                    missing = {expression for expression in missing if not await _found(asked, expression)}
            assert await _found(asked, 'koda:frames:rate5m{urgent="no"}')
            frames = await _found(asked, "sum(ray_koda_render_frames_total)")
            assert float(frames[0]["value"][1]) == 10
            assert await _found(asked, 'ALERTS{alertname="KodaJanitorSilent"}') == []
            everything = (await asked.get("/api/v1/series", params={"match[]": '{__name__=~"ray_koda.*"}'})).text
            assert made.id not in everything and session.session_id not in everything and "local" not in everything
    finally:
        await asyncio.to_thread(own.stop)


async def _found(asked: httpx.AsyncClient, expression: str) -> list[Any]:
    try:
        answer = await asked.get("/api/v1/query", params={"query": expression})
    except httpx.TransportError:  # it starts
        return []
    return answer.json()["data"]["result"] if answer.status_code == 200 else []
