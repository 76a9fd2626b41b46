"""Foreign keys of 0004 and 0005 are called as all others.

Those two named them otherwise until now. SQLite and libSQL know a constraint by its columns and never by its name, so
there the old names stay where they are; PostgreSQL renames them in place, without looking at a row.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_OTHERWISE = {
    "states": ("session_id_sessions", "user_id_users"),
    "heads": ("session_id_sessions", "user_id_users"),
    "charges": ("user_id_users",),
    "accounts": ("user_id_users",),
}


def upgrade() -> None:
    """Rename those that are called otherwise."""
    bind = op.get_bind()
    if bind.dialect.name != "postgresql":
        return
    for table, names in _OTHERWISE.items():
        there = {key["name"] for key in sa.inspect(bind).get_foreign_keys(table)}
        for name in names:
            old, new = f"fk_{table}_{name}", f"fk_{table}_{name.rpartition('_')[0]}"
            if old in there:
                op.execute(sa.text(f'ALTER TABLE {table} RENAME CONSTRAINT "{old}" TO "{new}"'))


def downgrade() -> None:
    """Nothing: the migrations before make the same names."""
