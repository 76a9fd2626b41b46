"""People's own sandboxes, their images and processes on the SQL database; see `boxes`."""

from __future__ import annotations

from sqlalchemy import Connection, Table, delete, func, select, update

from koda_ray.state import schema
from koda_ray.state.boxes import THIS, ImageRecord, ProcessRecord, SandboxRecord, new_deployment
from koda_ray.state.database import Database
from koda_ray.state.refusals import no_such
from koda_ray.state.rows import columns
from koda_ray.state.sql_accounts import ensure_user

__all__ = ["SqlBoxes"]

_I = schema.images.c
_B = schema.sandboxes.c
_P = schema.processes.c
_KEPT = ("id", "user_id", "session_id", "created_at")


class SqlBoxes:
    """The part of `SqlStore` that keeps them."""

    _database: Database

    async def deployment(self) -> str:
        """Name this database among all; made once."""
        query = select(schema.deployments.c.id).where(schema.deployments.c.name == THIS)

        def look(connection: Connection) -> str | None:
            return connection.execute(query).scalar_one_or_none()

        found = await self._database.read(look)
        if found is None:
            new = self._database.insert(schema.deployments).on_conflict_do_nothing()
            row = {"name": THIS, "id": new_deployment()}
            await self._database.write(lambda connection: connection.execute(new, row))
            found = await self._database.read(look)  # of two who made one at once, the first one's
        assert found is not None
        return found

    async def add_image(self, image: ImageRecord, *, most: int) -> bool:
        """Insert the row of an image that is to be made, where its user may have one more in its place."""
        return await self._add_box(schema.images, image, most=most, over="removed")

    async def put_image(self, image: ImageRecord) -> bool:
        """Insert an image's row, or write it anew, unless it was removed; its user is made with it."""
        return await self._put_box(schema.images, image, over="removed")

    async def get_image(self, image_id: str, *, user_id: str) -> ImageRecord:
        """Read an image's row; NotFound also for one that was removed."""
        query = select(schema.images).where(_I.id == image_id, _I.user_id == user_id, _I.status != "removed")
        found = await self._database.records(ImageRecord, query)
        if not found:
            raise no_such("image", image_id)
        return found[0]

    async def images(self, *, user_id: str | None = None) -> list[ImageRecord]:
        """Read the images of one user or of all that were not removed, oldest first."""
        query = select(schema.images).where(_I.status != "removed")
        if user_id is not None:
            query = query.where(_I.user_id == user_id)
        return await self._database.records(ImageRecord, query.order_by(_I.created_at, _I.id))

    async def add_sandbox(self, sandbox: SandboxRecord, *, most: int) -> bool:
        """Insert the row of a sandbox that is to be made, where its user may have one more in its place."""
        return await self._add_box(schema.sandboxes, sandbox, most=most, over="destroyed")

    async def put_sandbox(self, sandbox: SandboxRecord) -> bool:
        """Insert the row of a sandbox without a session, or write it anew, unless it was destroyed."""
        return await self._put_box(schema.sandboxes, sandbox, over="destroyed")

    async def get_sandbox(self, sandbox_id: str, *, user_id: str) -> SandboxRecord:
        """Read the row of a sandbox without a session, also of one that was destroyed."""
        query = select(schema.sandboxes).where(_B.id == sandbox_id, _B.user_id == user_id, _B.session_id.is_(None))
        found = await self._database.records(SandboxRecord, query)
        if not found:
            raise no_such("sandbox", sandbox_id)
        return found[0]

    async def own_sandboxes(self, *, user_id: str | None = None, live: bool = True) -> list[SandboxRecord]:
        """Read the rows of sandboxes without a session, of one user or of all, oldest first."""
        query = select(schema.sandboxes).where(_B.session_id.is_(None))
        if user_id is not None:
            query = query.where(_B.user_id == user_id)
        if live:
            query = query.where(_B.status != "destroyed")
        return await self._database.records(SandboxRecord, query.order_by(_B.created_at, _B.id))

    async def put_process(self, process: ProcessRecord) -> bool:
        """Insert a process's row, or write it anew, unless its sandbox was destroyed."""
        statement = self._database.upsert(schema.processes)
        # locked, or whoever ends the sandbox meanwhile would not see the row
        status = select(_B.status).where(_B.id == process.sandbox_id).with_for_update()

        def work(connection: Connection) -> bool:
            if connection.execute(status).scalar_one_or_none() in (None, "destroyed"):
                return False
            connection.execute(statement, columns(process))
            return True

        return await self._database.write(work)

    async def end_process(self, process: ProcessRecord) -> None:
        """Write down how a process ended, where its row is there and of the same run: it may be forgotten meanwhile."""
        same = (_P.sandbox_id == process.sandbox_id, _P.name == process.name, _P.run == process.run)
        statement = update(schema.processes).where(*same)
        end = {"ended_at": process.ended_at, "exit_code": process.exit_code}
        await self._database.write(lambda connection: connection.execute(statement, end))

    async def sandbox_processes(self, sandbox_id: str) -> list[ProcessRecord]:
        """Read a sandbox's processes by name."""
        query = select(schema.processes).where(_P.sandbox_id == sandbox_id).order_by(_P.name)
        return await self._database.records(ProcessRecord, query)

    async def forget_process(self, sandbox_id: str, name: str) -> None:
        """Remove a process's row; nothing happens when it is not there."""
        statement = delete(schema.processes).where(_P.sandbox_id == sandbox_id, _P.name == name)
        await self._database.write(lambda connection: connection.execute(statement))

    async def _add_box(self, table: Table, item: ImageRecord | SandboxRecord, *, most: int, over: str) -> bool:
        insert = self._database.insert(table)
        mine = (table.c.user_id == item.user_id, table.c.place == item.place, table.c.status != over)
        if isinstance(item, SandboxRecord):
            mine = (*mine, _B.session_id.is_(None))
        count = select(func.count()).select_from(table).where(*mine)
        # of two who ask at once the second waits for the first, and counts its row
        turn = select(schema.users.c.id).where(schema.users.c.id == item.user_id).with_for_update()

        def work(connection: Connection) -> bool:
            ensure_user(self._database, connection, item.user_id)
            connection.execute(turn)
            if connection.execute(count).scalar_one() >= most:
                return False
            connection.execute(insert, columns(item))
            return True

        return await self._database.write(work)

    async def _put_box(self, table: Table, item: ImageRecord | SandboxRecord, *, over: str) -> bool:
        statement = self._database.upsert(table, keep=_KEPT, where=table.c.status != over).returning(table.c.id)

        def work(connection: Connection) -> bool:
            ensure_user(self._database, connection, item.user_id)
            return connection.execute(statement, columns(item)).scalar_one_or_none() is not None

        return await self._database.write(work)
