"""How the whole deployment is, for whoever runs it."""

from __future__ import annotations

from fastapi import APIRouter

from koda_ray.serve.cluster import cluster_report
from koda_ray.serve.context import Deps, Operator
from koda_ray.serve.problem import responses
from koda_ray.wire import ClusterReport

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["cluster"])


@router.get(
    "/cluster",
    operation_id="getCluster",
    summary="See how the whole deployment is",
    responses=responses(401, 403),
)
async def get_cluster(_: Operator, deps: Deps) -> ClusterReport:
    """Return its nodes, what is under way and what waits, what it cost, and the janitor's last round.

    For users that the setting `KODA_OPERATORS` names. Where Ray does not answer in some seconds, that is said.
    """
    return await cluster_report(deps.store, deps.eyes)
