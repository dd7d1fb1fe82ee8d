"""The page in headless Chromium: no errors, sorts, filters, fits a phone, and can be seen."""

import itertools
import os
import shutil
import struct

import pytest
from hostile_view import HOSTILE, hostile_view
from rounded_view import rounded_view
from sample_view import (
    different_view,
    large_view,
    refused_view,
    sample_view,
    unverified_view,
)
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from straightway.report.html import render_html

pytestmark = pytest.mark.browser
BROWSER, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
VIEWS = {
    "sample": sample_view, "different": different_view, "refused": refused_view,
    "unverified": unverified_view, "hostile": hostile_view,
    "rounded": rounded_view, "hostile_rounded": lambda: rounded_view(names=HOSTILE[:9]),
}  # fmt: skip


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    missing = [path for path in (BROWSER, DRIVER) if shutil.which(path) is None]
    if missing:
        reason = f"needs Debian's chromium and chromium-driver; {missing[0]} is missing"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = Options()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


class Tab:
    """A page opened from a file, and short words for what the tests ask of it."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def show(self, view, width=1280, *, dark=False):
        path = self.folder / "report.html"
        path.write_text(render_html(view), encoding="utf-8")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        if self.driver.current_url.startswith("file:"):
            self.run("localStorage.clear()")
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        self.settle()

    def settle(self):
        """Wait until the plots stand: they are drawn when their size is known, in a later frame."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def attributes(self, selector, name):
        """Of all elements that match, read at one moment: a plot is drawn anew as a whole."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute(arguments[1]))",
            selector,
            name,
        )

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, selector):
        self.run("arguments[0].click()", self.one(selector))

    def rows(self):
        found = self.run(
            "return [...document.querySelectorAll('#rows tr.row')].map(r => r.dataset.index)"
        )
        return [int(index) for index in found]

    def errors(self):
        return [entry for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]


@pytest.fixture
def tab(chromium, tmp_path):
    return Tab(chromium, tmp_path)


def by(view, key, *, reverse=True):
    return [row.index for row in sorted(view.operators, key=key, reverse=reverse)]


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("width", [360, 1280])
def test_opens_without_errors_and_without_horizontal_scrolling(tab, name, width):
    tab.show(VIEWS[name](), width)
    assert tab.errors() == []
    assert tab.run("return window.hacked") is None
    assert tab.run("return performance.getEntriesByType('resource').length") == 0
    shown, room = tab.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert shown <= room == width
    if "refused" not in name:
        tab.press("#rows tr.row button")
        shown = tab.run("return document.documentElement.scrollWidth")
        assert shown <= width
        assert tab.errors() == []


def test_sorts_by_time_and_share_and_name(tab):
    view = sample_view()
    tab.show(view)
    slowest = by(view, lambda row: row.time_ns)
    assert tab.rows() == slowest[:60]
    assert tab.one("th[data-key=time]").get_attribute("aria-sort") == "descending"
    tab.press("th[data-key=time] button")
    assert tab.rows() == slowest[::-1][:60]
    assert tab.one("th[data-key=time]").get_attribute("aria-sort") == "ascending"
    tab.press("th[data-key=share] button")
    assert tab.rows() == by(view, lambda row: row.share)[:60]
    assert tab.one("th[data-key=share]").get_attribute("aria-sort") == "descending"
    assert tab.one("th[data-key=time]").get_attribute("aria-sort") is None
    tab.press("th[data-key=index] button")
    assert tab.rows() == list(range(60))
    tab.press("#all")
    assert tab.rows() == list(range(len(view.operators)))
    assert tab.errors() == []


def test_unknown_numbers_sort_last_both_ways(tab):
    view = sample_view()
    tab.show(view)
    tab.press("#all")
    known = [row.index for row in view.operators if row.roofline.gmacs]
    for _ in range(2):
        tab.press("th[data-key=gmacs] button")
        assert sorted(tab.rows()[: len(known)]) == known


def test_filters_by_text(tab):
    view = sample_view()
    tab.show(view)
    field = tab.one("#search")
    field.send_keys("Softmax")
    assert tab.rows() == [row.index for row in view.operators if row.kind == "SOFTMAX"]
    assert tab.one("#count").text.startswith("1 of 213 operators: ")
    field.send_keys(" nowhere")
    assert tab.rows() == []
    assert "No operator matches." in tab.one("#rows").text
    tab.press("#reset")
    assert len(tab.rows()) == 60
    assert field.get_attribute("value") == ""
    assert tab.errors() == []


@pytest.mark.parametrize("group", [".legend", "#chips", ".stack"])
def test_filters_by_category(tab, group):
    view = sample_view()
    tab.show(view)
    tab.press(f'{group} [data-category="data movement"]')
    wanted = {row.index for row in view.operators if row.category == "data movement"}
    assert set(tab.rows()) == wanted
    for other in (".legend", "#chips"):
        button = tab.one(f'{other} [data-category="data movement"]')
        assert button.get_attribute("aria-pressed") == "true"
    tab.press(f"{group} [data-category=pooling]")
    wanted |= {row.index for row in view.operators if row.category == "pooling"}
    assert set(tab.rows()) == wanted
    for name in ("data movement", "pooling"):
        tab.press(f'{group} [data-category="{name}"]')
    assert len(tab.rows()) == 60


def test_filters_by_place(tab):
    view = sample_view()
    tab.show(view)
    Select(tab.one("#place")).select_by_value("builtin")
    assert set(tab.rows()) == {row.index for row in view.operators if row.place == "builtin"}


def test_the_keyboard_reaches_everything(tab):
    view = sample_view()
    tab.show(view)
    tab.run("document.querySelector('th[data-key=index] button').focus()")
    tab.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert tab.rows() == list(range(60))
    button = tab.one("#rows tr.row button")
    tab.run("arguments[0].focus()", button)
    button.send_keys(Keys.SPACE)
    assert button.get_attribute("aria-expanded") == "true"
    assert "Transpose (ND, X32)" in tab.one("#rows tr.more").text
    button.send_keys(Keys.SPACE)
    assert tab.driver.find_elements(By.CSS_SELECTOR, "#rows tr.more") == []
    strip = tab.one("#strip")
    strip.send_keys(Keys.HOME)
    assert strip.get_attribute("aria-valuenow") == "0"
    strip.send_keys(Keys.ARROW_RIGHT)
    assert strip.get_attribute("aria-valuetext").startswith("CONV_2D /model.0/conv/Conv, ")
    assert "/model.0/conv/Conv" in tab.one("#about").text
    strip.send_keys(Keys.END)
    strip.send_keys(Keys.ARROW_RIGHT)
    assert strip.get_attribute("aria-valuenow") == str(len(view.operators) - 1)
    assert tab.errors() == []


def test_the_timeline_shows_partitions_and_conversions(tab):
    view = sample_view()
    tab.show(view)
    assert len(tab.attributes("#strip .mark", "d")) == 2
    (inside,) = tab.attributes("#strip .bracket", "d")
    assert inside.count("M") == 3
    (outside,) = tab.attributes("#strip .outside", "d")
    assert outside.count("M") == 2
    tab.press("#by-order")
    assert tab.one("#by-order").get_attribute("aria-pressed") == "true"
    widths = tab.run(
        "return [...document.querySelector('#strip .faint').getAttribute('d')"
        ".matchAll(/h([\\d.]+)v/g)].map(m => +m[1])"
    )
    assert max(widths) - min(widths) < 0.02
    assert tab.errors() == []


def boxes(tab, selector):
    """Left, top, right and bottom of all elements that match."""
    return tab.run(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect())"
        ".map(r => [r.left, r.top, r.right, r.bottom])",
        selector,
    )


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("build", [sample_view, lambda: large_view(300)])
def test_no_label_of_a_plot_touches_another(tab, build, width):
    tab.show(build(), width)
    for plot in ("#roofline", "#strip"):
        labels = boxes(tab, f"{plot} text")
        assert labels
        for one, other in itertools.combinations(labels, 2):
            apart = (
                one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            )
            assert apart, (plot, one, other)


@pytest.mark.parametrize("width", [360, 1280])
def test_an_order_stays_in_one_line(tab, width):
    tab.show(sample_view(), width)
    orders = tab.run(
        "return [...document.querySelectorAll('.orders span:not(:has(span))')]"
        ".map(o => [...o.querySelectorAll('i')].map(i => i.getBoundingClientRect().top))"
    )
    assert len(orders) == 4
    assert all(len(set(tops)) == 1 and len(tops) == 3 for tops in orders)


@pytest.mark.parametrize("width", [360, 1280])
def test_the_unaccounted_row_is_shown_whole(tab, width):
    tab.show(sample_view(), width)
    assert "time of the run that no operator explains" in tab.one("#rest").text.replace("\n", " ")
    cut = "return [...document.querySelectorAll('#rest *')].filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflow !== 'visible').length"
    assert tab.run(cut) == 0


def test_an_operator_of_the_list_is_shown_in_the_timeline(tab):
    view = sample_view()
    tab.show(view)
    tab.press("#layout [data-operator='0']")
    assert "TRANSPOSE" in tab.one("#about").text
    assert "C H W to H W C" in tab.one("#about").text


def background(tab):
    return tab.run("return getComputedStyle(document.body).backgroundColor")


def test_dark_follows_the_system_and_the_button(tab):
    tab.show(sample_view())
    light = background(tab)
    tab.press("#theme")
    dark = background(tab)
    assert dark != light
    assert tab.one("#theme").text == "Light"
    tab.driver.refresh()
    assert background(tab) == dark
    tab.press("#theme")
    assert background(tab) == light
    tab.show(sample_view(), dark=True)
    assert background(tab) == dark
    tab.press("#theme")
    assert background(tab) == light


def test_five_thousand_rows(tab):
    view = large_view(5000)
    tab.show(view)
    tab.press("#all")
    assert len(tab.rows()) == 560
    tab.press("th[data-key=share] button")
    assert tab.rows() == by(view, lambda row: float(f"{row.share:.5g}"))[:560]
    tab.one("#search").send_keys("layer.4999/")
    assert tab.rows() == [4999]
    # Work counted in elements, not in seconds, so that a busy machine can't fail it.
    assert tab.run("return document.getElementsByTagName('*').length") < 20_000
    assert tab.errors() == []


def test_a_resize_redraws_the_plots(tab):
    tab.show(sample_view())
    width = "return document.querySelector('#roofline svg').viewBox.baseVal.width"
    before = tab.run(width)
    tab.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 900, "deviceScaleFactor": 1, "mobile": True},
    )
    WebDriverWait(tab.driver, 20).until(lambda _: tab.run(width) < before)
    assert tab.errors() == []


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("light", 1280, False), ("dark", 1280, True), ("phone", 360, False)]
)
def test_screenshot(tab, tmp_path, name, width, dark):
    tab.show(sample_view(), width, dark=dark)
    path = tmp_path / f"report-{name}.png"
    assert tab.driver.save_screenshot(str(path))
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (width, 900)
    assert len(data) > 15_000
