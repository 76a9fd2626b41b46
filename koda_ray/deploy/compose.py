"""Docker Compose files: services that start Ray's nodes, and what they stand on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from koda_ray.deploy.amounts import bytes_in, seconds_in
from koda_ray.deploy.defect import Defect
from koda_ray.deploy.described import DescribedCluster, NodeGroup, Stated
from koda_ray.deploy.ray_command import RayStart, find_ray_start, variables_in
from koda_ray.deploy.schema_check import broken_schema
from koda_ray.deploy.yaml_tree import Tree
from koda_ray.errors import InvalidInput

__all__ = ["check_compose", "interpolated"]

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:?[-?+])([^{}]*))?\}|(\w+))")
_HEALTH = re.compile(r"https?://[^\s/\"']+(/[^\s\"']*)")
_GRACE_S = 10.0
_SHM = "64m"
_NEEDED = {
    "seccomp": "security_opt: [seccomp:unconfined]",
    "apparmor": "security_opt: [apparmor:unconfined]",
    "systempaths": "security_opt: [systempaths=unconfined]",
}


def check_compose(tree: Tree) -> tuple[DescribedCluster | None, list[Defect]]:
    """Read a Compose file: what it describes, if it has the shape of one, and what is wrong with its shape."""
    broken = broken_schema(tree, "compose-spec")
    if broken:
        return None, broken
    groups: list[NodeGroup] = []
    health: list[Stated] = []
    driver = False
    for name, service in tree.at("services").fields().items():
        command = _command(service)
        try:
            started = find_ray_start(command)
        except InvalidInput as error:
            return None, [Defect("command", f"{name}: {error.message}", "correct it", service.at("command").line)]
        if started is None:
            continue
        groups.append(_group(name, service, command, started))
        if re.search(r"\bkoda(_ray\.serve)?\b(?!-)", command.partition("ray start")[2]) and started.head:
            driver = True
            health += _health(service)
    cluster = DescribedCluster(
        groups=tuple(groups),
        offer="""--resources='{{"{name}": 2}}' with its ray start""",
        no_work="write --num-cpus=0 with its ray start",
        health=tuple(health) if driver else None,
        joins=not any(group.head for group in groups),
    )
    if not groups:
        return None, [Defect("compose", "no service starts Ray", "let one run: ray start --head", tree.line)]
    return cluster, []


def interpolated(text: str) -> tuple[str, bool]:
    """Put defaults where a Compose file has variables.

    Returns:
        The text, where variables without a default stay as they are, and whether there is one of those.

    Source: the Compose specification, interpolation.
    """
    open_ones = False

    def put(found: re.Match[str]) -> str:
        nonlocal open_ones
        dollar, name, kind, rest, plain = found.groups()
        if dollar:
            return "$"
        if name and kind and kind.endswith("-"):
            return str(rest)
        open_ones = True
        return f"${{{name or plain}}}"

    return _VARIABLE.sub(put, text), open_ones


def _command(service: Tree) -> str:
    """The shell line that a service runs, with its defaults."""
    parts = [service.at("entrypoint"), service.at("command")]
    words = [[each.text or "" for each in part.items()] if part.items() else [part.text or ""] for part in parts]
    return interpolated("\n".join(" ".join(each) for each in words))[0]


def _group(name: str, service: Tree, command: str, started: RayStart) -> NodeGroup:
    environment = _environment(service)
    environment |= {each: Stated(value, service.at("command").line) for each, value in variables_in(command).items()}
    options = [interpolated(each.text or "")[0] for each in service.at("security_opt").items()]
    limits = service.at("deploy", "resources", "limits")
    cpus = started.cpus if started.cpus is not None else (limits.at("cpus").number or service.at("cpus").number)
    memory = started.memory_bytes or bytes_in(limits.at("memory").text) or bytes_in(_text(service.at("mem_limit")))
    ulimits = service.at("ulimits", "nofile")
    soft = ulimits.number if ulimits.number is not None else ulimits.at("soft").number
    image = _said(service.at("image"))
    return NodeGroup(
        name=name,
        line=service.line,
        head=started.head,
        resources=started.resources,
        cpus=cpus,
        memory_bytes=memory,
        image=image if image.value is not None or not service.at("build") else None,
        environment=environment,
        reads_more=bool(service.at("env_file")),
        grace_s=_amount(service.at("stop_grace_period"), seconds_in, _GRACE_S),
        store_bytes=started.store_bytes,
        shm_bytes=_amount(service.at("shm_size"), bytes_in, bytes_in(_SHM)),
        open_files=Stated(started.open_files or soft, ulimits.line),
        lacking=_lacking(service, options),
        privileged=_privileged(service),
    )


def _environment(service: Tree) -> dict[str, Stated]:
    part = service.at("environment")
    found = {name: _said(value) for name, value in part.fields().items()}
    for item in part.items():
        name, given, value = (item.text or "").partition("=")
        text, unknown = interpolated(value)
        found[name] = Stated(None if not given or unknown else text, item.line, elsewhere=not given or unknown)
    return found


def _said(value: Tree) -> Stated:
    text, unknown = interpolated(value.text or "")
    elsewhere = unknown or not value
    return Stated(None if elsewhere else text, value.line, elsewhere=elsewhere)


def _text(value: Tree) -> str:
    return interpolated(value.text or "")[0]


def _amount(value: Tree, read: Callable[[str], float | None], usual: float | None) -> Stated:
    if not value:
        return Stated(usual, value.line)
    text, unknown = interpolated(value.text or "")
    return Stated(None if unknown else read(text), value.line, elsewhere=unknown)


def _lacking(service: Tree, options: list[str]) -> tuple[str, ...]:
    if service.at("privileged").value is True:
        return ()
    given = " ".join(options)
    return tuple(option for name, option in _NEEDED.items() if not re.search(rf"{name}[=:]unconfined", given))


def _privileged(service: Tree) -> Stated | None:
    place = service.at("privileged")
    return Stated("true", place.line) if place.value is True else None


def _health(service: Tree) -> list[Stated]:
    test = service.at("healthcheck", "test")
    if not test or service.at("healthcheck", "disable").value is True:
        return []
    line = test.text or shlex.join([each.text or "" for each in test.items()])
    found = _HEALTH.search(interpolated(line)[0])
    return [Stated(found[1] if found else None, test.line)]
