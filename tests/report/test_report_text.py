"""The summary on a terminal, a pipe, and an old console."""

import io
import re
from dataclasses import replace

import pytest
from hostile_view import hostile_view
from rich.cells import cell_len
from rich.console import Console
from sample_view import (
    different_view,
    large_view,
    refused_view,
    sample_view,
    unverified_view,
)

from straightway.report.text import plan_text, print_summary, ratio_text
from straightway.report.view import Plan


class Stream(io.StringIO):
    """A text stream with an encoding of its own."""

    def __init__(self, encoding):
        super().__init__()
        self.asked = encoding

    @property
    def encoding(self):
        return self.asked


def summary(view, *, width=80, encoding="utf-8", terminal=False):
    stream = Stream(encoding)
    console = Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
    )
    print_summary(view, console)
    return stream.getvalue()


def test_the_verdict_comes_first():
    lines = summary(sample_view()).splitlines()
    assert lines[0].startswith("✓ Equal  nudenet_yolov8n.onnx → nudenet_yolov8n.tflite")
    text = " ".join(" ".join(lines[1:3]).split())
    assert text.endswith("worst error 2.1e-5 of 3.8e-4 allowed.")


def test_what_eight_bits_cost_stands_beside_the_verdict():
    view = sample_view()
    verdict = replace(view.verdict, accuracy="34.2 dB signal to error against the float model")
    first = " ".join(summary(replace(view, verdict=verdict), width=200).splitlines()[0].split())
    assert first.startswith("✓ Equal, 34.2 dB signal to error against the float model nudenet")


def test_sections_of_a_measured_run():
    text = summary(sample_view())
    order = ["Equal", "Latency", "0.81× the time of onnxruntime", "Time", "convolution",
             "unaccounted", "Slowest operators", "Layout", "minimal, proven", "Left undone"]  # fmt: skip
    places = [text.index(word) for word in order]
    assert places == sorted(places)


def test_the_slowest_operators_are_sorted():
    view = sample_view()
    text = summary(view)
    block = text[text.index("Slowest operators") : text.index("Layout")]
    shown = [int(found) for found in re.findall(r"^ +(\d+)  [A-Z]", block, re.MULTILINE)]
    by_time = sorted(view.operators, key=lambda row: -row.time_ns)
    assert shown == [row.index for row in by_time[:10]]


@pytest.mark.parametrize(
    "build",
    [
        sample_view,
        different_view,
        refused_view,
        unverified_view,
        hostile_view,
        lambda: large_view(300),
    ],
)
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(build, width):
    text = summary(build(), width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_a_pipe_gets_no_escape_codes_and_a_terminal_gets_colours():
    assert "\x1b" not in summary(sample_view())
    assert "\x1b[" in summary(sample_view(), terminal=True)


def test_names_cannot_send_escape_codes_or_markup():
    text = summary(hostile_view())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]markup[/red]" in text


def test_an_ascii_console_gets_ascii_marks():
    text = summary(sample_view(), encoding="ascii")
    assert text.startswith("+ Equal  nudenet_yolov8n.onnx -> ")
    assert not set(text) & set("✓█▓▒░━→")


def test_a_refusal_lists_causes_and_remedies_once():
    text = summary(refused_view())
    assert "⊘ Refused" in text
    assert "Loop /decoder/layers.0/Loop (and 7 more)" in text
    assert text.count("Split the tokenizer off before export.") == 1
    assert "Latency" not in text
    assert "Left undone" not in text


def test_a_difference_names_the_first_node_and_both_values():
    text = summary(different_view())
    for word in (
        "✗ Different",
        "MaxPool /model.9/m/MaxPool",
        "0.8312907",
        "-inf",
        "worst error inf",
    ):
        assert word in text


def test_noise_is_said_to_be_noise():
    latency = sample_view().latency
    assert ratio_text(latency) == "0.81× the time of onnxruntime"
    wide = replace(latency, reference=replace(latency.reference, p10_ns=0.0))
    assert ratio_text(wide) == "0.81× the time of onnxruntime, within the noise"
    assert ratio_text(replace(latency, reference=None)) == ""


def test_plan_as_a_sentence():
    conversions = sample_view().plan.conversions
    assert plan_text(Plan(minimal=True)) == "No layout conversion is left."
    assert plan_text(Plan(minimal=False, conversions=conversions, bound_bytes=1_000_000)) == (
        "2 conversions left, 1.77 MB: any plan moves at least 1.00 MB."
    )
    assert plan_text(Plan(minimal=False, conversions=conversions)) == "2 conversions left, 1.77 MB."
    assert plan_text(Plan(minimal=True, text="said")) == "said"


def test_a_long_list_says_how_much_it_leaves_out():
    view = sample_view()
    missed = tuple(replace(view.remarks[0], node=f"/n{index}") for index in range(9))
    text = summary(replace(view, remarks=missed, notes=("measured on battery",)))
    assert "/n4" in text
    assert "/n5" not in text
    assert "and 4 remarks more, see the report" in text
    assert text.rstrip().endswith("measured on battery")
