"""Animations are chosen by when they were last changed, and by the project that they lie in."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from playwright.async_api import Browser, Page, expect

from koda_ray.client import KodaClient
from koda_ray.types import now
from tests.serve.world import World
from tests.web.axes import on_every_screen
from tests.web.looking import looking

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


@pytest.fixture
async def client(koda: World) -> AsyncIterator[KodaClient]:
    koda.directory.asks = False
    koda.directory.hold = {"analyze"}
    async with KodaClient(koda.url) as found:
        for prompt, project in (
            ("A red ball", "toys"),
            ("A blue ball", "toys"),
            ("A street", "films"),
            ("A cube", None),
        ):
            await found.create(prompt, project_id=project)
        yield found


async def days_later(page: Page, days: int) -> None:
    """Have the person look so many days later than everything was made."""
    await page.clock.set_fixed_time(now() + timedelta(days=days))
    await page.reload()


async def test_a_project_is_chosen_and_stands_in_the_address(koda: World, client: KodaClient, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        cards = page.get_by_role("list", name="Your animations").get_by_role("listitem")
        await expect(cards).to_have_count(4)
        opener = page.get_by_role("button", name="Choose among them")
        await expect(opener).to_have_attribute("aria-expanded", "false")
        await opener.focus()
        await page.keyboard.press("Enter")
        project = page.get_by_role("combobox", name="Project")
        await expect(project.get_by_role("option")).to_have_text(["All projects", "films", "Your own", "toys"])
        await project.select_option("toys")
        await expect(cards).to_have_count(2)
        await expect(page).to_have_url(re.compile(r"\?project=toys$"))
        await expect(page.get_by_text("2 animations", exact=True)).to_be_attached()
        await page.reload()
        await expect(cards).to_have_count(2)
        await expect(project).to_have_value("toys")  # what is chosen is seen to be
        await page.get_by_role("searchbox", name="Search").fill("street")
        said = "Nothing has “street” in its title, prompt or scenes, in the project “toys”."
        await expect(page.get_by_text(said)).to_be_visible()
        await page.get_by_role("button", name="In all projects").click()
        await expect(cards).to_have_count(1)
        await page.get_by_role("searchbox", name="Search").fill("")
        await expect(cards).to_have_count(4)
        await project.select_option("Your own")
        await expect(cards).to_have_count(1)
        await page.go_back()
        await expect(cards).to_have_count(4)
        await expect(project).to_have_value("")
        await on_every_screen(page)
        await page.goto(f"{koda.url}/?project=gone")
        await expect(page.get_by_text("Nothing is in the project “gone”.")).to_be_visible()
        await expect(project).to_have_value("gone")
        await on_every_screen(page)


async def test_a_time_is_chosen_by_the_days_of_who_looks(koda: World, client: KodaClient, browser: Browser) -> None:
    async with looking(browser, koda.url) as page:
        cards = page.get_by_role("list", name="Your animations").get_by_role("listitem")
        await page.get_by_role("button", name="Choose among them").click()
        when = page.get_by_role("combobox", name="Last changed")
        await when.select_option("Last 7 days")
        await expect(page).to_have_url(re.compile(r"\?when=week$"))
        await expect(cards).to_have_count(4)
        await days_later(page, 3)
        await expect(cards).to_have_count(4)
        await when.select_option("Today")
        await expect(page.get_by_text("Nothing changed today.")).to_be_visible()
        await days_later(page, 20)
        await expect(page.get_by_text("Nothing changed today.")).to_be_visible()
        await when.select_option("Last 30 days")
        await expect(cards).to_have_count(4)
        await when.select_option("Dates of your own")
        await expect(cards).to_have_count(4)  # none is named yet
        first, last = page.get_by_label("From", exact=True), page.get_by_label("To", exact=True)
        today = now().astimezone()
        await first.fill((today - timedelta(days=1)).strftime("%Y-%m-%d"))
        await last.fill((today + timedelta(days=1)).strftime("%Y-%m-%d"))
        await expect(cards).to_have_count(4)
        await expect(page).to_have_url(re.compile(r"\?when=own&from=[\d-]{10}&to=[\d-]{10}$"))
        await page.reload()
        await expect(cards).to_have_count(4)
        await expect(first).to_have_value((today - timedelta(days=1)).strftime("%Y-%m-%d"))
        await first.fill("2019-11-03")
        await last.fill("2019-11-05")
        await expect(page.get_by_text("Nothing changed from 3 Nov 2019 to 5 Nov 2019.")).to_be_visible()
        await on_every_screen(page)
        await page.get_by_role("button", name="Whenever it changed").click()
        await expect(cards).to_have_count(4)
        await expect(page).to_have_url(re.compile(r"/\??$"))


async def test_those_that_are_awake_are_told_from_those_that_sleep(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    (first, *_) = (await client.sessions(order="made")).sessions
    await koda.directory.passivate(first.id)
    async with looking(browser, koda.url) as page:
        cards = page.get_by_role("list", name="Your animations").get_by_role("listitem")
        await page.get_by_role("button", name="Choose among them").click()
        awake = page.get_by_role("combobox", name="Now")
        await awake.select_option("Asleep")
        await expect(cards).to_have_count(1)
        await expect(page).to_have_url(re.compile(r"\?status=suspended$"))
        await page.reload()
        await expect(cards).to_have_count(1)
        await awake.select_option("Awake")
        await expect(cards).to_have_count(3)
        await page.get_by_role("combobox", name="Project").select_option("Your own")
        await expect(page.get_by_text("Nothing is awake in your own project.")).to_be_visible()
        await page.get_by_role("button", name="Awake or asleep").click()
        await expect(cards).to_have_count(1)


async def test_something_is_made_in_a_project_that_is_named_and_leads_to_all_of_it(
    koda: World, client: KodaClient, browser: Browser
) -> None:
    koda.directory.hold = set()
    async with looking(browser, koda.url) as page:
        await page.get_by_role("textbox", name="What should move").fill("A green ball")
        await page.get_by_text("More: style, length").click()
        project = page.get_by_label("Project", exact=True)
        there = await project.get_attribute("list")
        await expect(page.locator(f"datalist#{there} option")).to_have_count(3)
        await project.fill("my toys!")
        await page.get_by_role("button", name="Make it").click()
        await expect(project).to_have_attribute("aria-invalid", "true")
        await expect(project).to_be_focused()
        await project.fill("toys")
        await page.get_by_role("button", name="Make it").click()
        await page.wait_for_url("**/s/*")
        session_id = page.url.rpartition("/")[2]
        assert (await client.session(session_id)).project_id == "toys"
        await page.get_by_role("link", name="In toys").click()
        cards = page.get_by_role("list", name="Your animations").get_by_role("listitem")
        await expect(cards).to_have_count(3)
        await expect(page.get_by_role("combobox", name="Project")).to_have_value("toys")
        await page.goto(f"{koda.url}/s/{(await client.create('A cone')).session_id}")
        await expect(page.get_by_role("button", name="Make this")).to_be_visible()
        await expect(page.get_by_role("link", name=re.compile("^In "))).to_have_count(0)  # one's own needs no name
