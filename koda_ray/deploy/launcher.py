"""Files of Ray's cluster launcher (`ray up`), for AWS, GCP and machines of one's own."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from koda_ray.deploy.amounts import bytes_in
from koda_ray.deploy.defect import Defect
from koda_ray.deploy.described import DescribedCluster, NodeGroup, Stated
from koda_ray.deploy.ray_command import RayStart, find_ray_start, variables_in
from koda_ray.deploy.ray_reads import read_launcher
from koda_ray.deploy.yaml_tree import Tree
from koda_ray.errors import InvalidInput

__all__ = ["check_launcher", "describe_launcher"]

_FINDS_MEMORY = ("aws", "local")
"""Where Ray finds out by itself how much memory a machine has that does not run yet, or no machine is started."""
_NEEDED_OPTIONS = {
    "seccomp": "--security-opt seccomp=unconfined",
    "apparmor": "--security-opt apparmor=unconfined",
    "systempaths": "--security-opt systempaths=unconfined",
}
_WAITS = "koda cluster drain-on-notice"
_ONE = re.compile(r"(?<!env -u OMP_NUM_THREADS )\bnproc\b(?! --all)")
_FAILURES, _NEWER = "AUTOSCALER_MAX_NUM_FAILURES", "RAY_enable_autoscaler_v2"


def check_launcher(tree: Tree) -> tuple[DescribedCluster | None, list[Defect]]:
    """Read a launcher's file: what it describes, if Ray takes it, and what is wrong with it as such a file."""
    prepared, refused = read_launcher(tree)
    if refused:
        return None, refused
    try:
        cluster = describe_launcher(tree, prepared)
    except InvalidInput as error:
        return None, [Defect("command", error.message, "correct the command", tree.at("head_start_ray_commands").line)]
    return cluster, [*_own_rules(tree, cluster)]


def describe_launcher(tree: Tree, prepared: Mapping[str, Any]) -> DescribedCluster:
    """Say what a launcher's file describes.

    Args:
        tree: The file.
        prepared: The same with Ray's defaults.

    Raises:
        InvalidInput: A command that starts Ray cannot be read.
    """
    local = tree.at("provider", "type").value == "local"
    groups = _own_machines(tree) if local else _node_types(tree, prepared)
    offer = (
        """--resources='{{"{name}": 8}}' with ray start in worker_start_ray_commands"""
        if local
        else """resources: {{"{name}": 8}} in its node type"""
    )
    no_work = "start it with ray start --head --num-cpus=0" if local else "write resources: {CPU: 0} in its node type"
    return DescribedCluster(groups=groups, offer=offer, no_work=no_work)


def _node_types(tree: Tree, prepared: Mapping[str, Any]) -> tuple[NodeGroup, ...]:
    head = str(prepared["head_node_type"])
    found: list[NodeGroup] = []
    for name, kind in tree.at("available_node_types").fields().items():
        is_head = name == head
        offered = {each: int(amount.number or 0) for each, amount in kind.at("resources").fields().items()}
        cpus = offered.pop("CPU", None)
        memory = offered.pop("memory", None)
        found.append(
            _group(
                tree, kind, name=name, head=is_head, started=_started(tree, head=is_head),
                resources=offered, cpus=cpus, memory_bytes=memory, spot=(spot := _is_spot(kind.at("node_config"))),
                unwarned=_unwarned(tree) if spot and not is_head else None,
                from_zero=not is_head and not kind.at("min_workers").number,
            )
        )  # fmt: skip
    return tuple(found)


def _own_machines(tree: Tree) -> tuple[NodeGroup, ...]:
    found: list[NodeGroup] = []
    for name, head in (("head", True), ("workers", False)):
        started = _started(tree, head=head)
        place = tree.at("provider", "head_ip" if head else "worker_ips")
        said = started or RayStart(head=head)
        found.append(
            _group(
                tree, place, name=name, head=head, started=started,
                resources=said.resources, cpus=said.cpus, memory_bytes=said.memory_bytes, spot=False,
            )
        )  # fmt: skip
    return tuple(found)


def _group(tree: Tree, place: Tree, *, head: bool, started: RayStart | None, **rest: Any) -> NodeGroup:
    options = _options(tree, place, head=head)
    commands = tree.at(_commands_key(head))
    environment = _environment(options, commands)
    limit = started.open_files if started else None
    ulimit = re.search(r"nofile=(\d+)", " ".join(options))
    docker = tree.at("docker")
    image = _image(tree, place, head=head) if docker.at("image") or _image(tree, place, head=head) else None
    return NodeGroup(
        line=place.line,
        head=head,
        image=image,
        environment=environment,
        reads_more="KODA_ENV_FILE" in environment,
        store_bytes=started.store_bytes if started else None,
        shm_bytes=_shm(options, docker) if image else None,
        open_files=Stated(limit or (float(ulimit[1]) if ulimit else None), commands.line),
        lacking=_lacking(options) if image else (),
        privileged=Stated("true", docker.line) if "--privileged" in options else None,
        **rest,
    )


def _image(tree: Tree, place: Tree, *, head: bool) -> Stated | None:
    docker = tree.at("docker")
    own = docker.at("head_image") if head else (place.at("docker", "worker_image") or docker.at("worker_image"))
    said = own or docker.at("image")
    return Stated(said.text, said.line) if said.text else None


def _options(tree: Tree, place: Tree, *, head: bool) -> list[str]:
    docker = tree.at("docker")
    own = [docker.at("head_run_options")] if head else [
        docker.at("worker_run_options"), place.at("docker", "worker_run_options")
    ]  # fmt: skip
    lines = [option.text or "" for part in (docker.at("run_options"), *own) for option in part.items()]
    return [word for line in lines for word in shlex.split(line)]


def _environment(options: list[str], commands: Tree) -> dict[str, Stated]:
    found: dict[str, Stated] = {}
    for place, word in enumerate(options):
        if word in ("-e", "--env") and place + 1 < len(options):
            name, given, value = options[place + 1].partition("=")
            found[name] = _said(value if given else None, commands)
        elif word.startswith("--env="):
            name, given, value = word.removeprefix("--env=").partition("=")
            found[name] = _said(value if given else None, commands)
    for command in commands.items():
        found |= {name: _said(value, command) for name, value in variables_in(command.text or "").items()}
    return found


def _said(value: str | None, place: Tree) -> Stated:
    elsewhere = value is None or value.startswith("$")
    return Stated(None if elsewhere else value, place.line, elsewhere=elsewhere)


def _started(tree: Tree, *, head: bool) -> RayStart | None:
    found = [find_ray_start(command.text or "") for command in tree.at(_commands_key(head)).items()]
    return next((each for each in found if each is not None), None)


def _commands_key(head: bool) -> str:
    return "head_start_ray_commands" if head else "worker_start_ray_commands"


def _shm(options: list[str], docker: Tree) -> Stated | None:
    """What a container has; None where Ray gives it what the store takes, as it does unless it is told not to."""
    given = next((word for word in options if word.startswith("--shm-size")), None)
    if given is None and docker.at("disable_shm_size_detection").value is not True:
        return None
    after = options[options.index(given) + 1] if given == "--shm-size" and given != options[-1] else ""
    size = (given or "").partition("=")[2] or after
    return Stated(bytes_in(size or "64m"), docker.line)


def _lacking(options: list[str]) -> tuple[str, ...]:
    given = " ".join(options)
    if "--privileged" in options:
        return ()
    return tuple(
        f'"{option}" to docker.run_options' for name, option in _NEEDED_OPTIONS.items()
        if not re.search(rf"{name}[=:]unconfined", given)
    )  # fmt: skip


def _is_spot(config: Tree) -> bool:
    """Whether AWS or GCP may take such a machine away."""
    if config.at("InstanceMarketOptions", "MarketType").value == "spot":
        return True
    parts = config.at("scheduling").items() or [config.at("scheduling")]
    return any(part.at("preemptible").value is True or part.at("provisioningModel").value == "SPOT" for part in parts)


def _unwarned(tree: Tree) -> Stated | None:
    """Where it should be, and is not, that workers wait for their cloud's notice."""
    commands = tree.at(_commands_key(head=False))
    waits = any(_WAITS in (command.text or "") for command in commands.items())
    return None if waits else Stated(_WAITS, commands.line)


def _own_rules(tree: Tree, cluster: DescribedCluster) -> list[Defect]:
    found = [*_head_rules(tree, cluster), *_mounted_files(tree)]
    for name, kind in tree.at("available_node_types").fields().items():
        offered = set(kind.at("resources").fields()) - {"CPU"}
        if tree.at("provider", "type").value not in _FINDS_MEMORY and offered and "memory" not in offered:
            found.append(
                Defect(
                    "fits",
                    f"the autoscaler does not know the memory of {name!r}, which tasks ask for: it starts none",
                    "write memory: BYTES among its resources, what Ray may give away",
                    kind.at("resources").line,
                )
            )
        spot = _is_spot(kind.at("node_config"))
        if spot and (kind.at("min_workers").number or 0) > 0:
            found.append(
                Defect(
                    "scale-to-zero",
                    f"{name!r} keeps {kind.at('min_workers').text} machines when there is nothing to render",
                    "write min_workers: 0; the first render brings them",
                    kind.at("min_workers").line,
                    advice=True,
                )
            )
    return found


def _head_rules(tree: Tree, cluster: DescribedCluster) -> Iterator[Defect]:
    local = tree.at("provider", "type").value == "local"
    started = _started(tree, head=True)
    line = tree.at(_commands_key(head=True)).line
    for head in cluster.heads:
        failures, newer = head.says(_FAILURES), head.says(_NEWER)
        if failures is None or failures.value != "inf":
            yield Defect(
                "autoscaler",
                f"the autoscaler of {head.name!r} ends for good after five failures in a row",
                f"set {_FAILURES}=inf for it: machines that are not to be had for an hour are no reason to stop",
                line,
            )
        if local and (newer is None or newer.value != "0"):
            yield Defect(
                "autoscaler",
                "the autoscaler that ray up asks for counts the head among the workers: one of them is not started",
                f"write {_NEWER}=0 before ray start --head",
                line,
            )
    for group in cluster.workers if local else ():
        command = tree.at(_commands_key(head=False))
        if any(_ONE.search(each.text or "") for each in command.items()):
            yield Defect(
                "fits",
                f"nproc says 1 on {group.name!r}, whatever they have: it goes by OMP_NUM_THREADS, which ray up sets",
                "write env -u OMP_NUM_THREADS nproc",
                command.line,
            )
    if started is not None and started.reports:
        yield Defect(
            "reports",
            "ray up has the head tell Ray's makers how it is used, whatever the image says of that",
            "give its ray start --disable-usage-stats",
            line,
        )


def _mounted_files(tree: Tree) -> Iterator[Defect]:
    """What containers have of a file is what it was when they were started, even where it is copied anew."""
    if not tree.at("docker").value:
        return
    for target, source in tree.at("file_mounts").fields().items():
        if os.path.isfile(os.path.expanduser(source.text or "")):
            yield Defect(
                "file-mounts",
                f"{target} is a file: a node's container goes on with the one that it was started with",
                "mount the folder that it is in, which ray up brings up to date",
                source.line,
                advice=True,
            )
