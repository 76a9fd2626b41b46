"""What an agent may do by itself: modes, and rules that look at tools, paths and arguments."""

from __future__ import annotations

from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from koda_ray.agent import tool
from koda_ray.agent.permissions import Mode, Permissions, Rule, Verdict
from koda_ray.agent.toolkit import BoundCall, Tool, ToolCall, Toolkit
from koda_ray.errors import InvalidInput
from tests import tiers


@tool
def write(path: str, text: str) -> str:
    """Write a file."""
    return f"wrote {path}"


@tool(effect="pure")
def read(path: str) -> str:
    """Read a file."""
    return "old\n"


def _remove(path: str) -> str:
    """Remove a file."""
    return path


class Part(BaseModel):
    path: str


@tool(effect="pure")
def many(files: list[Part], note: str = "") -> str:
    """Look at many."""
    return "seen"


@tool
def push(branch: str = "main", force: bool = False, amount: float = 0) -> str:
    """Push."""
    return "pushed"


@tool
def writes(files: dict[str, str]) -> str:
    """Write files."""
    return "written"


@tool
def move(path: str, destination: str = "trash") -> str:
    """Move a file."""
    return "moved"


@tool
def shell(command: str) -> str:
    """Run a command."""
    return "ran"


def verdict(permissions: Permissions, used: Tool, **input_: Any) -> Verdict:
    bound = Toolkit([used]).bind(used.name, input_)
    assert isinstance(bound, BoundCall), bound
    return permissions.decide(bound, input_)


def decided(permissions: Permissions, used: Tool, **input_: Any) -> str:
    return verdict(permissions, used, **input_).decision


# --- decisions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "looks", "changes"),
    [("auto", "allow", "allow"), ("ask", "allow", "ask"), ("readonly", "allow", "deny"), ("plan", "allow", "deny")],
)
def test_a_mode_decides_by_what_a_tool_may_change(mode: Mode, looks: str, changes: str) -> None:
    permissions = Permissions(mode=mode)
    assert decided(permissions, read, path="a") == looks
    assert decided(permissions, write, path="a", text="") == changes


def test_deny_wins_then_the_mode_then_the_first_rule_that_fits() -> None:
    rules = (
        Rule(decision="allow", tool="write", path="src/*"),
        Rule(decision="ask", tool="write", path="*"),
        Rule(decision="deny", path="*.env"),
    )
    auto, readonly = Permissions(rules=rules), Permissions(mode="readonly", rules=rules)
    assert decided(auto, write, path="src/a.ts", text="") == "allow"
    assert decided(auto, write, path="b.ts", text="") == "ask"
    assert decided(auto, write, path="src/.env", text="") == "deny"
    assert decided(auto, read, path="src/.env") == "deny"
    assert decided(readonly, write, path="src/a.ts", text="") == "deny"
    assert decided(Permissions(mode="ask", rules=rules), write, path="src/a.ts", text="") == "allow"


@pytest.mark.parametrize(
    "path", ["src/../.env", "./src/../../.env", "src/a/../../.env", "src\\..\\.env", "/src/../.env", "../src/x"]
)
def test_dots_lead_nowhere(path: str) -> None:
    only_src = Permissions(mode="ask", rules=[Rule(decision="allow", tool="write", path="src/*")])
    assert decided(only_src, write, path=path, text="") == "ask"


@pytest.mark.parametrize(
    "path",
    [
        "/home/user/project/src/secret.ts",
        "//home//user/project/./src/secret.ts",
        "/home/user/other/../project/src/secret.ts",
        "./src/a/../secret.ts",
        "../project/src/secret.ts",
        "/home/user/project/src\\secret.ts",
    ],
)
@pytest.mark.parametrize("pattern", ["src/secret*", "./src/secret*", "/home/user/project/src/secret*"])
def test_every_way_to_name_a_file_of_the_project_is_the_same_path(path: str, pattern: str) -> None:
    root = "/home/user/project"
    forbidden = Permissions(rules=[Rule(decision="deny", path=pattern)], root=root)
    assert decided(forbidden, read, path=path) == "deny"
    assert verdict(forbidden, read, path=path).reason.startswith("a rule forbids it (deny path=")
    assert decided(forbidden, read, path=f"{root}/src/App.tsx") == "allow"
    agreed = Permissions(mode="ask", rules=[Rule(decision="allow", path=pattern)], root=root)
    assert decided(agreed, write, path=path, text="") == "allow"


def test_a_path_outside_the_project_is_not_taken_for_one_of_its_files() -> None:
    only_src = Permissions(mode="ask", rules=[Rule(decision="allow", path="src/*")], root="/home/user/project")
    for path in ("/src/a", "/home/user/projects/src/a", "../src/a", "/home/user/project/../src/a"):
        assert decided(only_src, write, path=path, text="") == "ask"
    named = Permissions(rules=[Rule(decision="deny", path="*project*")], root="/home/user/project")
    assert decided(named, read, path="/home/user/project/src/a") == "allow"  # what is above the project is no name


def test_paths_are_found_wherever_they_are_and_all_of_them_count() -> None:
    allow = Permissions(mode="auto", rules=[Rule(decision="allow", path="src/*"), Rule(decision="ask")])
    deny = Permissions(rules=[Rule(decision="deny", path="keys/*")])
    assert decided(allow, many, files=[{"path": "src/a"}, {"path": "src/b"}]) == "allow"
    assert decided(allow, many, files=[{"path": "src/a"}, {"path": "other"}]) == "ask"
    assert decided(deny, many, files=[{"path": "src/a"}, {"path": "keys/b"}]) == "deny"
    assert decided(deny, many, files=[], note="keys/b") == "allow"
    assert decided(allow, many, files=[]) == "ask"  # without a path nothing is known to be in src


def test_arguments_are_compared_as_text() -> None:
    rule = Rule(decision="deny", tool="pay", arguments={"amount": "1???*", "to": "*@example.com"})
    assert rule.fits("pay", {"amount": 1000, "to": "a@example.com"})
    assert not rule.fits("pay", {"amount": 100, "to": "a@example.com"})
    assert not rule.fits("pay", {"amount": 1000})
    assert not rule.fits("paid", {"amount": 1000, "to": "a@example.com"})


@pytest.mark.parametrize(
    ("rule", "given_", "forbidden"),
    [
        ({"branch": "main"}, {}, True),
        ({"branch": "main"}, {"branch": "dev"}, False),
        ({"force": "true"}, {"force": "yes"}, True),
        ({"force": "true"}, {"force": 1}, True),
        ({"force": "yes"}, {"force": "yes"}, True),  # as it was sent, too
        ({"force": "true"}, {"force": "no"}, False),
        ({"branch": "main", "force": "true"}, {"force": "on"}, True),
        ({"amount": "5"}, {"amount": 5}, True),
    ],
)
def test_a_rule_looks_at_what_the_tool_gets(rule: dict[str, str], given_: dict[str, Any], forbidden: bool) -> None:
    denies = Permissions(rules=[Rule(decision="deny", tool="push", arguments=rule)])
    assert decided(denies, push, **given_) == ("deny" if forbidden else "allow")


def test_what_is_allowed_is_so_as_it_was_sent_and_as_the_tool_gets_it() -> None:
    allows = Permissions(mode="ask", rules=[Rule(decision="allow", tool="push", arguments={"branch": "dev*"})])
    assert decided(allows, push, branch="dev") == "allow"
    assert decided(allows, push) == "ask"  # main, which was not sent
    five = Permissions(mode="ask", rules=[Rule(decision="allow", tool="push", arguments={"amount": "5"})])
    assert decided(five, push, amount=5) == decided(five, push, amount=5.0) == "allow"
    assert decided(five, push, amount=5.5) == "ask"


def test_every_parameter_that_looks_like_a_path_holds_one() -> None:
    denies = Permissions(rules=[Rule(decision="deny", path="secrets/*")])
    for name in ("file_path", "filename", "target_dir", "folder", "dest", "source", "src", "target", "cwd", "paths"):
        used = tool(_taking(name))
        assert decided(denies, used, **{name: "secrets/key"}) == "deny", name
        assert decided(denies, used, **{name: "public/key"}) == "allow", name
    for name in ("direction", "text", "resource"):
        assert decided(denies, tool(effect="pure")(_taking(name)), **{name: "secrets/key"}) == "allow", name
    assert decided(denies, writes, files={"public/a": "", "secrets/key": ""}) == "deny"
    assert decided(denies, writes, files={"public/a": "secrets/key"}) == "allow"  # that is what is written there


def _taking(name: str) -> Any:
    def take(**given: str) -> str:
        """Take."""
        return "taken"

    take.__annotations__ = {name: str, "return": str}
    take.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY)])  # type: ignore[attr-defined]
    return take


def test_all_paths_of_a_call_must_fit_to_allow_it_and_one_to_forbid_it() -> None:
    allows = Permissions(mode="ask", rules=[Rule(decision="allow", tool="move", path="src/*")])
    assert decided(allows, move, path="src/a", destination="src/b") == "allow"
    assert decided(allows, move, path="src/a", destination="/etc/passwd") == "ask"
    assert decided(allows, move, path="src/a") == "ask"  # the default is a path as well
    denies = Permissions(rules=[Rule(decision="deny", path="trash")])
    assert decided(denies, move, path="src/a") == "deny"


def test_a_tool_names_its_paths() -> None:
    @tool(paths=["where"])
    def put(where: str, source: str = "") -> str:
        """Put."""
        return "put"

    denies = Permissions(rules=[Rule(decision="deny", path="secrets/*")])
    assert decided(denies, put, where="secrets/key") == "deny"
    assert decided(denies, put, where="a", source="secrets/key") == "allow"  # a text, says the tool

    @tool(paths=["path"])
    def gather(files: list[Part], path: str | None = None) -> str:
        """Gather."""
        return "gathered"

    assert decided(denies, gather, files=[{"path": "secrets/key"}]) == "deny"
    with pytest.raises(InvalidInput, match="'_remove' has no parameter 'where' to hold paths"):
        tool(paths=["where"])(_remove)


def test_a_tool_of_a_function_shows_what_it_would_change() -> None:
    async def shown(given: Any, call: ToolCall) -> str:
        return f"-{given.path}"

    made = tool(preview=shown, paths=["path"])(_remove)
    assert (made.preview, made.paths) == (shown, ["path"])


def test_a_person_is_asked_where_a_change_does_not_say_which_files_it_is_about() -> None:
    @tool(paths=[])
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    rule = Rule(decision="deny", path="secrets/*")
    found = verdict(Permissions(rules=[rule]), shell, command="cat secrets/key")
    assert (found.decision, "shell does not say which it works on" in found.reason) == ("ask", True)
    assert decided(Permissions(rules=[replace(rule, tool="write")]), shell, command="ls") == "allow"
    assert decided(Permissions(rules=[replace(rule, decision="allow")]), shell, command="ls") == "allow"
    assert decided(Permissions(rules=[Rule(decision="allow", tool="shell"), rule]), shell, command="ls") == "allow"
    assert decided(Permissions(rules=[rule, Rule(decision="deny", tool="shell")]), shell, command="ls") == "deny"
    assert decided(Permissions(mode="readonly", rules=[rule]), shell, command="ls") == "deny"
    assert decided(Permissions(rules=[rule]), pay, amount=1) == "allow"  # it has to do with no files, it says
    assert decided(Permissions(rules=[rule]), many, files=[]) == "allow"  # and that changes nothing


def test_what_is_no_mode_or_decision_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'loud'"):
        Permissions(mode="loud")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="'maybe'"):
        Rule(decision="maybe")  # type: ignore[arg-type]


_RULES = st.builds(
    Rule,
    decision=st.sampled_from(["allow", "ask", "deny"]),
    tool=st.sampled_from(["*", "write", "read"]),
    path=st.sampled_from([None, "*", "src/*", "a"]),
)


@settings(max_examples=tiers.examples(200))
@given(st.lists(_RULES, max_size=4), st.sampled_from(["a", "src/a", "../a", "src/../a"]), st.booleans())
def test_more_rules_and_stricter_modes_never_let_a_change_through(rules: list[Rule], path: str, denies: bool) -> None:
    for mode in ("readonly", "plan"):
        assert decided(Permissions(mode=mode, rules=rules), write, path=path, text="") == "deny"
    more = Permissions(rules=[*rules, Rule(decision="deny", tool="write")])
    assert decided(more, write, path=path, text="") == "deny"
