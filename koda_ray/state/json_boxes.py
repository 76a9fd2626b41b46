"""People's own sandboxes, their images and processes in a folder of JSON; see `boxes`."""

from __future__ import annotations

from koda_ray.state.boxes import THIS, ImageRecord, ProcessRecord, SandboxRecord, new_deployment
from koda_ray.state.json_accounts import ensure_user
from koda_ray.state.json_database import JsonDatabase
from koda_ray.state.json_rows import decode, encode, words
from koda_ray.state.json_tables import TableRow, Tables, Transaction
from koda_ray.state.refusals import no_such

__all__ = ["JsonBoxes"]

_KEPT = ("user_id", "session_id", "created_at")


class JsonBoxes:
    """The part of `JSONStore` that keeps them."""

    _database: JsonDatabase

    async def deployment(self) -> str:
        """Name this database among all; made once."""

        def work(change: Transaction) -> str:
            there = change.tables.get("deployments", THIS)
            if there is not None:
                return str(there["id"])
            made = new_deployment()
            change.put("deployments", {"name": THIS, "id": made})
            return made

        return await self._database.write(work)

    async def add_image(self, image: ImageRecord, *, most: int) -> bool:
        """Insert the row of an image that is to be made, where its user may have one more in its place."""
        return await self._database.write(lambda change: _add(change, "images", image, most=most, over="removed"))

    async def put_image(self, image: ImageRecord) -> bool:
        """Insert an image's row, or write it anew, unless it was removed; its user is made with it."""
        return await self._database.write(lambda change: _put(change, "images", image, over="removed"))

    async def get_image(self, image_id: str, *, user_id: str) -> ImageRecord:
        """Read an image's row; NotFound also for one that was removed."""

        def work(tables: Tables) -> ImageRecord:
            row = tables.get("images", image_id)
            if row is None or row["user_id"] != words(user_id) or row["status"] == "removed":
                raise no_such("image", image_id)
            return decode(ImageRecord, row)

        return await self._database.read(work)

    async def images(self, *, user_id: str | None = None) -> list[ImageRecord]:
        """Read the images of one user or of all that were not removed, oldest first."""

        def work(tables: Tables) -> list[ImageRecord]:
            mine = [row for row in tables.of("images") if user_id is None or row["user_id"] == words(user_id)]
            return [decode(ImageRecord, row) for row in sorted(mine, key=_age) if row["status"] != "removed"]

        return await self._database.read(work)

    async def add_sandbox(self, sandbox: SandboxRecord, *, most: int) -> bool:
        """Insert the row of a sandbox that is to be made, where its user may have one more in its place."""
        return await self._database.write(
            lambda change: _add(change, "sandboxes", sandbox, most=most, over="destroyed")
        )

    async def put_sandbox(self, sandbox: SandboxRecord) -> bool:
        """Insert the row of a sandbox without a session, or write it anew, unless it was destroyed."""
        return await self._database.write(lambda change: _put(change, "sandboxes", sandbox, over="destroyed"))

    async def get_sandbox(self, sandbox_id: str, *, user_id: str) -> SandboxRecord:
        """Read the row of a sandbox without a session, also of one that was destroyed."""

        def work(tables: Tables) -> SandboxRecord:
            row = tables.get("sandboxes", sandbox_id)
            if row is None or row["user_id"] != words(user_id) or row["session_id"] is not None:
                raise no_such("sandbox", sandbox_id)
            return decode(SandboxRecord, row)

        return await self._database.read(work)

    async def own_sandboxes(self, *, user_id: str | None = None, live: bool = True) -> list[SandboxRecord]:
        """Read the rows of sandboxes without a session, of one user or of all, oldest first."""

        def is_wanted(row: TableRow) -> bool:
            own = row["session_id"] is None and (user_id is None or row["user_id"] == words(user_id))
            return own and not (live and row["status"] == "destroyed")

        def work(tables: Tables) -> list[SandboxRecord]:
            return [decode(SandboxRecord, row) for row in sorted(filter(is_wanted, tables.of("sandboxes")), key=_age)]

        return await self._database.read(work)

    async def put_process(self, process: ProcessRecord) -> bool:
        """Insert a process's row, or write it anew, unless its sandbox was destroyed."""

        def work(change: Transaction) -> bool:
            box = change.tables.get("sandboxes", process.sandbox_id)
            if box is None or box["status"] == "destroyed":
                return False
            change.put("processes", encode(process))
            return True

        return await self._database.write(work)

    async def end_process(self, process: ProcessRecord) -> None:
        """Write down how a process ended, where its row is there and of the same run: it may be forgotten meanwhile."""

        def work(change: Transaction) -> None:
            row = change.tables.get("processes", process.name, process.sandbox_id)
            if row is not None and row["run"] == process.run:
                change.put("processes", encode(process))

        await self._database.write(work)

    async def sandbox_processes(self, sandbox_id: str) -> list[ProcessRecord]:
        """Read a sandbox's processes by name."""

        def work(tables: Tables) -> list[ProcessRecord]:
            rows = sorted(tables.of("processes", sandbox_id), key=lambda row: str(row["name"]))
            return [decode(ProcessRecord, row) for row in rows]

        return await self._database.read(work)

    async def forget_process(self, sandbox_id: str, name: str) -> None:
        """Remove a process's row; nothing happens when it is not there."""

        def work(change: Transaction) -> None:
            if change.tables.get("processes", name, sandbox_id) is not None:
                change.remove("processes", name, sandbox_id)

        await self._database.write(work)


def _add(change: Transaction, table: str, item: ImageRecord | SandboxRecord, *, most: int, over: str) -> bool:
    row = encode(item)
    same = {name: row[name] for name in ("user_id", "place", "session_id") if name in row}
    there = [one for one in change.tables.of(table) if one["status"] != over and same.items() <= one.items()]
    if len(there) >= most:
        return False
    ensure_user(change, item.user_id)
    change.put(table, row)
    return True


def _put(change: Transaction, table: str, item: ImageRecord | SandboxRecord, *, over: str) -> bool:
    row, there = encode(item), change.tables.get(table, item.id)
    if there is not None:
        if there["status"] == over:
            return False
        row |= {name: there[name] for name in _KEPT if name in there}
    ensure_user(change, item.user_id)
    change.put(table, row)
    return True


def _age(row: TableRow) -> tuple[str, str]:
    return str(row["created_at"]), str(row["id"])
