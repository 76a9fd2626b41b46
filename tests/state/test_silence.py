"""A database or a bucket that falls silent: whoever asks it is told so, and goes on when it speaks again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from koda_ray.config import REPO_ROOT
from koda_ray.state.silence import postgres_arguments
from koda_ray.state.sql import SqlStore
from tests.state.silent import READS

URL = "postgresql+psycopg://ann@db.example/koda"
ALL = {
    "connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}  # fmt: skip


def ask(which: str) -> dict[str, Any]:
    """Ask one that falls silent; return what it was asked, and what was answered."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    done = subprocess.run(
        [*command, "-m", "tests.state.silent", which],
        cwd=REPO_ROOT, env={**os.environ, "PYTHONPATH": str(REPO_ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.full
@pytest.mark.timeout(240)  # by itself a system would let each wait for a quarter of an hour
@pytest.mark.parametrize(
    "which",
    [
        pytest.param("postgres", marks=pytest.mark.needs("iptables", "postgres")),
        pytest.param("pgbouncer", marks=pytest.mark.needs("iptables", "pgbouncer")),
        pytest.param("libsql", marks=pytest.mark.needs("iptables", "libsql")),
    ],
)
def test_who_asks_a_silent_database_is_told_so_and_what_was_asked_is_done_once(which: str) -> None:
    seen = ask(which)
    told = [seen["held"], seen["commit"], *seen["reads"]]
    assert len(told) == READS + 2
    for answer in told:
        assert answer["error"] == "DatabaseAway" and "does not answer" in answer["message"], seen
    assert seen["again"] is None
    assert seen["events"] == ["once"]
    if which != "libsql":
        assert seen["beside_s"] is not None, "others had the row, which a transaction held whose client was cut off"


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.needs("iptables", "s3", "seaweedfs")
def test_who_asks_a_silent_bucket_is_told_so_and_can_go_on() -> None:
    seen = ask("bucket")
    assert [answer["error"] for answer in seen["silent"]] == ["BucketAway", "BucketAway"], seen
    assert (seen["small"], seen["large"]) == ("kept", 64 << 20)


@pytest.mark.needs("postgres")
def test_what_a_person_says_of_waiting_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGCONNECT_TIMEOUT", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    assert postgres_arguments(make_url(URL)) == ALL
    said = postgres_arguments(make_url(f"{URL}?connect_timeout=60&tcp_user_timeout=0"))
    assert said == {name: ALL[name] for name in ("keepalives_idle", "keepalives_interval", "keepalives_count")}
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "60")
    assert "connect_timeout" not in postgres_arguments(make_url(URL))
    assert postgres_arguments(make_url(f"{URL}?service=mine")) == {}, "whose file may say all of it"


@pytest.mark.full
@pytest.mark.parametrize(("said", "holds"), [("", "15s"), ("-c idle_in_transaction_session_timeout=5min", "5min")])
async def test_a_server_notices_clients_that_are_gone_as_it_was_told(postgres_url: str, said: str, holds: str) -> None:
    store = SqlStore(postgres_url if not said else with_options(postgres_url, said))
    await store.open()
    asked = text("SHOW idle_in_transaction_session_timeout")
    assert await store.database.read(lambda connection: connection.execute(asked).scalar_one()) == holds
    await store.close()


def with_options(url: str, options: str) -> str:
    return make_url(url).update_query_dict({"options": options}).render_as_string(hide_password=False)
