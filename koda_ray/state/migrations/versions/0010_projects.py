"""A project is its user's: two users may call theirs the same, and neither learns of the other's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_WITHIN = ("sessions", "jobs", "assets")


def upgrade() -> None:
    """Key projects by user and id."""
    for table in _WITHIN:
        with op.batch_alter_table(table) as changed:
            changed.drop_constraint(f"fk_{table}_project_id", type_="foreignkey")
    op.drop_index("ix_projects_user_id", "projects")
    with op.batch_alter_table("projects") as projects:
        projects.drop_constraint("pk_projects", type_="primary")
        projects.create_primary_key("pk_projects", ["user_id", "id"])
    for table in _WITHIN:  # after a step down, all users of one name share a row
        op.execute(
            sa.text(
                "INSERT INTO projects (user_id, id, name, created_at) "
                f"SELECT user_id, project_id, project_id, min(created_at) FROM {table} WHERE NOT EXISTS (SELECT 1 FROM "
                f"projects WHERE projects.user_id = {table}.user_id AND projects.id = {table}.project_id) "
                "GROUP BY user_id, project_id"
            )
        )
    for table in _WITHIN:
        with op.batch_alter_table(table) as changed:
            changed.create_foreign_key(
                f"fk_{table}_user_id_project_id", "projects", ["user_id", "project_id"], ["user_id", "id"]
            )


def downgrade() -> None:
    """Key them by id alone; of several users' that are called the same, the oldest is left for all of them."""
    for table in _WITHIN:
        with op.batch_alter_table(table) as changed:
            changed.drop_constraint(f"fk_{table}_user_id_project_id", type_="foreignkey")
    op.execute(
        sa.text(
            "DELETE FROM projects WHERE EXISTS (SELECT 1 FROM projects AS other WHERE other.id = projects.id AND "
            "(other.created_at, other.user_id) < (projects.created_at, projects.user_id))"
        )
    )
    with op.batch_alter_table("projects") as projects:
        projects.drop_constraint("pk_projects", type_="primary")
        projects.create_primary_key("pk_projects", ["id"])
    op.create_index("ix_projects_user_id", "projects", ["user_id"])
    for table in _WITHIN:
        with op.batch_alter_table(table) as changed:
            changed.create_foreign_key(f"fk_{table}_project_id", "projects", ["project_id"], ["id"])
