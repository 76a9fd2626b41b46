"""Alembic's entry: run the steps on the connection that `koda_ray.state.migrate` opened, inside its transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from koda_ray.state.creation import with_postgres_options
from koda_ray.state.schema import metadata

connection: Connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=with_postgres_options(metadata), render_as_batch=True)
context.run_migrations()
