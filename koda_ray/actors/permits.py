"""What a session's agents may do by themselves, from what its state says.

The code generator chooses the files that it writes. So a call is judged by what it names before it runs, and each
file of the answer before it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from koda_ray.agent.paths import paths_in
from koda_ray.agent.permissions import Permissions, Rule, Verdict
from koda_ray.errors import InvalidInput, InvalidPath
from koda_ray.sandbox.policy import PROJECT_ROOT, is_template_owned, writable
from koda_ray.types import NodeState

__all__ = ["check_written", "judged", "own_path", "permissions_of"]

_WRITES = "generate_code"


def permissions_of(state: NodeState) -> Permissions:
    """Read a session's mode and rules; mode ``plan`` guards until its plan is accepted."""
    given = state.permissions
    rules = [Rule(decision=r.decision, tool=r.tool, path=r.path, arguments=r.arguments) for r in given.rules]
    mode = "auto" if given.mode == "plan" and state.plan_accepted else given.mode
    return Permissions(mode=mode, rules=rules, root=PROJECT_ROOT)


def judged(state: NodeState, task: Mapping[str, JsonValue], files: Iterable[str] = ()) -> Verdict:
    """Decide about a task for the code generator, and about the files that it chose; the strictest verdict counts.

    Raises:
        InvalidPath: A file leaves the project or belongs to the template.
    """
    call = permissions_of(state).judge(_WRITES, task, changes=True, paths=paths_in(task))
    found = [call, *_by_file(state, task, files).values()]
    return next((each for decision in ("deny", "ask") for each in found if each.decision == decision), call)


def check_written(state: NodeState, task: Mapping[str, JsonValue], files: Iterable[str], *, shown: bool) -> None:
    """Refuse files that the code generator may not write, or that a person is to be asked about and has not seen.

    Args:
        state: Whose rules.
        task: What the files were generated for.
        files: Their paths.
        shown: A person has seen them and agreed.

    Raises:
        InvalidPath: A file leaves the project or belongs to the template.
        InvalidInput: NOT_ALLOWED, naming the first file that may not be written.
    """
    for path, verdict in _by_file(state, task, files).items():
        if verdict.decision == "deny":
            way_out = "leave this file as it is"
        elif verdict.decision == "ask" and not shown:
            way_out = "make the same call again, and the person is asked"
        else:
            continue
        raise InvalidInput(
            f"{path} may not be written: {verdict.reason}; nothing was written; {way_out}",
            code="NOT_ALLOWED",
            context={"path": path},
        )


def own_path(path: str) -> str:
    """Return the path of a file that the code generator may write, relative to the project's root.

    Raises:
        InvalidPath: It leaves the project or belongs to the template.
    """
    clean = writable(path)
    if is_template_owned(clean):
        raise InvalidPath(
            f"{clean} belongs to the template and cannot be replaced; write under src/components, src/scenes, "
            "src/theatre, src/App.tsx or public/",
            context={"path": clean},
        )
    return clean


def _by_file(state: NodeState, task: Mapping[str, JsonValue], files: Iterable[str]) -> dict[str, Verdict]:
    """Decide about each file by itself, by its path in the project."""
    permissions = permissions_of(state)
    paths = [own_path(path) for path in files]
    return {path: permissions.judge(_WRITES, task, changes=True, paths=[path]) for path in paths}
