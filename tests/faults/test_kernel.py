"""The agent kernel, killed at every named point, at random instants, and while two processes want the same session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from koda_ray.agent.breakpoints import Breakpoint
from tests.faults.kernel.runs import each_nth

ROOT = Path(__file__).parents[2]
POSTGRES = pytest.param("postgres", marks=pytest.mark.needs("postgres"))
LIBSQL = pytest.param("libsql", marks=pytest.mark.needs("libsql"))
EVERY = {"sqlite": 6, "json": 7, "postgres": 8}
NOTHING = ("repeated_effects", "missing_effects", "lost_events", "lost_outcomes", "invalid_histories", "unfinished")

pytestmark = [pytest.mark.alone, pytest.mark.timeout(1800)]


def faults(folder: Path, *arguments: object, status: int = 0) -> dict[str, Any]:
    """Run ``python -m tests.faults`` and read its figures; what failed is shown, with how to run it again."""
    command = [sys.executable, "-W", "error", "-m", "tests.faults", "--json", str(folder / "figures.json")]
    done = subprocess.run([*command, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return json.loads((folder / "figures.json").read_text())


def clean(figures: dict[str, Any]) -> bool:
    return not any(figures[name] for name in NOTHING)


def killed(figures: dict[str, Any], *, least: float) -> bool:
    """Whether enough processes were killed; writes how many, which ``-s`` and a failure show."""
    kills, jobs = figures["kills"], figures["jobs"]
    sys.stdout.write(f"{kills} kills in {jobs} jobs, {kills / jobs:.2f} a job; first {figures['first']}\n")
    return kills >= least


def in_session(number: int) -> list[int]:
    """List the processes of a session."""
    found: list[int] = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError):
            if os.getsid(pid) == number:
                found.append(pid)
    return found


@pytest.mark.parametrize("store", ["sqlite", "json", POSTGRES])
@pytest.mark.full
def test_killed_at_every_breakpoint_and_store_write_the_job_is_done_once(tmp_path: Path, store: str) -> None:
    done = faults(tmp_path, "--store", store, "--points")
    assert clean(done)
    assert done["kills"] + done["missed"] == done["jobs"] > 100 and done["missed"] < 5
    reached = {point.partition("#")[0] for point in done["points"]}
    assert set(Breakpoint) <= reached
    whens = {point.partition(":")[2] for point in done["points"] if point.startswith("write#")}
    assert whens == {"before", "during", "after"} | ({"half"} if store == "json" else set())


@pytest.mark.parametrize("store", ["sqlite", "json", POSTGRES])
@pytest.mark.full
def test_killed_where_it_is_paid_for_delegated_or_put_back_the_job_is_done_once(tmp_path: Path, store: str) -> None:
    done = faults(tmp_path, "--store", store, "--points", "--wide", "--every", EVERY[store])
    assert clean(done)
    # its agents are not in lockstep: the last points may not come
    assert done["kills"] + done["missed"] == done["jobs"] > 45 and done["missed"] < done["jobs"] / 5


@pytest.mark.full
def test_a_call_that_is_killed_again_and_again_is_done_once(tmp_path: Path) -> None:
    """After three times a person is asked, who agrees; it has the same id, and so the same effect."""
    points = ("put done#1", "put begins#1", "TOOL_EXECUTING#1")
    done = faults(tmp_path, "--store", "sqlite", *(f"--point={point}" for point in points), "--times", 5)
    assert clean(done) and done["kills"] == 5 * len(points)


@pytest.mark.parametrize(
    ("store", "points"),
    [
        ("json", ("charge done#1", "write#5:half")),
        pytest.param("postgres", ("charge done#1", "write#5:during"), marks=pytest.mark.needs("postgres")),
    ],
)
@pytest.mark.full
def test_killed_once_at_a_few_points_the_job_is_done_once(tmp_path: Path, store: str, points: tuple[str, ...]) -> None:
    """The same as at every point, where there is little time."""
    done = faults(tmp_path, "--store", store, *(f"--point={point}" for point in points))
    assert clean(done) and done["kills"] == len(points)


@pytest.mark.full
def test_each_nth_point_is_another_from_run_to_run_and_the_same_when_run_again(tmp_path: Path) -> None:
    points = [f"p{n}" for n in range(100)]
    picked = [each_nth(points, 9, first) for first in range(40, 49)]
    assert sorted(point for each in picked for point in each) == sorted(points)
    assert each_nth(points, 9, 49) == picked[0] and each_nth(points, 1, 12345) == points
    done = faults(tmp_path, "--store", "json", "--points", "--every", 50, "--first", 1234)
    assert done["first"] == 1234 and clean(done) and 1 <= done["kills"] == done["jobs"]
    seeded = faults(tmp_path, "--store", "json", "--seeds", 1)
    assert faults(tmp_path, "--store", "json", "--seeds", 1, "--first", seeded["first"])["first"] == seeded["first"]


@pytest.mark.parametrize(
    ("store", "kills"),
    [
        ("sqlite", 6),
        pytest.param("sqlite", 40, marks=pytest.mark.full),
        pytest.param("json", 40, marks=pytest.mark.full),
        pytest.param("postgres", 40, marks=[pytest.mark.needs("postgres"), pytest.mark.full]),
    ],
)
def test_killed_so_often_at_random_instants_the_job_is_done_once(tmp_path: Path, store: str, kills: int) -> None:
    done = faults(tmp_path, "--store", store, "--kills", kills)
    assert clean(done) and killed(done, least=kills)


@pytest.mark.parametrize("store", ["sqlite", "json", POSTGRES, LIBSQL])
@pytest.mark.full
@pytest.mark.timeout(1800)
def test_killed_at_random_instants_the_job_is_done_once(tmp_path: Path, store: str) -> None:
    seeds = 500 if store != "libsql" else 3  # 3 to 7 minutes a store on two busy cores
    done = faults(tmp_path, "--store", store, "--seeds", seeds)
    assert clean(done) and done["jobs"] == seeds
    # a fast job is over before the instants of its kills; 500 have seen some 700
    assert killed(done, least=1 if store == "libsql" else seeds / 2)


@pytest.mark.parametrize("store", ["sqlite", POSTGRES])
@pytest.mark.full
def test_two_processes_that_take_a_session_from_each_other_do_the_job_once(tmp_path: Path, store: str) -> None:
    seeds = 16  # half of them wide: with budget, subagent, way back and fork
    done = faults(tmp_path, "--store", store, "--twins", "--seeds", seeds)
    assert clean(done)
    assert done["takeovers"] > 0 and done["kills"] > 0


@pytest.mark.parametrize("everybody", [False, True])
@pytest.mark.parametrize(
    ("store", "ends"),
    [
        ("json", signal.SIGTERM),
        ("sqlite", signal.SIGINT),
        pytest.param("postgres", signal.SIGTERM, marks=pytest.mark.needs("postgres")),
        pytest.param("libsql", signal.SIGINT, marks=pytest.mark.needs("libsql")),
    ],
)
@pytest.mark.full
def test_cut_off_it_leaves_nothing(store: str, ends: signal.Signals, everybody: bool) -> None:
    """Whether one process is told to end, or all of a terminal's."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # PostgreSQL's user goes through it
        command = [sys.executable, "-m", "tests.faults", "--store", store, "--seconds", "600"]
        running = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "TMPDIR": folder}, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 300
            while not any(effects.stat().st_size for effects in Path(folder).glob("koda-faults-*/effects")):
                assert running.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            (os.killpg if everybody else os.kill)(running.pid, ends)
            _, said = running.communicate(timeout=300)
            assert running.returncode == 128 + ends, said.decode()
            assert list(Path(folder).iterdir()) == []
            while in_session(running.pid):
                assert time.monotonic() < deadline, "a process is left"
                time.sleep(0.01)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()


@pytest.mark.parametrize(
    ("broken", "how", "counted"),
    [
        ("again", ["--store", "json", "--point", "charge done#1"], "repeated_effects"),
        ("trusting", ["--store", "json", "--point", "charge begins#1"], "missing_effects"),
        ("untold", ["--store", "sqlite", "--twins", "--seeds", "12"], "repeated_effects"),
        ("unnamed", ["--store", "json", "--wide", "--point", "streaming#9"], "invalid_histories"),
        ("silent", ["--store", "json", "--point", "charge done#1"], "lost_events"),
        ("doubting", ["--store", "json", "--point", "put done#1"], "lost_outcomes"),
    ],
)
@pytest.mark.full
def test_a_kernel_that_is_broken_is_found_out(tmp_path: Path, broken: str, how: list[str], counted: str) -> None:
    done = faults(tmp_path, "--broken", broken, *how, status=1)
    assert [name for name in NOTHING if done[name]] == [counted]
    assert all("--point" in note or "--seed" in note for note in done["notes"])
