"""The page in a real browser: nothing on the console, no network, every chart drawn."""

from __future__ import annotations

import json
import shutil

import pytest

from blis_core.cli.main import main

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)",
    ),
    pytest.mark.xdist_group("browser"),
]

NAMES = ("tight", "many", "nobody")
FLAGS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    " disable-component-update disable-sync hide-scrollbars"
)

DRAWN = """
return [...document.querySelectorAll("figure svg")].map(svg => {
  const box = svg.getBoundingClientRect();
  const inside = [...svg.querySelectorAll("path, use, image, text")]
    .map(each => each.getBoundingClientRect()).filter(b => b.width > 0 || b.height > 0);
  const drawn = [...svg.querySelectorAll("path, use, text")].filter(e => !e.closest("defs"));
  const colours = new Set(drawn.map(each => {
    const style = getComputedStyle(each);
    return style.fill === "none" ? style.stroke : style.fill;
  }));
  return {id: svg.closest("figure").id, width: box.width, height: box.height,
          marks: inside.length, colours: [...colours],
          left: Math.min(...inside.map(b => b.left)) - box.left,
          right: box.right - Math.max(...inside.map(b => b.right)),
          texts: [...svg.querySelectorAll("text")].map(each => each.textContent)};
});
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def show(browser, page, *, theme="light", width=1300):
    """Open a page; returns the addresses that were asked for."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": theme}]},
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    browser.get_log("performance")
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    messages = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


@pytest.fixture(scope="module")
def pages(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name in NAMES:
        found[name] = folder / f"{name}.html"
        assert main(["report", str(files[name]), "--output", str(found[name]),
                     "--slo", "ttft=100ms", "--slo", "e2e=5s"]) == 0  # fmt: skip
    found["both"] = folder / "both.html"
    assert main(["report", f"one={files['plain']}", f"other={files['tight']}",
                 "--output", str(found["both"])]) == 0  # fmt: skip
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", [*NAMES, "both"])
def test_every_chart_is_drawn(browser, pages, name, theme):
    asked = show(browser, pages[name], theme=theme)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    charts = browser.execute_script(DRAWN)
    assert len(charts) >= 10
    for chart in charts:
        assert chart["width"] > 250, chart["id"]
        assert chart["height"] > 60, chart["id"]
        assert chart["marks"] >= 1, chart["id"]
        assert chart["left"] > -2, chart["id"]
        assert chart["right"] > -12, chart["id"]
        if name != "nobody":
            assert chart["marks"] > 10, chart["id"]
            assert len(chart["texts"]) > 3, chart["id"]
    colours = {colour for chart in charts for colour in chart["colours"]}
    ink = "rgb(27, 31, 37)" if theme == "light" else "rgb(232, 235, 240)"
    assert (ink in colours) or name == "nobody"
    assert "rgb(0, 0, 0)" not in colours


def test_the_theme_follows_the_system_until_it_is_chosen(browser, pages):
    background = "return getComputedStyle(document.body).backgroundColor"
    show(browser, pages["tight"], theme="light")
    light = browser.execute_script(background)
    show(browser, pages["tight"], theme="dark")
    dark = browser.execute_script(background)
    assert light != dark
    button = browser.find_element("id", "theme")
    assert button.text == "Light theme"
    button.click()
    assert browser.execute_script(background) == light
    assert button.text == "Dark theme"
    button.click()
    assert browser.execute_script(background) == dark
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("name", ["tight", "many", "both"])
def test_a_narrow_window_needs_no_scrolling_sideways(browser, pages, name):
    show(browser, pages[name], width=390)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 390


def test_links_lead_to_their_sections(browser, pages):
    show(browser, pages["both"])
    links = browser.find_elements("css selector", "nav a")
    assert len(links) >= 6
    for link in links:
        target = link.get_attribute("href").split("#")[1]
        assert browser.find_element("id", target).tag_name == "h2"
