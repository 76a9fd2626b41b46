"""Settings, and the places they name: the database, storage and ports are really opened."""

from __future__ import annotations

import asyncio
import difflib
import socket
import sqlite3
import uuid
from contextlib import closing, suppress
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from urllib.request import urlopen

from pydantic import SecretStr

from koda_ray.agent.named_hooks import NamedHooks
from koda_ray.config import SERVER_OWNED, Settings
from koda_ray.doctor.finding import Examination, Finding
from koda_ray.errors import KodaError
from koda_ray.llm.registry import missing_extras
from koda_ray.wire import Health

__all__ = ["agents", "load_settings", "ports", "settings", "stores"]

_SETTINGS = "Settings"
_PLACES = "Places"
# Read by the launcher, the client, a running server and the tests; not part of Settings.
_OTHERS = frozenset(
    {
        SERVER_OWNED,
        "KODA_API_KEY",
        "KODA_BASE",
        "KODA_COMMAND",
        "KODA_DATA_DIR",
        "KODA_DISK_BYTES",
        "KODA_DISK_NOTE",
        "KODA_ENV_FILE",
        "KODA_LOGS",
        "KODA_OWNER_FOLDER",
        "KODA_OWNER_SECRET",
        "KODA_PROCESS",
        "KODA_PACKAGES",
        "KODA_RUNFILE",
        "KODA_SANDBOX_PROCESS",
        "KODA_SERVER",
        "KODA_SERVER_MARK",
        "KODA_SKIP_SYSTEM",
        "KODA_TEMPLATE",
        "KODA_TEST_REQUIRE",
        "KODA_TEST_RUN",
        "KODA_TEST_SEED",
    }
)
_HEALTH_TIMEOUT_S = 2.0
_HEALTH_BYTES = 4096
_STORAGE_TIMEOUT_S = 10.0
_DATABASE_TIMEOUT_S = 2.0


def load_settings() -> tuple[Settings, list[Finding]]:
    """Return the settings, or the defaults and what is wrong with the real ones."""
    try:
        return Settings(), []
    except KodaError as error:
        problems = [
            Finding(_SETTINGS, name, "missing", str(why), "correct it, or leave it out for the default")
            for name, why in error.context.items()
            if name in _variables()
        ] or [Finding(_SETTINGS, "cross-check", "missing", error.message, "correct the settings it names")]
    return Settings.model_construct(), problems


def _variables() -> set[str]:
    return {str(field.validation_alias) for field in Settings.model_fields.values()}


def settings(examination: Examination) -> list[Finding]:
    """Show which keys are set (never what they are), and name variables that look like settings and are none."""
    values = examination.settings
    keys = {
        str(field.validation_alias): getattr(values, name)
        for name, field in Settings.model_fields.items()
        if "SecretStr" in str(field.annotation)
    }
    shown = ", ".join(f"{name} {'set' if isinstance(value, SecretStr) else 'unset'}" for name, value in keys.items())
    findings = [Finding(_SETTINGS, "keys", "ok", shown)]
    known = _variables() | _OTHERS
    for name in sorted(examination.environment):
        if name.startswith("KODA_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "remove it"
            findings.append(Finding(_SETTINGS, name, "warning", "is not a setting and has no effect", remedy))
    if not _is_loopback(values.host) and values.api_keys is None:
        detail = f"KODA_HOST={values.host} can be reached by other machines and KODA_API_KEYS is unset"
        remedy = "the server starts only with keys: set KODA_API_KEYS, or leave KODA_HOST out to stay on this machine"
        findings.append(Finding(_SETTINGS, "access", "warning", detail, remedy))
    return findings


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def agents(examination: Examination) -> list[Finding]:
    """Say who writes the animations, and who is heard while they do."""
    return [*_directors(examination.settings), *_hooks(examination.settings)]


def _hooks(values: Settings) -> list[Finding]:
    if not values.hook_names:
        return []
    try:
        NamedHooks(values.hook_names)
    except KodaError as error:
        return [Finding(_SETTINGS, "hooks", "missing", error.message, "correct KODA_HOOKS, or leave it out")]
    return [Finding(_SETTINGS, "hooks", "ok", ", ".join(values.hook_names))]


def _directors(values: Settings) -> list[Finding]:
    if values.uses_offline_director:
        detail = "offline director: fixed vocabulary, no model"
        return [Finding(_SETTINGS, "agents", "ok", f"{detail} (set ANTHROPIC_API_KEY for Claude, or KODA_DIRECTOR)")]
    models = ", ".join(dict.fromkeys(model for _, model in values.models))
    if lacking := missing_extras(values):
        remedy = f"pip install 'koda-ray[{','.join(lacking)}]'"
        detail = f"{models}: the packages of the extras {', '.join(lacking)} are not installed"
        return [Finding(_SETTINGS, "agents", "missing", detail, remedy)]
    return [Finding(_SETTINGS, "agents", "ok", models)]


def stores(examination: Examination) -> list[Finding]:
    """Check database and storage, one after the other: both may make the same folder, and remove what they made."""
    return [*_database(examination), *_storage(examination)]


def _database(examination: Examination) -> list[Finding]:
    """Write to the database's disk and sync it, in the mode that the store uses."""
    values = examination.settings
    name = "database"
    if values.json_store_path is not None:
        detail = f"{values.json_store_path} is a JSON store, for one process: no server can use it"
        return [Finding(_PLACES, name, "warning", detail, "leave DATABASE_URL out for SQLite")]
    if values.database_provider != "sqlite":
        return [Finding(_PLACES, name, "ok", f"{values.database_provider} (opened when the server starts)")]
    path = values.database_path
    created = _missing_folders(path.parent)
    probe = path.parent / f".koda-doctor-{uuid.uuid4().hex}.db"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(probe)) as connection:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            with connection:
                connection.execute("CREATE TABLE probe (value INTEGER)")
        if path.exists():
            with path.open("r+b"), closing(sqlite3.connect(path, timeout=_DATABASE_TIMEOUT_S)) as connection:
                connection.execute("PRAGMA schema_version").fetchone()
    except (OSError, sqlite3.Error) as error:
        remedy = "make that folder writable, or set DATABASE_PATH"
        return [Finding(_PLACES, name, "missing", f"{path} cannot be written: {error}", remedy)]
    finally:
        for leftover in (probe, probe.with_name(f"{probe.name}-wal"), probe.with_name(f"{probe.name}-shm")):
            with suppress(OSError):
                leftover.unlink()
        _remove_empty(created)
    if mode != "wal":
        detail = f"{path}: this disk does not take SQLite's WAL mode (it answered {mode})"
        return [Finding(_PLACES, name, "warning", detail, "set DATABASE_PATH to a local disk")]
    return [Finding(_PLACES, name, "ok", str(path))]


def _storage(examination: Examination) -> list[Finding]:
    """Write an object, read it back and remove it."""
    from koda_ray.state.storage import Storage

    values = examination.settings
    created = _missing_folders(values.storage_path)
    where = Storage.from_settings(values)
    key = f"doctor/{uuid.uuid4().hex}"

    async def trial() -> bytes:
        async with asyncio.timeout(_STORAGE_TIMEOUT_S):
            await where.put(key, b"koda")
            try:
                return await where.get(key)
            finally:
                await where.delete(key)

    try:
        read = asyncio.run(trial())
    except (KodaError, TimeoutError, ImportError) as error:
        remedy = "make it writable, or correct STORAGE_PROVIDER, STORAGE_PATH and the R2 settings"
        return [Finding(_PLACES, "storage", "missing", f"{where.url}: {error or 'no answer in time'}", remedy)]
    finally:
        if where.is_local:
            root = Path(where.url)
            for folder in (root / "doctor", root / ".tmp"):
                _remove_empty([folder])
            _remove_empty(created)
    if read != b"koda":
        return [Finding(_PLACES, "storage", "missing", f"{where.url} gave back other bytes", "look at its disk")]
    return [Finding(_PLACES, "storage", "ok", where.url)]


def _missing_folders(path: Path) -> list[Path]:
    """The folders that making this one would make, innermost first."""
    return [place for place in (path, *path.parents) if not place.exists()]


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def ports(examination: Examination) -> list[Finding]:
    """Check that the two ports are free, or already ours."""
    values = examination.settings
    ours = _version_of_server(values.host, values.port)
    return [
        _port(values.host, values.port, "port", "KODA_PORT", ours),
        _port(values.host, values.preview_port, "preview port", "KODA_PREVIEW_PORT", ours),
    ]


def _port(host: str, port: int, name: str, variable: str, ours: str | None) -> Finding:
    if port == 0:
        return Finding(_PLACES, name, "ok", "any free one")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        if ours is not None:
            return Finding(_PLACES, name, "ok", f"{port}: a koda server {ours} is running here")
        detail = f"{host}:{port}: {error.strerror or error}"
        return Finding(_PLACES, name, "warning", detail, f"end what listens there, or set {variable} to another port")
    return Finding(_PLACES, name, "ok", f"{port} is free")


def _version_of_server(host: str, port: int) -> str | None:
    """The version of the koda server that answers there; None when nobody does, or somebody else."""
    name = f"[{host}]" if ":" in host else host
    try:
        with urlopen(f"http://{name}:{port}/v1/health", timeout=_HEALTH_TIMEOUT_S) as answer:
            return Health.model_validate_json(answer.read(_HEALTH_BYTES)).version
    except (OSError, ValueError, HTTPException):
        return None
