"""Pages of many large layers: nothing of a picture is left out for lack of memory to draw in."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

pytestmark = pytest.mark.full

LAYERS = """<!doctype html><body><style>
  body { margin: 0; overflow: hidden; background: #fff }
  div { position: absolute; width: 4000px; height: 4000px }
</style><script>
  for (let i = 0; i < 40; i++) {
    const layer = document.createElement("div");
    layer.style.backgroundImage =
      `repeating-linear-gradient(45deg, hsl(${i * 40} 80% 50% / .3) 0 40px, transparent 40px ${90 + i * 7}px)`;
    layer.style.left = `${-900 - i * 20}px`;
    layer.style.top = `${-800 - i * 20}px`;
    if (__kodaProps.layers) layer.style.willChange = "transform";
    document.body.append(layer);
  }
</script>"""


async def picture(browser: Browser, props: str) -> np.ndarray:
    page = await LoadedPage.open(
        browser, Bundle({"index.html": LAYERS.encode()}), PageSetup(width=1920, height=1080, props=props)
    )
    await page.wait_ready(60)
    await page.go(0, 60)
    image = Image.open(io.BytesIO(await page.picture(image="png"))).convert("RGB")
    await page.close()
    return np.asarray(image).astype(int)


@pytest.mark.browser
async def test_a_page_of_many_large_layers_is_painted_whole() -> None:
    async with await Browser.launch() as browser:
        layered, flat = await picture(browser, '{"layers":true}'), await picture(browser, '{"layers":false}')
    far_off = (np.abs(layered - flat) > 12).mean()
    assert far_off < 0.01, f"{far_off:.1%} of the picture differs from the same boxes without layers"
