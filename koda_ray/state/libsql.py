"""SQLAlchemy's SQLite dialect on a libSQL server: ``sqlite+libsql://HOST[:PORT][?authToken=TOKEN&secure=true]``."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIModule

from koda_ray.state import hrana

__all__ = ["LibsqlDialect"]


class LibsqlDialect(SQLiteDialect):
    """SQLite's words, and the server's way of taking them."""

    driver = "libsql"
    default_paramstyle = hrana.paramstyle
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> DBAPIModule:
        """Return the driver."""
        return cast("DBAPIModule", hrana)

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """Read the server's address and token."""
        scheme = "https" if url.query.get("secure") == "true" else "http"
        port = f":{url.port}" if url.port else ""
        return [f"{scheme}://{url.host}{port}"], {"token": url.query.get("authToken")}

    def _get_server_version_info(self, connection: object) -> tuple[int, int, int]:
        return hrana.sqlite_version_info

    def get_default_isolation_level(self, dbapi_conn: object) -> Any:
        """Return the one that there is."""
        return "SERIALIZABLE"

    def is_disconnect(self, e: Exception, connection: object, cursor: object) -> bool:
        """Whether a connection is of no more use: never, each statement or transaction finds its own way."""
        return False
