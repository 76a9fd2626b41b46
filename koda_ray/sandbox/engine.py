"""The container engine behind the Docker provider, through the Docker SDK: a few calls, each in a thread.

What the SDK raises becomes an error of ours here, and what it returns becomes a small value. ``Container`` tells apart
how one ended, since the session's next step depends on it: too much memory is a thing to tell the model, anything else
is a sandbox to make anew.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, cast

from koda_ray.errors import KodaError, Missing, SandboxError
from koda_ray.sandbox.engine_filter import asking_profile

__all__ = ["Container", "ContainerSpec", "Engine", "EngineFacts", "Image"]

_USUAL = "unix:///var/run/docker.sock"
_TIMEOUT_S = 60
_PROBE_TIMEOUT_S = 2
_DOCKER = "Engine"  # what others that speak its language (Podman) are not called, nor take a profile in the same way
_OWN_FILTER = frozenset({"name=seccomp,profile=default", "name=seccomp,profile=builtin"})  # until 22, and from then on

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """A container to make; sizes in bytes."""

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    folders: Mapping[str, str]
    """Folders of this machine and where they are seen inside, read-only."""
    watched: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files and folders of root's, the same: what nobody inside may change, and the kernel keeps when it is read."""
    tmpfs: Mapping[str, str]
    memory_bytes: int
    shm_bytes: int
    pids: int
    cpus: float
    open_files: int
    runtime: str | None = None
    asks: bool = False
    """Whether its first process wants to hear of system calls that the engine's own filter would refuse before."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """One that exists, and how it is.

    ``state`` is ``waiting`` before its start, ``out_of_memory`` when the kernel ended it for its memory limit.
    """

    name: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    state: Literal["waiting", "running", "paused", "out_of_memory", "ended"]
    exit_code: int | None = None
    error: str = ""
    id: str = ""
    pid: int = 0
    """Its first process, or its kernel, as the engine's machine numbers it."""

    @property
    def why(self) -> str:
        """Say how it is, in words."""
        if self.state == "out_of_memory":
            return "the kernel ended it because it passed its memory limit (SANDBOX_MEMORY_MB)"
        if self.state == "ended":
            return f"its first process ended with code {self.exit_code}{f': {self.error}' if self.error else ''}"
        return {"waiting": "it was never started", "paused": "somebody has paused it"}.get(self.state, "it runs")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that the engine holds."""

    id: str
    labels: Mapping[str, str]
    size_bytes: int
    made_at: datetime


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """What an engine says of itself.

    Attributes:
        id: Its own, random, the same for as long as it has its data.
        version: Its own.
        cgroup_version: ``1`` or ``2``.
        storage: Its storage driver.
        disk: What that driver's data lie on, such as ``extfs`` or ``xfs``.
        limits: Those that its kernel holds: ``memory``, ``pids``, ``cpu``.
        runtimes: The names of those that containers can be run by.
        seccomp: Whether it filters system calls.
    """

    id: str
    version: str
    cgroup_version: str
    storage: str
    disk: str
    limits: frozenset[str]
    runtimes: tuple[str, ...]
    seccomp: bool

    @property
    def keeps_disk_limits(self) -> bool:
        """Whether the storage driver can bound a container's root. Source: Docker's --storage-opt size."""
        return self.storage in ("btrfs", "zfs") or (self.storage == "overlay2" and self.disk == "xfs")


@dataclass(frozen=True, kw_only=True)
class _Habits:
    """How an engine makes containers.

    Attributes:
        group: The control group that they are to lie in; empty for the engine's own choice. Where it makes plain
            groups, all containers of the machine share one that has the weight of a single process: on a busy machine a
            build in it takes twice the time. Where systemd makes them, its slices decide.
        own_filter: Whether it is Docker, and filters their system calls by its own profile, not one that was set.
    """

    group: str
    own_filter: bool


class Engine:
    """A Docker engine.

    Args:
        address: As of DOCKER_HOST; this machine's usual one when None.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address or _USUAL
        self._client: Any = None
        self._program: tuple[tuple[object, object], bool] | None = None
        self._connecting = threading.Lock()

    @property
    def address(self) -> str:
        """Where it is, as of DOCKER_HOST."""
        return self._address

    async def create(self, spec: ContainerSpec) -> None:
        """Make a container; it does not run yet.

        Raises:
            SandboxError: PROVIDER_ERROR.
        """
        await self._do("make a container", lambda api: _create(api, spec, habits=self._habits_of(api)))

    async def start(self, name: str) -> None:
        """Start a container."""
        await self._do("start a container", lambda api: api.start(name))

    async def remove(self, name: str) -> None:
        """End a container and remove it with its anonymous volumes; nothing happens when it is not there."""
        await self._do("remove a container", lambda api: _remove(api, name))

    async def find(self, name: str) -> Container | None:
        """Look at a container; None when there is none of that name."""
        return await self._do("look at a container", lambda api: _find(api, name))

    async def names(self, label: str) -> list[str]:
        """List the names of containers, running or not, that have a label (``name=value``)."""
        found = await self._do("list containers", lambda api: api.containers(all=True, filters={"label": [label]}))
        return sorted(str(row["Names"][0]).lstrip("/") for row in found if row.get("Names"))

    async def logs(self, name: str) -> str:
        """Read the last lines that a container's first process has written."""
        data = await self._do("read a container's log", lambda api: api.logs(name, tail=20))
        return bytes(data).decode("utf-8", "replace")[-2000:]

    async def image(self, name: str) -> Image | None:
        """Look at an image; None when the engine does not hold it."""
        return await self._do("look at an image", lambda api: _image(api, name))

    async def facts(self) -> EngineFacts:
        """Ask the engine about itself.

        Raises:
            Missing: MISSING, the SDK is not installed.
            SandboxError: PROVIDER_ERROR, none answers.
        """
        return await self._do("say what it is", _facts)

    def probe(self, image: str) -> Image | None:
        """Look at an image once, as ``look``; None whatever the reason why it cannot be seen. Blocks."""
        found = self.look(image)
        return found if isinstance(found, Image) else None

    def look(self, image: str) -> Image | str:
        """Look at an image once, without waiting long; say in words why where it cannot be seen. Blocks.

        Where nobody listens on the engine's socket the SDK is not even loaded: it takes 13 MB and a tenth of a second.
        """
        try:
            _check_socket(self._address)
            client = _connect(self._address, timeout_s=_PROBE_TIMEOUT_S)
        except Missing:
            return "the Docker SDK is not installed (pip install 'koda-ray[docker]')"
        except (SandboxError, OSError):
            return f"no Docker engine answers at {self._address}"
        try:
            return _image(client.api, image) or f"the Docker engine holds no {image} (koda image build makes it)"
        except Exception as error:
            if _is_sdk_error(error):
                return f"the Docker engine at {self._address} fails: {str(error)[:200]}"
            raise
        finally:
            client.close()

    def use(self, work: Callable[[Any], T], *, doing: str) -> T:
        """Do something with the SDK's low-level client; blocks. For building images.

        Raises:
            Missing: MISSING, the SDK is not installed.
            SandboxError: PROVIDER_ERROR.
        """
        try:
            with self._connecting:
                if self._client is None:
                    self._client = _connect(self._address, timeout_s=_TIMEOUT_S)
                api = self._client.api
            return work(api)
        except Exception as error:
            if _is_sdk_error(error):
                raise SandboxError(
                    f"the Docker engine at {self._address} could not {doing}: {str(error)[:500]}; {_way_out_of(error)}",
                    context={"doing": doing},
                ) from error
            raise

    async def close(self) -> None:
        """Close connections to the engine; may be called twice."""
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(client.close)

    def _habits_of(self, api: Any) -> _Habits:
        """Ask for each container anew: whoever gives the engine another profile starts that again, and not this."""
        found = cast("dict[str, Any]", api.info())
        filtered = not _OWN_FILTER.isdisjoint(map(str, found.get("SecurityOptions") or ()))
        return _Habits(
            group="/" if found.get("CgroupDriver") == "cgroupfs" else "",
            own_filter=filtered and self._is_docker(api, (found.get("ID"), found.get("ServerVersion"))),
        )

    def _is_docker(self, api: Any, program: tuple[object, object]) -> bool:
        """Say whether what answers is Docker; asked once of each program, since it takes it as long as the rest."""
        if self._program is None or self._program[0] != program:
            version = cast("dict[str, Any]", api.version())
            self._program = (program, _DOCKER in [part.get("Name") for part in version.get("Components") or ()])
        return self._program[1]

    async def _do(self, doing: str, work: Callable[[Any], T]) -> T:
        return await asyncio.to_thread(lambda: self.use(work, doing=doing))


def _connect(address: str, *, timeout_s: int) -> Any:
    try:
        import docker
    except ImportError:
        raise Missing(
            "the Docker SDK is not installed: pip install 'koda-ray[docker]', or set SANDBOX_PROVIDER=local"
        ) from None
    module = cast("Any", docker)
    try:
        _check_socket(address)  # the SDK would leave its own open
        return module.DockerClient(base_url=address, version="auto", timeout=timeout_s)
    except Exception as error:
        if not isinstance(error, OSError) and not _is_sdk_error(error):
            raise
        raise SandboxError(
            f"no Docker engine answers at {address} ({str(error)[:300]}); start it, set DOCKER_HOST, or set "
            "SANDBOX_PROVIDER=local"
        ) from error


def _check_socket(address: str) -> None:
    scheme, _, path = address.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_TIMEOUT_S)
            probe.connect(path)


def _is_sdk_error(error: Exception) -> bool:
    if isinstance(error, KodaError):
        return False  # ours, perhaps that there is no SDK
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    return isinstance(error, DockerException | RequestException)


def _way_out_of(error: Exception) -> str:
    """Say what to do about what the SDK raised."""
    from docker.errors import APIError, ImageNotFound, NotFound

    words = str(error).lower()
    if "no space left" in words:
        return "free disk space where the engine keeps its data (docker system df, docker system prune)"
    if isinstance(error, ImageNotFound):
        return "build the image with `koda image build`, or set SANDBOX_IMAGE to one that the engine holds"
    if "unknown or invalid runtime" in words or "unknown runtime" in words:
        return "add the runtime to the engine's daemon.json, or unset SANDBOX_RUNTIME"
    if isinstance(error, NotFound):
        return "somebody has removed it meanwhile: make another"
    if isinstance(error, APIError) and error.status_code == 409:
        return "something else has that name or uses it: look with `docker ps -a`, remove it where it is yours"
    if isinstance(error, APIError):
        return "`koda doctor` says what the engine lacks, and its own log says more"
    return "see that the engine runs (`docker info`) and is not overloaded, then try again"


def _facts(api: Any) -> EngineFacts:
    found = cast("dict[str, Any]", api.info())
    driver = dict(cast("list[tuple[str, str]]", found.get("DriverStatus") or ()))
    limits = {"memory": "MemoryLimit", "pids": "PidsLimit", "cpu": "CpuCfsQuota"}
    return EngineFacts(
        id=str(found.get("ID") or ""),
        version=str(found.get("ServerVersion")),
        cgroup_version=str(found.get("CgroupVersion") or "1"),
        storage=str(found.get("Driver")),
        disk=str(driver.get("Backing Filesystem", "an unknown file system")),
        limits=frozenset(name for name, key in limits.items() if found.get(key)),
        runtimes=tuple(sorted(found.get("Runtimes") or ())),
        seccomp=any("seccomp" in str(option) for option in found.get("SecurityOptions") or ()),
    )


def _create(api: Any, spec: ContainerSpec, *, habits: _Habits) -> None:
    profile = asking_profile() if spec.asks and habits.own_filter else None
    host = api.create_host_config(
        binds=[
            *(f"{outside}:{inside}:ro" for outside, inside in spec.folders.items()),
            *(f"{outside}:{inside}:rw" for outside, inside in spec.watched.items()),
        ],
        cap_drop=["ALL"],
        cgroup_parent=habits.group or None,
        cpu_shares=int(spec.cpus * 1024),  # a process's for each processor that it may use
        dns=["127.0.0.1"],  # else the machine's own name servers are written into /etc/resolv.conf
        ipc_mode="private",
        log_config={"type": "json-file", "config": {"max-size": "64k", "max-file": "1"}},
        mem_limit=spec.memory_bytes,
        memswap_limit=spec.memory_bytes,
        nano_cpus=int(spec.cpus * 1e9),
        network_mode="none",
        pids_limit=spec.pids,
        privileged=False,
        read_only=True,
        runtime=spec.runtime,
        security_opt=["no-new-privileges", *([] if profile is None else [f"seccomp={profile}"])],
        shm_size=spec.shm_bytes,
        tmpfs=dict(spec.tmpfs),
        ulimits=[
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": spec.open_files, "Hard": spec.open_files},
        ],
    )
    api.create_container(
        spec.image,
        command=list(spec.command),
        entrypoint=[],
        environment=dict(spec.environment),
        host_config=host,
        hostname="koda",
        labels=dict(spec.labels),
        name=spec.name,
        stop_signal="SIGKILL",  # it takes no other
        user="1000:1000",
        working_dir="/",
    )


def _remove(api: Any, name: str) -> None:
    from docker.errors import APIError, NotFound

    try:
        api.remove_container(name, force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # somebody removes it already
            raise


def _find(api: Any, name: str) -> Container | None:
    from docker.errors import NotFound

    try:
        found = cast("dict[str, Any]", api.inspect_container(name))
    except NotFound:
        return None
    state, config = found["State"], found["Config"]
    pairs = (entry.partition("=") for entry in config["Env"] or ())
    return Container(
        name=name,
        labels=dict(config["Labels"] or {}),
        environment={key: value for key, _, value in pairs},
        state=_state(state),
        exit_code=int(state["ExitCode"]),
        error=str(state.get("Error") or "")[:500],
        id=str(found["Id"]),
        pid=int(state.get("Pid") or 0),
    )


def _state(state: Mapping[str, Any]) -> Literal["waiting", "running", "paused", "out_of_memory", "ended"]:
    if state["Paused"]:
        return "paused"
    if state["Running"]:
        return "running"
    if state["Status"] == "created":
        return "waiting"
    return "out_of_memory" if state["OOMKilled"] else "ended"


def _image(api: Any, name: str) -> Image | None:
    from docker.errors import NotFound

    try:
        found = cast("dict[str, Any]", api.inspect_image(name))
    except NotFound:
        return None
    return Image(
        id=str(found["Id"]),
        labels=dict(found["Config"]["Labels"] or {}),
        size_bytes=int(found["Size"]),
        made_at=datetime.fromisoformat(str(found["Created"])[:19]).replace(tzinfo=UTC),  # to the second
    )
