"""What axe-core finds on a page, in both schemes and on a wide and a narrow screen."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest
from playwright.async_api import Page

from koda_ray.config import REPO_ROOT

__all__ = ["AXE", "SCHEMES", "WIDTHS", "examine", "on_every_screen", "violations"]

AXE = [
    path
    for folder in ("web", ".koda/web-build")
    if (path := REPO_ROOT / folder / "node_modules" / "axe-core" / "axe.min.js").is_file()
]
RULES = [{"id": "target-size", "enabled": True, "selector": "*:not(.react-flow__viewport *)"}]
"""What axe-core leaves out by itself and WCAG 2.2 AA asks for; a canvas moves what lies under its tools."""

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTHS = (1280, 390)


_RUN = """async (rules) => {
  axe.configure({ rules });
  const { violations } = await axe.run();
  const left = [];
  for (const found of violations) {
    const nodes = [];
    for (const node of found.nodes) {
      // what only lies under something that stays in sight is scrolled from under it, by whoever wants it
      const target = found.id === 'target-size' && document.querySelector(node.target[0]);
      if (target) target.scrollIntoView({ block: 'center', behavior: 'instant' });
      const alone = { runOnly: [found.id], rules: { [found.id]: { enabled: true } } };
      const again = target && (await axe.run(target, alone));
      if (!again || again.violations.length) nodes.push(node);
    }
    if (nodes.length) left.push({ ...found, nodes });
  }
  return left;
}"""


async def violations(page: Page) -> list[dict[str, object]]:
    """Return what axe-core finds on the page as it is, which must be there (`AXE`)."""
    await page.evaluate(f"{AXE[0].read_text()}; null")
    return await page.evaluate(_RUN, RULES)


async def examine(page: Page) -> None:
    """Fail where axe-core finds something on the page as it is, or where it is wider than its screen."""
    if not AXE:
        pytest.skip("axe-core is not there: ./koda setup brings it")
    found = await violations(page)
    assert found == [], json.dumps(found, indent=1)[:2000]
    wide = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], wide


async def on_every_screen(page: Page, look: Callable[[], Awaitable[None]] | None = None) -> None:
    """Examine a page on each screen in each scheme; ``look`` does more there."""
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # a colour on its way is nobody's
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 800})
            await examine(page)
            if look is not None:
                await look()
