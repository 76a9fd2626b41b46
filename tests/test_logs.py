"""Logging, whose own failures stop nobody."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.errors import CommandBlocked
from koda_ray.logs import FORMAT, get_logger, to_file, warnings_to_stderr
from koda_ray.sandbox.refused import note, noted


def test_a_warning_goes_to_whatever_is_stderr_now(monkeypatch: pytest.MonkeyPatch) -> None:
    first = io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    warnings_to_stderr()
    get_logger().info("unheard")
    get_logger().warning("heard")
    assert "heard" in first.getvalue() and "unheard" not in first.getvalue()
    first.close()
    get_logger().warning("lost")
    then = io.StringIO()
    monkeypatch.setattr(sys, "stderr", then)
    get_logger().warning("heard again")
    assert "heard again" in then.getvalue() and "lost" not in then.getvalue()


def test_a_log_on_a_full_disk_stops_nobody() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with open("/dev/full", "wb", buffering=0) as full:
        to_file(io.TextIOWrapper(full, write_through=True))
        get_logger().warning("no room")
        get_logger().warning("still none")
        with pytest.raises(OSError, match="No space left"):
            full.write(b"a word")


def test_nothing_of_a_process_that_may_lose_its_output_fails_on_a_full_disk() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    says = "import os, sys; print('a name', flush=True); print('and more', file=sys.stderr, flush=True); "
    says += "sys.stdout.fileno(); os._exit(7)"
    with open("/dev/full", "wb", buffering=0) as full:
        ends = [
            subprocess.run([sys.executable, "-c", f"{first}{says}"], stdout=full, stderr=full, check=False).returncode
            for first in ("", "from koda_ray.logs import lose_output; lose_output(); ")
        ]
    assert ends[0] != 7 and ends[1] == 7


def test_what_a_program_that_says_nothing_of_logs_tells_is_lost_where_its_output_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    get_logger().warning("told plainly")
    assert "told plainly" in capsys.readouterr().out
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    get_logger().warning("lost")


def test_each_json_line_names_its_process_but_where_it_says_otherwise() -> None:
    code = "from koda_ray.logs import get_logger, name_process\nget_logger().info('before')\n"
    code += "name_process(node='one', session_id='ses_a', epoch=2)\nget_logger().info('after')\n"
    code += "get_logger().info('of another', session_id='ses_b', epoch=7)"
    environment = {**os.environ, FORMAT: "json"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    named = [{name: line.get(name) for name in ("node", "session_id", "epoch")} for line in lines]
    assert named == [
        {"node": None, "session_id": None, "epoch": None},
        {"node": "one", "session_id": "ses_a", "epoch": 2},
        {"node": "one", "session_id": "ses_b", "epoch": 7},
    ]


def test_a_program_that_has_set_its_own_log_keeps_it() -> None:
    code = "import structlog; structlog.configure(cache_logger_on_first_use=True); import koda_ray.logs; "
    code += "print(structlog.get_config()['cache_logger_on_first_use'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_what_is_an_error_too_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", seen)
    warnings_to_stderr()
    with pytest.raises(CommandBlocked), noted("sbx_a"):
        raise CommandBlocked("not that one")
    note("sbx_a", "network", times=3)
    note("sbx_a", "egress", code="HOST_DENIED", host="denied.test", port=443)  # nobody here asked for it
    assert "COMMAND_BLOCKED" not in seen.getvalue() and "network" in seen.getvalue()
    assert "denied.test" in seen.getvalue()


def test_a_traceback_shows_nobodys_variables_though_structlog_was_loaded_with_rich() -> None:
    code = "import rich, structlog, koda_ray.logs\nkey = 's3cret'\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n"
    code += "    koda_ray.logs.get_logger().exception('bug')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bug" in done.stdout and "ZeroDivisionError: division by zero" in done.stdout
    assert "s3cret" not in done.stdout
