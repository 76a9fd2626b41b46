"""An error that is told from inside a sandbox, where a liar may tell it, or by a process of ours."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.errors import (
    Fenced,
    InvalidPath,
    KodaError,
    LimitReached,
    QuotaExceeded,
    SandboxError,
    SandboxNotFound,
    StorageError,
)
from koda_ray.events import NewEvent
from koda_ray.sandbox import shipped
from koda_ray.sandbox.asked import read_answer
from koda_ray.sandbox.docker_way_in import answer_or_error
from koda_ray.sandbox.packed import pack
from koda_ray.sandbox.retold import CODES, describe_error, revive, revive_ours
from koda_ray.serve.problem import error_response
from koda_ray.types import ErrorInfo

ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec=None), max_size=99),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(["x" * 100_000, "\ud800", "\0", 10**400, "DISK_FULL", "SCHEMA_NEWER", "Fenced", "CANCELLED"]),
)  # fmt: skip
TOLD = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(ODD, st.sampled_from(["SandboxError", "NotFound", "StorageError", "_rebuild"])),
            "message": ODD,
            "code": ODD,
            "context": st.one_of(ODD, st.dictionaries(st.text(st.characters(codec=None), max_size=99), ODD)),
            "retryable": ODD,
        },
    ),
)
INSIDE = ("koda_ray.sandbox.inside", "koda_ray.sandbox.first_process")


def same(one: KodaError, other: KodaError) -> bool:
    facts = [(type(each), each.message, each.code, each.context, each.retryable) for each in (one, other)]
    return facts[0] == facts[1]


def test_an_error_comes_through_with_its_class_code_and_context() -> None:
    for error in (
        InvalidPath("no", context={"rule": "escape"}),
        SandboxError("full", code="WRITE_FAILED", context={"reason": "disk_full", "size": 3}),
        QuotaExceeded("pids", context={"limit": "pids"}, retryable=True),
        SandboxNotFound("gone"),
    ):
        assert same(revive(json.loads(json.dumps(describe_error(error)))), error)


def test_every_code_that_a_program_inside_uses_is_known() -> None:
    used: set[str] = set()
    for entry in INSIDE:
        for name, source in shipped.program(entry, "").items():
            if name.startswith("koda_ray/sandbox/"):
                used |= {
                    node.value.value
                    for node in ast.walk(ast.parse(source))
                    if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant)
                    if isinstance(node.value.value, str)
                }
    assert used == CODES


@given(TOLD)
def test_whatever_is_told_can_be_answered_stored_and_sent(value: object) -> None:
    for made in (revive(value), revive_ours(value)):
        answered = json.loads(bytes(error_response(made, "/v1/x").body))
        assert answered["code"] == made.code and made.code.isascii() and len(made.code) <= 64
        NewEvent(type="error", data={"code": made.code, "message": made.message}).model_dump_json()
        ErrorInfo(code=made.code, message=made.message).model_dump_json()
        assert len(made.message) <= 8000 and len(json.dumps(made.context)) < 2_000_000
    assert isinstance(revive(value), SandboxError | InvalidPath | KodaError)
    assert not isinstance(revive(value), Fenced | StorageError | LimitReached)


@pytest.mark.parametrize("name", ["Fenced", "StorageError", "Cancelled", "HookStopped", "BudgetExceeded", "Missing"])
@pytest.mark.parametrize("code", ["DISK_FULL", "SCHEMA_NEWER", "NODE_FULL", {"a": 1}, 7, "\ud800", "x" * 99_999])
def test_nothing_inside_speaks_for_this_program(name: str, code: object) -> None:
    told: dict[str, object] = {"type": name, "code": code, "message": "x"}
    data = pack({"ok": False, "error": told})
    with pytest.raises(SandboxError) as asked:
        read_answer("sbx_1", data)
    with pytest.raises(SandboxError) as answered:
        answer_or_error(json.loads(json.dumps({"error": told})))
    for caught in (asked, answered):
        assert type(caught.value) is SandboxError and caught.value.code == "PROVIDER_ERROR"


@pytest.mark.parametrize("header", [{}, {"ok": 1}, {"ok": False, "error": [1]}, {"error": {"context": [1, 2]}}])
def test_a_helper_that_fails_without_saying_how_is_an_error_of_the_sandbox(header: dict[str, object]) -> None:
    with pytest.raises(SandboxError) as caught:
        read_answer("sbx_1", pack(header))
    assert type(caught.value) is SandboxError and caught.value.context == {}


def test_a_process_of_ours_is_believed() -> None:
    for error in (Fenced("newer"), StorageError("full", code="DISK_FULL"), LimitReached("many", retry_after_s=5)):
        assert same(revive_ours(json.loads(json.dumps(describe_error(error)))), error)


def test_what_asks_the_inside_makes_its_errors_here_alone() -> None:
    folder = Path(shipped.__file__).parent
    asking = [path.name for path in folder.glob("*.py") if "revive(" in path.read_text()]
    assert sorted(asking) == ["asked.py", "docker_way_in.py", "retold.py"]
