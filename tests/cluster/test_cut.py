"""What a cluster loses, for a while or for good: nothing of what was said is gone, and what it did goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from koda_ray.config import REPO_ROOT
from tests.cluster.broken import BROKEN
from tests.cluster.commanding import COMMANDS
from tests.cluster.rolled import NEWER

pytestmark = [
    pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.browser, pytest.mark.sandbox,
    pytest.mark.timeout(1800),
    pytest.mark.needs("netns", "postgres", "s3", "seaweedfs"),
]  # fmt: skip
WHOLE = ["succeeded", 0, None]
"""A render that is over, and lacks no frame."""
TOKEN = "0123456789abcdef" * 4


def lose(what: str, *more: object, **env: str) -> dict[str, Any]:
    """Run a cluster that loses something, with more words and more in its environment; return what became of it."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    done = subprocess.run(
        [*command, "-m", "tests.cluster.cut", what, *map(str, more)],
        cwd=REPO_ROOT, env={**os.environ, "PYTHONPATH": str(REPO_ROOT), **env}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("how", ["link", "machine"])
def test_sessions_renders_and_the_janitor_of_a_machine_that_is_lost_go_on_elsewhere(how: str) -> None:
    """Long before Ray gives it up, where it only falls silent."""
    seen = lose(how)
    before, after = seen["session_epochs"]
    assert after == before + 2, "it was given up once, and taken once"
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]
    assert seen["render"] == WHOLE, seen
    if how == "link":  # it was there again
        assert seen["ran_on"] >= 2, "its session, and who coordinated its render, had gone on meanwhile"
        assert seen["same_host_since"], "none of them took anything back"


def test_processes_that_are_killed_lose_nothing_and_do_nothing_twice() -> None:
    seen = lose("process", 2)
    assert len(seen["killed"]) >= 5 and seen["said"] > 6, seen
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["render"] == WHOLE, seen


@pytest.mark.parametrize("what", ["link", "machine", "spot", "bucket", "disk", "rolling"])
def test_agents_at_work_go_on_and_do_nothing_twice(what: str) -> None:
    """Their calls, their files, what was paid, their preview and their sandboxes, when all is over."""
    seen = lose(what, 1, "agents")
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["render"] == WHOLE, seen
    (agents,) = seen["agents"]
    assert agents["wrong"] == [] and agents["calls"] > 20, agents
    if what != "bucket":  # which its process outlives
        assert agents["taken_at_work"] and agents["sandboxes"] == 2, agents


@pytest.mark.parametrize("broken", BROKEN)
def test_sessions_that_lose_what_is_said_or_do_it_twice_are_found_out(broken: str) -> None:
    seen = lose("process", 1, KODA_HOOKS=f"tests.cluster.broken:{broken}")
    counted = {name for name in ("lost_events", "repeated_effects") if seen[name]}
    assert counted == {BROKEN[broken]}, seen


@pytest.mark.parametrize("what", ["database", "bucket"])
def test_a_session_and_a_render_outlive_what_is_away_for_a_while(what: str) -> None:
    seen = lose(what)
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]
    assert seen["render"] == WHOLE, seen


@pytest.mark.parametrize("what", ["database", "bucket"])
@pytest.mark.needs("iptables")
def test_a_session_and_a_render_outlive_what_falls_silent_for_a_while(what: str) -> None:
    """Nobody is told that it is gone: what was sent is not answered, and connections stay open for nothing."""
    seen = lose(f"{what}-silent")
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]
    assert seen["render"] == WHOLE, seen
    assert seen["gets"] > 0 and set(seen["codes"]) <= {"STORAGE_FAILED"}, "each was answered, if with what is wrong"


def test_what_works_on_a_machine_leaves_it_when_its_cloud_gives_notice() -> None:
    seen = lose("spot")
    assert seen["session_epoch"] == 2, "it was let go once, and taken once"
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]
    assert seen["render"] == WHOLE, seen


@pytest.mark.parametrize(
    ("what", "times"), [("head", 4), pytest.param("head-redis", 2, marks=pytest.mark.needs("redis"))]
)
def test_what_is_said_while_the_head_is_away_is_taken_when_it_is_back(what: str, times: int) -> None:
    """It knows what it had written down, be that on its disk or in Redis: the actors that were there are there."""
    seen = lose(what, times)
    assert seen["gets"] > 0 and seen["get_failures"] == 0, seen["why_refused"]
    assert (seen["redis_keys"] > 0) is (what == "head-redis")
    before, after = seen["session_epochs"]
    assert after == before, "nobody else took the session"
    assert seen["commands_away"] >= 50 and seen["commands_refused"] == 0, seen["why_refused"]
    assert seen["away"].keys() == set(COMMANDS) and seen["untrue_answers"] == 0, seen
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert not seen["awake_waited"] and seen["asleep_waited"], seen
    for events in seen["events"].values():
        assert events == [*range(1, len(events) + 1)] and events
    assert seen["render"] == WHOLE, seen


def test_what_works_on_a_machine_whose_disk_is_full_goes_on_elsewhere_until_there_is_room() -> None:
    seen = lose("disk")
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["render"] == WHOLE, seen
    assert seen["chosen_while_full"] == [] and seen["more_sessions"] == 2
    assert seen["captured_while_full"] == 0 and seen["captured_elsewhere"] > 0, seen
    before, after = seen["session_epochs"]
    assert after > before
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]


@pytest.mark.parametrize("how", ["behind", "ahead"])
def test_a_machine_whose_clock_is_a_minute_off_holds_what_it_works_on_and_no_longer(how: str) -> None:
    """Others, whose clocks are right, neither take it over nor wait longer for it than its leases say."""
    seen = lose(how)
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["works_there"] == 2, "its session, and who coordinates its render"
    assert seen["times_taken"] == 1, "nobody took either over"
    longest = max(seen["leases_s"])  # by its own clock one of these would be over before it began, or a minute longer
    assert 0 < longest < seen["lease_s"] + 5, seen
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]
    assert seen["render"] == WHOLE, seen


@pytest.mark.parametrize("how", ["judges-behind", "judges-ahead"])
def test_who_judges_by_a_clock_that_is_ten_minutes_off_gives_up_what_is_lost_and_nothing_else(how: str) -> None:
    """The janitor's machine and a server: of a machine whose clock is right, while it is there, and once it is not."""
    seen = lose(how)
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["times_taken"] == 1, "nobody took anything over while it was held"
    assert min(seen["given_up_s"].values()) >= 0, "not before its lease was over"
    assert seen["get_failures"] == 0 and seen["commands_refused"] == 0, seen["why_refused"]
    assert seen["render"] == WHOLE, seen


def test_a_newer_version_takes_the_place_of_an_older_one_and_nobody_notices() -> None:
    seen = lose("rolling")
    assert len(set(seen["versions"])) == 2 and seen["versions"][1] == NEWER
    assert seen["old_server_ended"] in (0, signal.SIGTERM), "uvicorn ends, and then is ended by what it was told with"
    assert seen["gets"] > 0 and seen["get_failures"] == 0, seen["why_refused"]
    assert seen["commands"] > 0 and seen["commands_refused"] == 0, seen["why_refused"]
    assert (seen["lost_events"], seen["repeated_effects"]) == (0, 0), seen
    assert seen["followed"] == [*range(1, len(seen["followed"]) + 1)] and seen["followed"]
    assert seen["render"] == WHOLE, seen


def test_serves_file_answers_from_two_machines_and_from_the_one_that_is_left() -> None:
    """The file as it is shipped, by `serve deploy`, on a cluster that asks for its token."""
    seen = lose("served", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN)
    assert seen["statuses"] == dict.fromkeys(("koda", "janitor", "previews"), "RUNNING")
    assert seen["replicas"] == [True, True], "one on each machine"
    assert seen["heard"] == [True, True], "each tells all of a session, whichever machine that is on"
    assert seen["janitors"] == [True, True]
    before, after = seen["hosts"]
    assert before.partition(":")[0] != after.partition(":")[0] and seen["said"]
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)]
