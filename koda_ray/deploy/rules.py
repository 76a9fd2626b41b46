"""What has to hold for every cluster, whichever kind of file describes it.

A rule is a function from what a file describes to what is wrong with it. Each has a reason that was paid for somewhere:
a resource that nobody offers is waited for without end, a head with work takes the cluster down with one greedy task,
a container's 64 MB of shared memory put Ray's object store on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from koda_ray.deploy.defect import Defect
from koda_ray.deploy.described import DescribedCluster, NodeGroup, Stated
from koda_ray.deploy.locked import RAY_IN_TAG, locked_ray
from koda_ray.resources import (
    ASKED,
    CAPTURE_CPUS,
    CAPTURE_MEMORY_BYTES,
    CHROMIUM_RESOURCE,
    JOIN_CPUS,
    SESSION_RESOURCE,
    URGENT_RESOURCE,
)
from koda_ray.state.many_nodes import SHARED_DATABASE, SHARED_STORAGE, not_shared

__all__ = ["AFTER_DRAIN_S", "DRAIN_S", "HEALTH_PATH", "OPEN_FILES", "RULES", "broken_rules"]

DRAIN_S = 30.0
"""How long ``ray start --block`` drains its node after SIGTERM. Source: RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S."""
AFTER_DRAIN_S = 15.0
"""What Ray's processes take to end after that, before they are killed."""
OPEN_FILES = 65_536
"""Ray's own advice for large clusters: each worker and each actor is a connection."""
HEALTH_PATH = "/-/healthz"
"""Where Serve's proxy says whether it takes requests, which no key is needed for."""
_STORE_BYTES = 512 * 1024**2
_STORE_SHARE = 0.3
_DRAIN_VARIABLE = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
_MB = 1024**2


def broken_rules(cluster: DescribedCluster) -> list[Defect]:
    """Return what is wrong with a cluster, rule by rule."""
    return [defect for rule in RULES for defect in rule(cluster)]


def _resources(cluster: DescribedCluster) -> Iterator[Defect]:
    for asked in ASKED:
        if any(group.resources.get(asked.name, 0) > 0 for group in cluster.workers):
            continue
        yield Defect(
            "resources",
            f"no group of workers offers {asked.name!r}, which the code asks for: {asked.work}",
            f"let a group offer it: {cluster.offer.format(name=asked.name)}",
            cluster.workers[0].line if cluster.workers else None,
            advice=not asked.needed,
        )


def _head(cluster: DescribedCluster) -> Iterator[Defect]:
    if len(cluster.heads) != 1 and not cluster.joins:
        found = ", ".join(group.name for group in cluster.heads) or "none"
        yield Defect("head", f"a cluster has one head, and this file has {len(cluster.heads)} ({found})", "keep one")
    for head in cluster.heads:
        offered = [asked.name for asked in ASKED if head.resources.get(asked.name, 0) > 0]
        if head.cpus != 0 or offered:
            of = "as many processors as the machine has" if head.cpus is None else f"{head.cpus:g} processors"
            also = f" and {', '.join(offered)}" if offered else ""
            yield Defect(
                "head",
                f"the head {head.name!r} offers {of}{also}, so work lands where the whole cluster is kept",
                cluster.no_work,
                head.line,
            )


def _spot(cluster: DescribedCluster) -> Iterator[Defect]:
    for group in cluster.groups:
        holds = "the head" if group.head else "sessions" if group.resources.get(SESSION_RESOURCE, 0) > 0 else None
        if group.spot and holds:
            yield Defect(
                "spot",
                f"{group.name!r} has {holds} and may be taken away by the cloud",
                "take machines on demand for it; spot machines are for renders, which begin a lost second again",
                group.line,
            )


def _notice(cluster: DescribedCluster) -> Iterator[Defect]:
    for group in cluster.groups:
        if group.unwarned is not None:
            yield Defect(
                "notice",
                f"{group.name!r} does not hear that the cloud takes a machine away: work is put there to the last",
                f"start {group.unwarned.value} in the background after ray start",
                group.unwarned.line,
                advice=True,
            )


def _fits(cluster: DescribedCluster) -> Iterator[Defect]:
    for group in cluster.workers:
        browsers = group.resources.get(CHROMIUM_RESOURCE, 0)
        pages = browsers + group.resources.get(URGENT_RESOURCE, 0)
        if group.cpus is not None and browsers * CAPTURE_CPUS > group.cpus:
            yield Defect(
                "fits",
                f"{group.name!r} offers {browsers} browsers, which ask for {browsers * CAPTURE_CPUS:g} CPU, and has "
                f"{group.cpus:g}",
                f"offer at most {int(group.cpus / CAPTURE_CPUS)} browsers there, or give it more processors",
                group.line,
            )
        if group.memory_bytes is not None and pages * CAPTURE_MEMORY_BYTES > group.memory_bytes:
            yield Defect(
                "fits",
                f"{group.name!r} offers {pages} pages at once, which ask for {pages * CAPTURE_MEMORY_BYTES // _MB} MB, "
                f"and has {int(group.memory_bytes / _MB)} MB",
                f"offer at most {int(group.memory_bytes / CAPTURE_MEMORY_BYTES)} there, or give it more memory",
                group.line,
            )
    known = [group.cpus for group in cluster.workers]
    if known and all(cpus is not None and cpus < JOIN_CPUS for cpus in known):
        yield Defect("fits", "no worker has a whole processor, which joining a video asks for", "give one group CPU: 1")


def _versions(cluster: DescribedCluster) -> Iterator[Defect]:
    ray = locked_ray()
    for said in cluster.versions:
        if not said.elsewhere and said.value != ray:
            yield Defect("ray-version", f"the file says Ray {said.value}, the lock {ray}", f"write {ray}", said.line)
    for group in cluster.groups:
        if group.image is None or (group.image.elsewhere and group.image.value is None):
            continue
        found = RAY_IN_TAG.search(str(group.image.value))
        if found is None:
            yield Defect(
                "ray-version",
                f"the image of {group.name!r} does not say which Ray it has: {group.image.value}",
                f"name it so, as cluster/README.md builds it: .../koda-node:VERSION-ray{ray}",
                group.image.line,
            )
        elif found[1] != ray:
            yield Defect(
                "ray-version",
                f"the image of {group.name!r} has Ray {found[1]}, the lock {ray}: {group.image.value}",
                f"build the image of this release, with ray{ray} in its tag; nodes of two versions do not speak",
                group.image.line,
            )


def _state(cluster: DescribedCluster) -> Iterator[Defect]:
    for group in cluster.groups:
        for variable, usual, remedy in (
            ("DATABASE_PROVIDER", "sqlite", SHARED_DATABASE),
            ("STORAGE_PROVIDER", "local", SHARED_STORAGE),
        ):
            said = group.says(variable)
            if said is not None and said.elsewhere and said.value is None:
                continue
            if said is None and group.reads_more:
                yield Defect(
                    "state",
                    f"{variable} of {group.name!r} stands where it cannot be checked",
                    f"it is no secret: {remedy.partition(' and ')[0].partition(' with ')[0]} in this file",
                    group.line,
                )
                continue
            value = usual if said is None else str(said.value)
            given = {"database": value} if variable == "DATABASE_PROVIDER" else {"storage": value}
            for what, way_out in not_shared(**given):
                not_said = f" ({variable} is not set)" if said is None else ""
                yield Defect(
                    "state",
                    f"{group.name!r}: {what}{not_said}, which other nodes do not see",
                    way_out,
                    group.line if said is None else said.line,
                )


def _settings(cluster: DescribedCluster) -> Iterator[Defect]:
    for group in cluster.groups:
        needed: list[str] = []
        database, storage = group.says("DATABASE_PROVIDER"), group.says("STORAGE_PROVIDER")
        if database is not None and database.value == "postgres":
            needed.append("DATABASE_URL")
        if database is not None and database.value == "turso":
            needed += ["TURSO_URL", "TURSO_TOKEN"]
        if storage is not None and storage.value in ("s3", "r2"):
            needed += ["R2_BUCKET", "R2_ACCESS_KEY", "R2_SECRET_KEY"]
        if not group.reads_more:
            needed.append("KODA_SIGNING_KEY")
        lacking = [name for name in needed if group.says(name) is None]
        if lacking and not group.reads_more:
            yield Defect(
                "settings",
                f"{group.name!r} lacks {', '.join(lacking)}",
                "set them on every node, from a secret or a variable, never written here",
                group.line,
            )


def _from_zero(cluster: DescribedCluster) -> Iterator[Defect]:
    comes = [group for group in cluster.workers if group.resources.get(CHROMIUM_RESOURCE, 0) > 0]
    if not comes or not all(group.from_zero for group in comes):
        return
    for group in cluster.groups:
        if group.says("KODA_BROWSERS_MAX") is None:
            yield Defect(
                "settings",
                f"{group.name!r} does not know that {comes[0].name!r} comes when there is work for it, and would "
                "refuse to render while none is there",
                "set KODA_BROWSERS_MAX on every node to how many browsers all of them come to",
                group.line,
            )


def _token(cluster: DescribedCluster) -> Iterator[Defect]:
    remedy = "without one, whoever reaches a port of Ray's runs code: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    if cluster.token is not None:
        if cluster.token.value != "token":
            remedy = "without one, whoever reaches a port of Ray's runs code: write authOptions: {mode: token}"
            yield Defect("token", "nodes of this cluster need no token", remedy, cluster.token.line)
        return
    for group in cluster.groups:
        mode = group.says("RAY_AUTH_MODE")
        if mode is None or mode.value != "token":
            line = group.line if mode is None else mode.line
            yield Defect("token", f"{group.name!r} lets every process in that reaches it", remedy, line)
        elif group.says("RAY_AUTH_TOKEN") is None and group.says("RAY_AUTH_TOKEN_PATH") is None:
            where = "set RAY_AUTH_TOKEN_PATH to a file that is put there, or RAY_AUTH_TOKEN from a variable"
            yield Defect("token", f"{group.name!r} asks for a token and has none", where, mode.line)


def _grace(cluster: DescribedCluster) -> Iterator[Defect]:
    for group, said, given_s, needed_s in _too_little(cluster, lambda group: group.grace_s, _grace_needed_s):
        yield Defect(
            "grace",
            f"{group.name!r} is killed {given_s:g} s after it was told to end, and drains for "
            f"{needed_s - AFTER_DRAIN_S:g} s",
            f"give it at least {needed_s:g} s, or a shorter drain by {_DRAIN_VARIABLE}",
            said.line,
        )


def _shm(cluster: DescribedCluster) -> Iterator[Defect]:
    for group, said, given, store in _too_little(cluster, lambda group: group.shm_bytes, _store_bytes):
        yield Defect(
            "shm",
            f"/dev/shm of {group.name!r} has {given / _MB:.0f} MB, and Ray's object store takes {store / _MB:.0f}",
            f"give it {-(-store // _MB):.0f} MB, or a smaller store (--object-store-memory), or it is on the disk",
            said.line,
        )


def _ulimit(cluster: DescribedCluster) -> Iterator[Defect]:
    for group in cluster.groups:
        if group.open_files is not None and (group.open_files.amount or 0) < OPEN_FILES:
            given = f"{group.open_files.amount:g}" if group.open_files.amount is not None else "what the system gives"
            yield Defect(
                "ulimit",
                f"processes of {group.name!r} may have {given} files open",
                f"let them have {OPEN_FILES}: ulimit -n {OPEN_FILES} before ray start, or ulimits of the container",
                group.open_files.line,
            )


def _isolation(cluster: DescribedCluster) -> Iterator[Defect]:
    for group in cluster.groups:
        if group.privileged is not None:
            yield Defect(
                "isolation",
                f"{group.name!r} is privileged: what breaks out of a sandbox there is the machine's root",
                "take that away; name spaces need seccomp and AppArmor unconfined and /proc unmasked, no more",
                group.privileged.line,
            )
        elif group.lacking and (_offers(group, CHROMIUM_RESOURCE) or _offers(group, SESSION_RESOURCE)):
            yield Defect(
                "isolation",
                f"in a container of {group.name!r} bubblewrap can make no sandbox",
                f"add {'; '.join(group.lacking)}",
                group.line,
            )


def _health(cluster: DescribedCluster) -> Iterator[Defect]:
    if cluster.health is None:
        return
    if not cluster.health:
        yield Defect("health", "nobody asks whether the server takes requests", f"ask for {HEALTH_PATH} on its port")
    for said in cluster.health:
        if said.value != HEALTH_PATH:
            yield Defect(
                "health",
                f"health is asked at {said.value or 'no path'}",
                f"ask for {HEALTH_PATH}: Serve's proxy answers there, without a key, and not while it drains",
                said.line,
            )


def _too_little(
    cluster: DescribedCluster, given: Callable[[NodeGroup], Stated | None], needed: Callable[[NodeGroup], float]
) -> Iterator[tuple[NodeGroup, Stated, float, float]]:
    """Find the groups that say a smaller amount of something than they need; yields both amounts too.

    Nothing is known of those that do not say it, nor where it is said elsewhere.
    """
    for group in cluster.groups:
        said = given(group)
        if said is None or (said.elsewhere and said.value is None):
            continue
        amount, least = said.amount or 0.0, needed(group)
        if amount < least:
            yield group, said, amount, least


def _grace_needed_s(group: NodeGroup) -> float:
    said = group.says(_DRAIN_VARIABLE)
    drain_s = _number(said.value) if said is not None else None
    return (DRAIN_S if drain_s is None else drain_s) + AFTER_DRAIN_S


def _store_bytes(group: NodeGroup) -> float:
    """How much memory Ray's object store takes of a group's node."""
    return group.store_bytes or (_STORE_BYTES if group.memory_bytes is None else _STORE_SHARE * group.memory_bytes)


def _offers(group: NodeGroup, resource: str) -> bool:
    return group.resources.get(resource, 0) > 0


def _number(value: str | float | None) -> float | None:
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


RULES: tuple[Callable[[DescribedCluster], Iterable[Defect]], ...] = (
    _resources, _head, _spot, _notice, _fits, _versions, _state, _settings, _from_zero, _token, _grace, _shm,
    _ulimit, _isolation, _health,
)  # fmt: skip
"""All of them, in the order in which they are told."""
