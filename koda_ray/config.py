"""Settings from the environment, checked against each other when the program starts.

Variable names are the deployment guide's (``STORAGE_PROVIDER``, ``DATABASE_PATH`` and so on); what is ours alone starts
with ``KODA_``. With nothing set, everything runs on this machine: SQLite, local disk, the local sandbox and the
offline director.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from koda_ray.errors import InvalidInput

__all__ = ["DEFAULT_MODEL", "REPO_ROOT", "SECRETS", "Settings", "data_dir"]

REPO_ROOT = Path(__file__).resolve().parent.parent
DEFAULT_MODEL = "claude-sonnet-5-5"


def data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where everything lies that no setting puts elsewhere: ``KODA_DATA_DIR``, or ``data`` in the current folder."""
    found = os.environ if environment is None else environment
    return Path(found.get("KODA_DATA_DIR") or "data")


class Settings(BaseSettings):
    """Every setting of koda_ray. Durations in seconds, sizes in the unit their name ends with."""

    model_config = SettingsConfigDict(
        env_file=os.environ.get("KODA_ENV_FILE", ".env"), extra="ignore", populate_by_name=True, frozen=True
    )

    storage_provider: Literal["local", "r2", "s3"] = Field("local", validation_alias="STORAGE_PROVIDER")
    storage_path: Path = Field(default_factory=lambda: data_dir() / "storage", validation_alias="STORAGE_PATH")
    r2_bucket: str | None = Field(None, validation_alias="R2_BUCKET")
    r2_endpoint: str | None = Field(None, validation_alias="R2_ENDPOINT")
    r2_access_key: SecretStr | None = Field(None, validation_alias="R2_ACCESS_KEY")
    r2_secret_key: SecretStr | None = Field(None, validation_alias="R2_SECRET_KEY")

    database_provider: Literal["sqlite", "turso", "postgres"] = Field("sqlite", validation_alias="DATABASE_PROVIDER")
    database_path: Path = Field(default_factory=lambda: data_dir() / "koda.db", validation_alias="DATABASE_PATH")
    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    turso_url: str | None = Field(None, validation_alias="TURSO_URL")
    turso_token: SecretStr | None = Field(None, validation_alias="TURSO_TOKEN")

    sandbox_provider: Literal["local"] = Field("local", validation_alias="SANDBOX_PROVIDER")
    sandbox_path: Path = Field(default_factory=lambda: data_dir() / "sandboxes", validation_alias="SANDBOX_PATH")
    sandbox_local_unsafe: bool = Field(False, validation_alias="SANDBOX_LOCAL_UNSAFE")
    sandbox_memory_mb: int = Field(2048, ge=256, validation_alias="SANDBOX_MEMORY_MB")
    sandbox_pids: int = Field(256, ge=32, validation_alias="SANDBOX_PIDS")
    sandbox_disk_mb: int = Field(1024, ge=64, validation_alias="SANDBOX_DISK_MB")
    template_path: Path = Field(REPO_ROOT / "sandbox_image" / "template", validation_alias="KODA_TEMPLATE_PATH")
    node_modules_path: Path = Field(
        REPO_ROOT / ".koda" / "template" / "node_modules", validation_alias="KODA_NODE_MODULES_PATH"
    )

    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: str | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    director: Literal["auto", "offline", "anthropic"] = Field("auto", validation_alias="KODA_DIRECTOR")
    orchestrator_model: str = Field(DEFAULT_MODEL, validation_alias="KODA_ORCHESTRATOR_MODEL")
    codegen_model: str = Field(DEFAULT_MODEL, validation_alias="KODA_CODEGEN_MODEL")

    host: str = Field("127.0.0.1", validation_alias="KODA_HOST")
    port: int = Field(8420, ge=0, le=65535, validation_alias="KODA_PORT")
    preview_port: int = Field(8421, ge=0, le=65535, validation_alias="KODA_PREVIEW_PORT")
    api_keys: SecretStr | None = Field(None, validation_alias="KODA_API_KEYS")
    signing_key: SecretStr | None = Field(None, validation_alias="KODA_SIGNING_KEY")
    max_body_mb: int = Field(64, ge=1, validation_alias="KODA_MAX_BODY_MB")

    ray_address: str | None = Field(None, validation_alias="KODA_RAY_ADDRESS")
    chromium_path: Path | None = Field(None, validation_alias="KODA_CHROMIUM_PATH")
    render_workers: int | None = Field(None, ge=1, le=512, validation_alias="KODA_RENDER_WORKERS")
    render_memory_mb: int | None = Field(None, ge=256, validation_alias="KODA_RENDER_MEMORY_MB")
    page_ready_timeout_s: float = Field(30.0, gt=0, validation_alias="KODA_PAGE_READY_TIMEOUT_S")

    idle_timeout_s: float = Field(300.0, gt=0, validation_alias="KODA_IDLE_TIMEOUT_S")
    sandbox_linger_s: float = Field(300.0, gt=0, validation_alias="KODA_SANDBOX_LINGER_S")
    heartbeat_s: float = Field(30.0, gt=0, validation_alias="KODA_HEARTBEAT_S")
    debounce_s: float = Field(5.0, ge=0, validation_alias="KODA_DEBOUNCE_S")
    lease_s: float = Field(4.0, gt=0, validation_alias="KODA_LEASE_S")
    janitor_s: float = Field(1.0, gt=0, validation_alias="KODA_JANITOR_S")
    keep_units_days: float = Field(7.0, ge=1, validation_alias="KODA_KEEP_UNITS_DAYS")
    keep_pages_days: float = Field(30.0, ge=1, validation_alias="KODA_KEEP_PAGES_DAYS")

    @model_validator(mode="after")
    def _cross_check(self) -> Self:
        if self.storage_provider != "local" and not (self.r2_bucket and self.r2_access_key and self.r2_secret_key):
            raise InvalidInput(
                f"STORAGE_PROVIDER={self.storage_provider} needs R2_BUCKET, R2_ACCESS_KEY and R2_SECRET_KEY; "
                "set them, or leave STORAGE_PROVIDER out to store on local disk"
            )
        if self.database_provider == "postgres" and self.database_url is None:
            raise InvalidInput("DATABASE_PROVIDER=postgres needs DATABASE_URL (postgresql+psycopg://...)")
        if self.database_provider == "turso" and not self.turso_url:
            raise InvalidInput("DATABASE_PROVIDER=turso needs TURSO_URL (libsql://...)")
        if self.director == "anthropic" and self.anthropic_api_key is None:
            raise InvalidInput(
                "KODA_DIRECTOR=anthropic needs ANTHROPIC_API_KEY; or leave it out for the offline director"
            )
        return self

    @cached_property
    def uses_offline_director(self) -> bool:
        """Whether the agents run on the fixed-vocabulary director instead of a model."""
        return self.director == "offline" or (self.director == "auto" and self.anthropic_api_key is None)


SECRETS = tuple(
    str(field.validation_alias) for field in Settings.model_fields.values() if field.annotation == SecretStr | None
)
"""The variables that hold secrets."""
