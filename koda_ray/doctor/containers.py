"""Docker and gVisor: whether the engine answers, which limits it keeps, and whether a sandbox really starts there."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.doctor.finding import Examination, Finding, Status
from koda_ray.errors import KodaError, Missing, SandboxError

if TYPE_CHECKING:
    from koda_ray.config import Settings
    from koda_ray.sandbox.engine import Engine, EngineFacts

__all__ = ["containers"]

_GROUP = "Isolation"
_TRIAL_TIMEOUT_S = 30.0
_BUILD = "build it: koda image build (as root with debootstrap, or with --base IMAGE)"
_GVISOR = "SANDBOX_RUNTIME=runsc puts each sandbox on a kernel of its own"
_RUNSC = '{"runtimes": {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none", "--host-uds=open"]}}}'
_ADD_RUNSC = (
    f"install runsc (Debian: apt-get install runsc), put {_RUNSC} into /etc/docker/daemon.json and restart the engine; "
    'where /dev/kvm is not there or hangs, add "--platform=ptrace"'
)


def containers(examination: Examination) -> list[Finding]:
    """Check the engine, its limits, the image and the runtime, where SANDBOX_PROVIDER lets Docker be used."""
    settings = examination.settings
    if settings.sandbox_provider not in ("auto", "docker"):
        return []
    if settings.sandbox_provider == "docker":
        return _docker(settings)
    from koda_ray.sandbox.service import choose

    choice = choose(settings)
    detail = f"{choice.name}, because {choice.why} (SANDBOX_PROVIDER=auto)"
    return [*_docker(settings), Finding(_GROUP, "Sandbox provider", "ok", detail)]


def _docker(settings: Settings) -> list[Finding]:
    from koda_ray.sandbox.engine import Engine

    asked: Status = "missing" if settings.sandbox_provider == "docker" else "ok"
    engine = Engine(settings.docker_host)
    try:
        facts = asyncio.run(_facts(engine))
    except (Missing, SandboxError) as error:
        if settings.sandbox_provider == "docker":
            remedy = "start it (Debian: apt-get install docker.io), set DOCKER_HOST, or set SANDBOX_PROVIDER=local"
            return [Finding(_GROUP, "Docker", "missing", error.message, remedy)]
        return [Finding(_GROUP, "Docker", "ok", f"not used, sandboxes are local: {error.message}")]
    detail = f"{facts.version}, cgroup v{facts.cgroup_version}, {facts.storage} on {facts.disk}"
    findings = [Finding(_GROUP, "Docker", "ok", detail), *_limits(facts, settings)]
    image = engine.probe(settings.sandbox_image)
    if image is None:
        status: Status = asked if asked == "missing" else "warning"
        return [*findings, Finding(_GROUP, "Docker image", status, f"no {settings.sandbox_image} there", _BUILD)]
    return [*findings, *_runtime(facts, settings), _trial(settings, asked)]


async def _facts(engine: Engine) -> EngineFacts:
    try:
        return await engine.facts()
    finally:
        await engine.close()


def _limits(facts: EngineFacts, settings: Settings) -> list[Finding]:
    """Say which limits of a container hold; a kernel without the controller starts it all the same, with a warning."""
    from koda_ray.sandbox.limits import ResourceLimits

    limits = ResourceLimits.of(settings)
    findings: list[Finding] = []
    for name, value in (
        ("memory", f"{limits.memory_bytes >> 20} MB"),
        ("pids", f"{limits.pids} processes"),
        ("cpu", f"{limits.cpus:g} processors"),
    ):
        label = f"Docker: limit of {name}"
        if name in facts.limits:
            findings.append(Finding(_GROUP, label, "ok", f"{value}, hard: cgroup v{facts.cgroup_version}"))
        else:
            detail = f"{value}, but the engine's kernel has no such control group"
            remedy = (
                "boot with systemd.unified_cgroup_hierarchy=1 (Raspberry Pi and others: also cgroup_enable=memory), or "
                "use another machine"
            )
            findings.append(Finding(_GROUP, label, "warning", detail, remedy))
    own = "keeps one of its own too" if facts.keeps_disk_limits else "keeps none: XFS with pquota would"
    detail = (
        f"{limits.tmpfs_bytes >> 20} MB and {limits.inodes} files, hard: a tmpfs that counts as memory, beside a "
        f"read-only root; the storage driver {facts.storage} on {facts.disk} {own}"
    )
    findings.append(Finding(_GROUP, "Docker: limit of disk", "ok", detail))
    if not facts.seccomp:
        remedy = "use an engine and a kernel with seccomp; until then only the sandbox's own filter holds"
        findings.append(Finding(_GROUP, "Docker: system calls", "warning", "the engine filters none", remedy))
    return findings


def _runtime(facts: EngineFacts, settings: Settings) -> list[Finding]:
    name, chosen = "Docker runtime", settings.sandbox_runtime
    if chosen is not None and chosen not in facts.runtimes:
        known = ", ".join(facts.runtimes)
        remedy = _ADD_RUNSC if chosen == "runsc" else f"set SANDBOX_RUNTIME to one of: {known}"
        detail = f"the engine knows no SANDBOX_RUNTIME={chosen}, only {known}"
        return [Finding(_GROUP, name, "missing", detail, remedy)]
    if chosen is not None:
        return [Finding(_GROUP, name, "ok", chosen)]
    shared = "the engine's default: sandboxes share the machine's kernel"
    if "runsc" in facts.runtimes:
        return [Finding(_GROUP, name, "ok", f"{shared}; {_GVISOR}")]
    there = " is installed and unknown to the engine" if shutil.which("runsc") else " is not installed"
    return [Finding(_GROUP, name, "ok", f"{shared}. gVisor{there}; for prompts of strangers {_ADD_RUNSC}; {_GVISOR}")]


def _trial(settings: Settings, asked: Status) -> Finding:
    """Make a sandbox, run a command in it, and put it away."""
    name = "Docker sandbox"
    with tempfile.TemporaryDirectory(prefix="koda-doctor-") as folder:
        try:
            took_s = asyncio.run(_try(settings.model_copy(update={"sandbox_path": Path(folder), "sandbox_warm": 0})))
        except (KodaError, TimeoutError) as error:
            why = error.message if isinstance(error, KodaError) else f"it did not answer in {_TRIAL_TIMEOUT_S:g} s"
            if "another version" in why:
                status: Status = "warning" if asked == "ok" else "missing"
                return Finding(_GROUP, "Docker image", status, why, _BUILD)
            remedy = "set SANDBOX_PROVIDER=local"
            if settings.sandbox_runtime == "runsc":
                remedy = f"gVisor's runtimeArgs need --host-uds=open, and may need --platform=ptrace; or {remedy}"
            return Finding(_GROUP, name, "missing", why, remedy)
    return Finding(_GROUP, name, "ok", f"{settings.sandbox_image} starts and answers in {took_s:.1f} s")


async def _try(settings: Settings) -> float:
    from koda_ray.sandbox.docker import DockerProvider
    from koda_ray.types import new_id

    provider = DockerProvider.of(settings, deployment="doctor")
    sandbox_id = new_id("sbx")
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(_TRIAL_TIMEOUT_S):
            sandbox = await provider.create(sandbox_id=sandbox_id, session_id="", user_id="")
            done = await sandbox.run(("true",))
        if done.exit_code != 0:
            raise SandboxError(f"`true` ended with {done.exit_code} there: {done.stderr[-300:]}")
        return loop.time() - began
    finally:
        await provider.destroy(sandbox_id)
        await provider.close()
