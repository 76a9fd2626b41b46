"""Images of a person's own sandboxes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath

from koda_ray.cancellation import finish
from koda_ray.sandbox.archives import unpack, unpacked_on_disk
from koda_ray.sandbox.scratch import scratch
from koda_ray.sandbox.standing import ImageState
from koda_ray.serve.context import OwnWorkshop, User, disk_of
from koda_ray.serve.problem import READ, USED, responses
from koda_ray.wire import ImageList, ImageView

__all__ = ["receive", "router"]

router = APIRouter(prefix="/v1/images", tags=["images"])


@router.post(
    "",
    operation_id="createImage",
    summary="Make an image of a folder",
    status_code=201,
    responses=responses(*(USED - {404}), 413),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def create_image(
    request: Request,
    user: User,
    workshop: OwnWorkshop,
    name: Annotated[str, Query(min_length=1, max_length=128, description="What it is called")],
    clean: Annotated[bool, Query(description="Use nothing of an earlier build")] = False,
    provider: Annotated[
        Literal["local", "docker", "e2b", "modal"] | None, Query(description="Whose; else the server's")
    ] = None,
) -> ImageView:
    """Send a zip of the folder that sandboxes shall start as, dependencies included.

    Links may lead to what is in the zip (`zip -ry`). A Dockerfile in it is built at `e2b` and `modal`, and refused
    elsewhere: it would be built with the server's rights.
    """
    await workshop.check_image(name, clean=clean, provider=provider)
    with scratch() as sent:
        archive = sent / "sent.zip"
        await receive(request, archive)
        size = await asyncio.to_thread(unpacked_on_disk, archive)
        async with disk_of(request).holding(user, size):
            with scratch() as folder:
                await finish(asyncio.to_thread(unpack, archive, folder))
                image = await workshop.create_image(
                    folder, name=name, clean=clean, provider=provider, sent="sent over HTTP"
                )
    return _view(ImageState(record=image, state="ready"))


@router.get("", operation_id="listImages", summary="List your images, oldest first", responses=responses(*READ))
async def list_images(workshop: OwnWorkshop) -> ImageList:
    """Return images, and whether their providers still have them."""
    return ImageList(images=tuple(_view(one) for one in await workshop.images()))


@router.delete(
    "/{image}",
    operation_id="removeImage",
    summary="Remove an image",
    status_code=204,
    responses=responses(*USED),
)
async def remove_image(
    image: Annotated[str, InPath(min_length=1, max_length=128, description="Its id or name")],
    workshop: OwnWorkshop,
    forget: Annotated[bool, Query(description="Also one that is elsewhere, in a place that is no more")] = False,
) -> Response:
    """Remove it; sandboxes that were made of it keep what they have."""
    await workshop.remove_image(image, forget=forget)
    return Response(status_code=204)


async def receive(request: Request, path: Path) -> None:
    """Write a request's body to a file as it comes."""
    with await asyncio.to_thread(path.open, "wb") as file:
        async for data in request.stream():
            await asyncio.to_thread(file.write, data)


def _view(one: ImageState) -> ImageView:
    record = one.record
    return ImageView(
        id=record.id,
        name=record.name,
        provider=record.provider,
        host=record.host,
        state=one.state,
        size_bytes=record.size_bytes,
        created_at=record.created_at,
    )
