"""A database on a libSQL server (sqld, Turso), over its HTTP protocol, as a DB-API module for SQLAlchemy.

Of our own, because the server's own package for Python holds the interpreter while it waits for the network: a write
that waits for another process's would stop the whole event loop for as long. A statement by itself is one request;
a transaction is a stream of the server's, which a token leads from request to request, and the statements of an
``executemany`` are one request together. A stream that nobody uses for some seconds is ended by the server, which
rolls back, so a client that dies holds nothing.

Source: PEP 249; Hrana 2 over HTTP, libSQL's docs/HTTP_V2_SPEC.md and docs/HRANA_2_SPEC.md.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

import httpx

from koda_ray.state.silence import ANSWER_S, CONNECT_S

__all__ = [
    "Cursor",
    "DatabaseError",
    "Error",
    "HranaConnection",
    "IntegrityError",
    "InterfaceError",
    "NoAnswer",
    "OperationalError",
    "ProgrammingError",
    "apilevel",
    "connect",
    "paramstyle",
    "sqlite_version_info",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"
sqlite_version_info = (3, 44, 0)
"""What libSQL is based on, at least: SQLAlchemy asks it which words may be used."""

_TIMEOUT = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
_BEGIN = "BEGIN"
_REPEATABLE = ("SELECT", "PRAGMA", _BEGIN)
_FOREIGN_KEYS = ("PRAGMA foreign_keys = ON", "PRAGMA foreign_keys = OFF")
_SAID_CHARS = 300

Value = None | int | float | str | bytes


class Error(Exception):
    """What went wrong; as PEP 249 has it."""


class InterfaceError(Error):
    """It was used in a wrong way."""


class DatabaseError(Error):
    """The database refused."""


class OperationalError(DatabaseError):
    """The server or the way to it failed."""


class NoAnswer(OperationalError):
    """The server said nothing, or could not be reached."""


class IntegrityError(DatabaseError):
    """Rows would not fit together."""


class ProgrammingError(DatabaseError):
    """The statement is wrong."""


def connect(url: str, *, token: str | None = None, timeout_s: float | None = None) -> HranaConnection:
    """Make a connection; nothing is sent yet.

    Args:
        url: The server, ``http://`` or ``https://``.
        token: Its bearer token.
        timeout_s: Longest wait for an answer; `silence.ANSWER_S` when None.
    """
    return HranaConnection(url, token=token, timeout_s=timeout_s)


class HranaConnection:
    """One user of the server; used by one thread at a time."""

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float | None = None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        timeout = _TIMEOUT if timeout_s is None else httpx.Timeout(timeout_s)
        # a context for TLS costs tens of milliseconds, which plain HTTP need not pay
        self._client = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, verify=url.startswith("https:"), follow_redirects=False
        )
        self._home = url
        self._baton: str | None = None
        self._in_transaction = False
        self._foreign_keys = _FOREIGN_KEYS[0]

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and not ended."""
        return self._in_transaction

    def cursor(self) -> Cursor:
        """Make a cursor."""
        return Cursor(self)

    def commit(self) -> None:
        """End the transaction; nothing happens where there is none.

        Raises:
            OperationalError: The server did not say that it is committed; whether it is, a look at the rows tells.
        """
        if self._in_transaction:
            self._end("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction; nothing happens where there is none."""
        if self._in_transaction:
            with suppress(OperationalError):  # the stream is gone, or soon is, and its transaction with it
                self._end("ROLLBACK")

    def close(self) -> None:
        """Undo what is open and close the connections; may be called twice."""
        self.rollback()
        self._client.close()

    def run(self, sql: str, rows: Sequence[Sequence[Value]]) -> list[dict[str, Any]]:
        """Run a statement once for each row of parameters; return the server's results.

        Raises:
            IntegrityError: Rows would not fit together.
            ProgrammingError: The statement is wrong.
            OperationalError: The server or the way to it failed.
        """
        word = sql.lstrip()[:6].upper()
        if not self._in_transaction and sql in _FOREIGN_KEYS:
            self._foreign_keys = sql  # of the transactions to come
            return [{"cols": [], "rows": [], "affected_row_count": 0, "last_insert_rowid": None}]
        if not self._in_transaction and word.startswith(_BEGIN):
            # a stream begins without them, and they cannot be turned on inside of a transaction
            results = self._send([_execute(self._foreign_keys), _execute(sql)], again=True)
            try:
                begun = _result(results[-1])
            except DatabaseError:
                self._forget()
                raise
            self._in_transaction = True
            return [begun]
        if self._in_transaction and self._baton is None:
            raise OperationalError("the transaction was lost with the connection; nothing of it is kept")
        if len(rows) == 1:
            requests = [_execute(sql, rows[0])]
        else:
            steps = [
                {"stmt": _statement(sql, row), "condition": {"type": "ok", "step": number - 1} if number else None}
                for number, row in enumerate(rows)
            ]
            requests = [{"type": "batch", "batch": {"steps": steps}}]
        if not self._in_transaction:
            requests.append({"type": "close"})
        answer = self._send(requests, again=not self._in_transaction and word.startswith(_REPEATABLE))[0]
        if len(rows) == 1:
            return [_result(answer)]
        batch = _result(answer)
        for error in batch["step_errors"]:
            if error is not None:
                raise _refusal(error)
        return batch["step_results"]

    def _end(self, word: str) -> None:
        self._in_transaction, lost = False, self._baton is None
        if lost:
            raise OperationalError("the transaction was lost with the connection; nothing of it is kept")
        try:
            results = self._send([_execute(word), {"type": "close"}])
        finally:
            self._forget()
        _result(results[0])

    def _forget(self) -> None:
        self._baton = None
        self._client.base_url = self._home

    def _send(self, requests: list[dict[str, Any]], *, again: bool = False) -> list[dict[str, Any]]:
        """Send one pipeline; ``again`` where it changes nothing, so that it may be sent once more."""
        body = {"baton": self._baton, "requests": requests}
        try:
            try:
                response = self._client.post("/v2/pipeline", json=body)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if not again:  # a connection that was kept, and that the server gave up meanwhile, is no reason to fail
                    raise
                response = self._client.post("/v2/pipeline", json=body)
        except httpx.HTTPError as error:
            self._forget()
            raise NoAnswer(f"no answer: {type(error).__name__}: {error}") from error
        if not response.is_success:
            self._forget()
            raise OperationalError(f"HTTP {response.status_code}: {response.text[:_SAID_CHARS]}")
        answer = response.json()
        self._baton = answer["baton"]
        if answer.get("base_url"):
            self._client.base_url = answer["base_url"]
        return answer["results"]


class Cursor:
    """What SQLAlchemy runs statements with."""

    arraysize = 1

    def __init__(self, connection: HranaConnection) -> None:
        self.connection = connection
        self.description: Sequence[tuple[str, None, None, None, None, None, None]] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self._rows: list[tuple[Value, ...]] = []

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> Cursor:
        """Run a statement."""
        (result,) = self.connection.run(sql, [parameters])
        columns = result["cols"]
        self.description = [(column["name"] or "", *(None,) * 6) for column in columns] or None  # type: ignore[misc]
        self._rows = [tuple(_plain(value) for value in row) for row in result["rows"]]
        self.rowcount = len(self._rows) if columns else result["affected_row_count"]
        last = result["last_insert_rowid"]
        self.lastrowid = None if last is None else int(last)
        return self

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> Cursor:
        """Run a statement for each row of parameters, until one fails."""
        results = self.connection.run(sql, given) if (given := list(rows)) else []
        self.description, self._rows = None, []
        self.rowcount = sum(result["affected_row_count"] for result in results)
        return self

    def fetchone(self) -> tuple[Value, ...] | None:
        """Take the next row."""
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Value, ...]]:
        """Take some rows."""
        count = size or self.arraysize
        taken, self._rows = self._rows[:count], self._rows[count:]
        return taken

    def fetchall(self) -> list[tuple[Value, ...]]:
        """Take all rows that are left."""
        taken, self._rows = self._rows, []
        return taken

    def setinputsizes(self, _sizes: object) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, _size: int, _column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Forget the rows."""
        self._rows = []


def _execute(sql: str, parameters: Sequence[Value] = ()) -> dict[str, Any]:
    return {"type": "execute", "stmt": _statement(sql, parameters)}


def _statement(sql: str, parameters: Sequence[Value]) -> dict[str, Any]:
    return {"sql": sql, "args": [_coded(value) for value in parameters], "want_rows": True}


def _coded(value: Value) -> dict[str, Any]:
    match value:
        case None:
            return {"type": "null"}
        case bool() | int():
            return {"type": "integer", "value": str(int(value))}  # text: JSON's numbers end at 53 bits
        case float():
            return {"type": "float", "value": value}
        case str():
            return {"type": "text", "value": value}
        case bytes():
            return {"type": "blob", "base64": base64.b64encode(value).decode()}
    raise InterfaceError(f"a parameter is a {type(value).__name__}; a statement takes text, numbers, bytes and None")


def _plain(value: dict[str, Any]) -> Value:
    match value["type"]:
        case "null":
            return None
        case "integer":
            return int(value["value"])
        case "blob":
            return base64.b64decode(value["base64"] + "=" * (-len(value["base64"]) % 4))
        case _:
            return cast("Value", value["value"])


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    if answer["type"] == "error":
        raise _refusal(answer["error"])
    return answer["response"].get("result", {})


def _refusal(error: dict[str, Any]) -> DatabaseError:
    code, message = error.get("code") or "", error["message"]
    if code.startswith("SQLITE_CONSTRAINT"):
        return IntegrityError(message)
    if code in ("SQL_PARSE_ERROR", "SQL_INPUT_ERROR", "ARGS_INVALID"):
        return ProgrammingError(message)
    return OperationalError(f"{message} ({code})" if code else message)
