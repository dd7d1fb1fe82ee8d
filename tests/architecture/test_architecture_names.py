"""Names say what a thing is, and no file tells of what does not belong to the project."""

import re

import pytest
from source_tree import ROOT, modules, own_texts

FORBIDDEN_MODULES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
# Assembled, so that this file does not hold what it forbids.
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
PRIVATE = tuple("/" + folder + "/" for folder in ("work", "root", "tmp/w"))
HOSTS = ("pypi." + "org", "python" + "hosted", "npmjs." + "org", "debian." + "org")
WHOLE_WORDS = re.compile(r"\b(" + "|".join(UNFINISHED) + r")\b")


@pytest.fixture(scope="module")
def texts():
    found = dict(own_texts())
    assert len(found) > 100
    return found


def test_no_module_is_a_drawer():
    assert not [m.name for m in modules() if m.name.rpartition(".")[2] in FORBIDDEN_MODULES]


def test_tests_and_scripts_follow_the_same_rule():
    scripts = [
        p for folder in ("tests", "benchmarks", "docs") for p in ROOT.glob(f"{folder}/**/*.py")
    ]
    assert not [str(p) for p in scripts if p.stem in FORBIDDEN_MODULES]


def test_nothing_is_left_for_later(texts):
    assert not [name for name, text in texts.items() if WHOLE_WORDS.search(text)]


@pytest.mark.parametrize("word", [*PRIVATE, *HOSTS])
def test_no_private_path_and_no_registry_is_named(texts, word):
    assert not [name for name, text in texts.items() if word in text.lower()]
