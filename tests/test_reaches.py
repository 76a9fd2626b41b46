"""Where tests reach into what is private: nowhere but where it is said here, and why.

A bound or a wait of a module (``_SOME_S``, ``_MOST_ROWS``) may be made small by any test, so that what takes minutes or
gigabytes is shown in seconds; another constant may not. What a test needs beside that, and several tests do, gets a
public way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from koda_ray.config import REPO_ROOT

_REACHES: dict[str, tuple[str, ...]] = {
    "the moment at which Ray's head is asked, and what a process of renders has to do then": (
        "serve/test_batches_on_ray.py _cluster_resources",
        "serve/test_batches_on_ray.py _starting",
    ),
    "the instant between two steps of an agent that no person sees": (
        "agent/test_approvals.py _now_open",
        "agent/test_crashes.py _move",
        "agent/test_stuck.py _run",
        "faults/kernel/points.py _move",
    ),
    "a defect put in on purpose, which the judge of what was lost or repeated must see": (
        "cluster/broken.py _write",
        "faults/kernel/broken.py _call",
    ),
    "Ray's tables, as the product reads them": ("cluster/tables.py _connect_and_get_accessor",),
    "a part that Ray starts by its own name": ("cluster/test_start.py _Caretaker",),
    "where a vendor's client would connect to, without connecting": (
        "llm/test_anthropic.py _connected",
        "llm/test_gemini.py _api_client",
        "llm/test_gemini.py _connected",
        "llm/test_gemini.py _http_options",
        "llm/test_openai.py _connected",
    ),
    "a picture that does not come, which nothing else withholds": ("render/test_ahead.py _post_frame",),
    "what is chosen, or said, once in a process, as another process would choose or say it": (
        "render/test_isolation.py _warn_of_one_wall",
        "render/test_raw.py _chosen",
        "render/test_sharing.py _chosen",
        "sandbox/test_e2b.py _warn_unkept",
        "serve/test_tracing.py _provider",
    ),
    "a machine that is another one, or lacks something which this one has": (
        "render/test_memory.py _CGROUP",
        "render/test_memory.py _kernel_lists_children",
        "render/test_rasterizers.py _LIBRARY_FOLDERS",
        "sandbox/test_beneath.py _SYS_OPENAT2",
        "sandbox/test_deployments.py _MACHINE",
        "sandbox/test_node.py _candidates",
        "sandbox/test_node.py _libraries",
        "sandbox/test_watching.py _inotify",
    ),
    "that nothing is left inside: no call, no piece, no folder, no browser": (
        "render/clocked.py _session",
        "render/test_faults.py _folder",
        "render/test_faults.py _root",
        "render/test_hostile.py _calls",
        "render/test_hostile.py _parts",
        "render/test_page_workers.py _calls",
        "render/test_page_workers.py _contexts",
        "render/test_page_workers.py _frame",
        "render/test_page_workers.py _inner",
        "render/test_page_workers.py _listeners",
        "render/test_page_workers.py _over",
        "render/test_page_workers.py _target",
        "render/test_memory.py _idle",
        "render/test_memory.py _keep",
        "render/test_memory.py _watch",
        "state/json_child.py _open",
        "state/json_child.py _rows",
    ),
    "the moment in which something is slow, stopped or cut off": (
        "actors/test_ray.py _named",
        "render/test_fonts.py _fulfill",
        "sandbox/egress/test_egress.py _serving",
        "sandbox/terminals.py _end",
        "sandbox/test_owner.py _clear",
        "sandbox/test_owner.py _make",
        "sandbox/test_warm_pool.py _ahead",
        "sandbox/test_warm_pool.py _maker",
        "sandbox/test_warm_pool.py _relay",
        "sandbox/test_warm_pool.py _take",
        "state/test_stream.py _lookout",
    ),
    "what is written down beside what is said: records, events, a schema of before": (
        "sandbox/egress/conftest.py _note",
        "sandbox/test_owner.py _root",
        "sandbox/test_warm_pool.py _root",
        "state/test_migrations.py _writer",
    ),
    "a piece by itself, where the whole takes minutes": (
        "benchmarks/test_trust_figures.py _QUICK",
        "render/test_fitness.py _run",
        "render/test_secrets.py _run",
        "render/test_sourcemap.py _maps",
        "sandbox/modal_cloud.py _with",
        "sandbox/test_image.py _EMPTIED",
        "sandbox/test_image.py _recipe",
        "sandbox/test_image.py _run",
        "test_leaks.py _OUTSIDE",
    ),
    "ways of Python's own": (
        "conftest.py _get_running_loop",
        "conftest.py _set_running_loop",
        "state/test_json_store.py _set_running_loop",
    ),
}  # fmt: skip
_BOUND = re.compile(r"^_[A-Z0-9_]+_(S|MS|MB|BYTES|CHARS)$|^_([A-Z0-9]+_)*(MAX|MOST|MIN|LEAST)(_[A-Z0-9_]+)?$")

_OWN = re.compile(r"(?<![\w.])(self|cls)\._")
_MAYBE = re.compile(r"\._[A-Za-z]|setattr|import[^\n]*\b_[A-Za-z]|^ +_\w+,?$", re.MULTILINE)
"""A file without any of these reaches into nothing; to parse it takes a hundred times as long as to look for them."""


def test_tests_reach_into_what_is_private_only_where_it_is_said_why() -> None:
    tests = REPO_ROOT / "tests"
    found = {f"{path.relative_to(tests)} {name}" for path in sorted(tests.rglob("*.py")) for name in _reached(path)}
    said = {place for places in _REACHES.values() for place in places}
    assert found - said == set(), "give what several tests need a public way; else say here why"
    assert said - found == set(), "no test does that any more"


def _reached(path: Path) -> Iterator[str]:
    """Name what is private to a module or an object, and used from outside of it."""
    text = path.read_text(encoding="utf-8")
    if not _MAYBE.search(_OWN.sub("", text)):
        return
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("koda_ray"):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and len(node.args) in (2, 3) and _called(node).endswith("setattr"):
            said = node.args[len(node.args) - 2]  # the name of an attribute, or where it is with it
            names = [str(said.value).rpartition(".")[2]] if isinstance(said, ast.Constant) else []
        yield from (name for name in names if _is_private(name) and not _BOUND.search(name))


def _called(node: ast.Call) -> str:
    """The last of a called function's names."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_private(name: str) -> bool:
    return re.fullmatch(r"_[A-Za-z]\w*", name) is not None and name != "_exit"


def _is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")
