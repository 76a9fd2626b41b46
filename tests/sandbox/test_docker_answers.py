"""What a container's first process answers, taken for what it has to be or for nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from koda_ray.errors import SandboxError
from koda_ray.sandbox.docker_answers import (
    Told,
    ToldEnd,
    ToldFile,
    ToldList,
    ToldOutput,
    ToldProcess,
    ToldProcesses,
    ToldRefusals,
    ToldSurvey,
    believed,
)

PROCESS = {"name": "dev", "pid": 3, "running": False, "exit_code": 1}
NONE: dict[str, Any] = {"refused": {"memory": 2}, "calls": {"ptrace": 1}}
ENDED = {
    **NONE, "exit_code": 1, "ended": False, "stdout": "\x1b[1mx", "stderr": "", "truncated": False, "duration_s": 0.5,
    "out_of_memory": False,
}  # fmt: skip


def test_what_it_answers_comes_through() -> None:
    done = believed(ToldEnd, ENDED)
    assert (done.exit_code, done.stdout, done.duration_s, done.refused["memory"]) == (1, "\x1b[1mx", 0.5, 2)
    [info] = believed(ToldProcesses, {**NONE, "processes": [PROCESS]}).infos()
    assert believed(ToldProcess, {"process": PROCESS}).info() == info and info.name == "dev"
    [entry] = believed(ToldList, {"entries": [["src", "directory", 0]], "outside": []}).files()
    assert (entry.path, entry.type) == ("src", "directory")
    survey: dict[str, Any] = {
        "stamps": {"a": [1, 1_795_699_280_486_815_135, (1 << 64) - 1]},
        "skipped": {},
        "modes": {},
        "folders": ["b"],
    }
    assert believed(ToldSurvey, survey).found()["a"].changed_ns == 1_795_699_280_486_815_135


def test_halves_of_characters_become_whole_ones() -> None:
    assert believed(ToldOutput, {"output": "a\ud800"}).output == "a\ufffd"
    listed = believed(ToldList, {"entries": [["\udcff", "file", 1]], "outside": ["\ud800"]})
    assert listed.files()[0].path == "\ufffd" and listed.outside == ["\ufffd"]
    assert believed(ToldEnd, {**ENDED, "stderr": "\udfff"}).stderr == "\ufffd"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (ToldEnd, {}),
        (ToldEnd, {**ENDED, "stdout": {"a": 1}}),
        (ToldEnd, {**ENDED, "stdout": "x" * (2 << 20)}),
        (ToldEnd, {**ENDED, "exit_code": 10**400}),
        (ToldEnd, {**ENDED, "duration_s": float("nan")}),
        (ToldEnd, {**ENDED, "refused": [1]}),
        (ToldRefusals, {"refused": {"else": 1}, "calls": {}}),
        (ToldRefusals, {"refused": {}, "calls": {"x" * 999: 1}}),
        (ToldProcesses, {**NONE, "processes": [{**PROCESS, "name": "../x"}]}),
        (ToldProcesses, {**NONE, "processes": [3]}),
        (ToldProcess, {"process": None}),
        (ToldList, {"entries": [["a", "file"]], "outside": []}),
        (ToldSurvey, {"stamps": {"../a": [1, 2, 3]}, "skipped": {}, "modes": {}, "folders": []}),
        (ToldSurvey, {"stamps": {}, "skipped": {}, "modes": {}, "folders": ["/etc"]}),
        (ToldFile, {"path": "a", "size": -1}),
        (ToldOutput, {"output": None}),
    ],
)
def test_anything_else_is_nonsense(kind: type[Told], answer: dict[str, object]) -> None:
    with pytest.raises(SandboxError, match=r"nonsense.*make another") as caught:
        believed(kind, answer)
    assert caught.value.code == "PROVIDER_ERROR" and caught.value.message.encode()
