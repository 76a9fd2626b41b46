"""Alembic's entry: run the steps on the connection that `koda_ray.state.migrate` opened, inside its transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from koda_ray.state.schema import metadata

for table in metadata.tables.values():
    for index in table.indexes:
        index.dialect_kwargs.update(index.info)  # what a migration that is written from the tables says for Postgres

connection: Connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
context.run_migrations()
