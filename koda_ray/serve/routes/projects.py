"""A user's projects, which are made with the work that names them. Reading them wakes nobody."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from koda_ray.serve.context import Deps, User
from koda_ray.serve.problem import responses
from koda_ray.wire import ProjectPage, ProjectView

__all__ = ["router"]

router = APIRouter(prefix="/v1/projects", tags=["sessions"])


@router.get("", operation_id="listProjects", summary="List your projects", responses=responses(401, 422))
async def list_projects(
    user: User,
    deps: Deps,
    limit: Annotated[int, Query(ge=1, le=200, description="Projects in a page")] = 50,
    after: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
) -> ProjectPage:
    """Return what your work lies in; ask again with `after` set to `next` until `next` is null.

    A project is there from the first session, file or render that names it on, and stays when those are deleted.
    """
    found = await deps.store.projects(user, limit=limit + 1, after=after)
    page = tuple(ProjectView(id=each.id, created_at=each.created_at) for each in found[:limit])
    return ProjectPage(projects=page, next=page[-1].id if len(found) > limit else None)
