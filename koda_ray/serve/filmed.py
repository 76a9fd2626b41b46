"""Which of a session's versions a video is of, and the scenes that were planned for it."""

from __future__ import annotations

from koda_ray.errors import NotFound
from koda_ray.state.records import JobRecord
from koda_ray.state.store import Store
from koda_ray.state.versions import VersionRecord
from koda_ray.wire import VersionScene

__all__ = ["scenes_of", "version_filmed"]

_PAGE = 200


def scenes_of(version: VersionRecord) -> tuple[VersionScene, ...]:
    """Return the scenes that were planned when a version was made."""
    return tuple(VersionScene.model_validate(each) for each in version.scenes)


async def version_filmed(store: Store, session_id: str, job: JobRecord) -> VersionRecord:
    """Find the version that a job's video is of: what it was made for, else the newest that is the same page.

    Raises:
        NotFound: It is of none of them.
    """
    if found := await store.versions(session_id, limit=1, job_id=job.id):
        return found[0]
    before: int | None = None
    same: VersionRecord | None = None
    while page := await store.versions(session_id, limit=_PAGE, before=before):
        for each in page:
            if each.final_job_id == job.id:
                return each
            if same is None and each.bundle == job.spec.get("bundle"):
                same = each
        before = page[-1].number
    if same is not None:
        return same
    raise NotFound(f"render {job.id} is of no version of session {session_id}: GET .../versions lists them")
