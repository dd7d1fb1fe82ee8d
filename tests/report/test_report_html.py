"""The page as text: what it may load, what it escapes, how large it is, and its colours."""

import base64
import hashlib
import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
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

import straightway.report
from straightway.report import quantity
from straightway.report.html import render_html
from straightway.report.rows import category_class, script_safe
from straightway.report.view import CATEGORIES, Plan, View

TEMPLATES = Path(straightway.report.__file__).parent / "templates"
BUILDERS = [
    sample_view, different_view, refused_view, unverified_view, hostile_view, rounded_view,
]  # fmt: skip


class Page(HTMLParser):
    """Collects the elements, texts and scripts of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.scripts, self.inside = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = self.inside.removeprefix(tag)

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize("build", BUILDERS)
def test_the_same_view_gives_the_same_bytes(build):
    assert render_html(build()).encode() == render_html(build()).encode()


@pytest.mark.parametrize("build", BUILDERS)
def test_nothing_is_loaded(build):
    page = Page(render_html(build()))
    for tag, attributes in page.elements:
        assert tag not in {"iframe", "object", "embed", "base", "form", "img", "video", "audio"}
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:,"))
        assert not [name for name in attributes if name.startswith("on")]
    for name in ("report.css", "details.css", "accuracy.css"):
        css = (TEMPLATES / name).read_text()
        assert "@import" not in css
        assert re.findall(r"url\((?!#)", css) == []


def test_only_the_one_script_may_run():
    page = Page(render_html(sample_view()))
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "base-uri 'none'" in policy


def test_scripts_build_elements_without_markup():
    for path in TEMPLATES.glob("*.js"):
        text = path.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                     "fetch(", "XMLHttpRequest", "import("):  # fmt: skip
            assert word not in text, f"{word} in {path.name}"


def test_hostile_names_stay_text():
    text = render_html(hostile_view())
    page = Page(text)
    assert [t for t, _ in page.elements].count("script") == 2
    assert "window.hacked" not in page.scripts[1]
    assert "\u202e" not in text
    assert "\x00" not in text
    data = json.loads(page.scripts[0])
    assert HOSTILE[0] in data["strings"]
    assert HOSTILE[3] in page.text
    text.encode("utf-8")


def test_json_in_a_script_cannot_end_it():
    shown = script_safe({"a": ["</script>", "<!--", "&", "\u2028"]})
    assert not set("<>&\u2028") & set(shown)
    assert json.loads(shown) == {"a": ["</script>", "<!--", "&", "\u2028"]}


def test_a_thousand_operators_take_less_than_400_kB():
    assert len(render_html(large_view(1000)).encode()) < 400_000


def test_the_verdict_comes_first():
    view = sample_view()
    text = Page(render_html(view)).text
    took = quantity.significant(view.latency.ours.median_ns / 1e6)
    order = ["Equal", "2.1e-5", took, "0.81×", "Where the time goes", "One run", "Against the roofline",
             "Operators", "Layout and place", "What was compared", "Remarks", "Versions"]  # fmt: skip
    start = text.index("converted in")
    places = [text.index(word, start) for word in order]
    assert places == sorted(places)


def test_the_page_says_which_bandwidths_operators_are_held_against():
    text = Page(render_html(sample_view())).text
    assert "GB/s by bytes moved: 410 at 65.5 kB, 205 at 1.05 MB, 21.7 at 16.8 MB" in text
    assert "58.4 GMAC/s, 410 GB/s up to 65.5 kB" in text
    assert "21.7 GB/s from 16.8 MB" in text


def test_a_refused_page_has_causes_and_no_timings():
    page = Page(render_html(refused_view()))
    assert "Refused" in page.text
    assert "8 nodes" in page.text
    assert "Export one step of the loop" in page.text
    assert "What stands in the way" in page.text
    for absent in ("Where the time goes", "One run", "Layout and place", "What was compared"):
        assert absent not in page.text


def test_a_different_page_shows_both_values_and_the_operators():
    text = Page(render_html(different_view())).text
    assert "Where it starts to differ" in text
    assert "0.8312907" in text
    assert "-inf" in text
    assert "Nothing was measured" in text
    assert "Where the time goes" not in text


def test_noise_is_not_called_a_gain():
    view = sample_view()
    reference = replace(view.latency.reference, p10_ns=view.latency.ours.p10_ns)
    text = Page(render_html(replace(view, latency=replace(view.latency, reference=reference)))).text
    assert "no clear difference" in text
    slower = replace(view.latency.reference, median_ns=1e6, p10_ns=1e6, p90_ns=1e6)
    text = Page(render_html(replace(view, latency=replace(view.latency, reference=slower)))).text
    assert "more time" in text


def test_a_bare_view_renders():
    view = sample_view()
    bare = View(title="", created="", model=view.model, verdict=unverified_view().verdict)
    assert "Not verified" in Page(render_html(bare)).text
    alone = replace(bare, latency=replace(view.latency, reference=None), plan=Plan(minimal=True))
    assert "No layout conversion is left." in Page(render_html(alone)).text


@pytest.mark.parametrize("worst", [0.0, 1e-30, 3.8e-4, 1.0, float("inf"), float("nan")])
def test_the_error_gauge_stays_on_its_track(worst):
    view = sample_view()
    view = replace(view, verdict=replace(view.verdict, worst_error=worst))
    page = Page(render_html(view))
    style = next(a["style"] for t, a in page.elements if a.get("class") == "worst")
    assert 0 <= float(re.fullmatch(r"left:([\d.]+)%", style)[1]) <= 100


def test_every_category_has_a_colour():
    css = (TEMPLATES / "report.css").read_text()
    for name in CATEGORIES:
        assert f".{category_class(name)} {{" in css
    assert category_class("anything else") == "cat-other"


# Machado, Oliveira, Fernandes, "A physiologically-based model for simulation of color vision
# deficiency", IEEE TVCG 15(6), 2009: matrices of severity 1 on linear RGB.
VISIONS = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def palette(theme):
    css = (TEMPLATES / "report.css").read_text()
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    return {name: linear(dark if theme else light) for name, light, dark in found}


def linear(code):
    channels = np.array([int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    ratio = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    low, high = sorted(float(rgb @ [0.2126, 0.7152, 0.0722]) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("vision", VISIONS)
def test_colours_of_categories_are_told_apart(theme, vision):
    colours = palette(theme)
    seen = {
        name: lab(np.array(VISIONS[vision]) @ colours[name.replace(" ", "-")])
        for name in CATEGORIES[:8]
    }
    closest = min(
        (float(np.linalg.norm(seen[a] - seen[b])), a, b) for a, b in itertools.combinations(seen, 2)
    )
    assert closest[0] > 10, closest


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("name", ["ink", "soft", "good", "bad", "warn"])
def test_text_has_contrast(theme, name):
    colours = palette(theme)
    for ground in ("page", "card", "inset"):
        assert contrast(colours[name], colours[ground]) >= 4.5


def test_a_plan_that_is_not_proven_minimal_says_its_bound():
    view = sample_view()
    plan = replace(view.plan, minimal=False, bound_bytes=1_500_000)
    text = Page(render_html(replace(view, plan=plan))).text
    assert "1.77 MB, bound 1.50 MB" in text
    assert "any plan moves at least 1.50 MB" in text
    assert "minimal" not in text.split("Remarks")[0]
