# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pattern matches what a regular expression of it would, and no pattern takes for ever."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.store.wildcards import Wildcards

PARTS = st.sampled_from(["a", "b", "ab", "*", "**/", "/**", "?", "/", "[ab]", "[!a]", ".", "+", "[", "]"])
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "ba", ".", "aab", "/"]), min_size=1, max_size=9).map("".join)


def said_by_re(pattern: str, path: str) -> bool:
    """The meaning, as one regular expression that tries all ways."""
    body = pattern.rstrip("/")
    text = "" if "/" in body else r"(?:.*/)?"
    for part in re.split(r"(\*\*/|/\*\*$|\*|\?|\[[^\]]+\])", body.lstrip("/")):
        known = {"**/": "(?:.*/)?", "/**": "/.*", "*": "[^/]*", "?": "[^/]"}
        if part in known:
            text += known[part]
        elif part.startswith("[") and part.endswith("]") and len(part) > 2:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            text += "[^" + inside[1:] + "]" if inside[0] == "!" else "[" + inside + "]"
        else:
            text += re.escape(part)
    return re.compile(text + ("/" if pattern.endswith("/") else r"(?:/|\Z)"), re.DOTALL).match(path) is not None


@given(st.lists(PARTS, min_size=1, max_size=6).map("".join).filter(lambda text: text.strip("/")), PATHS)
def test_a_pattern_means_the_same_in_both_ways(pattern: str, path: str) -> None:
    expected = said_by_re(pattern, path)
    wild = Wildcards(pattern)
    assert wild.matches(path) == expected
    assert (re.compile(wild.expression(), re.DOTALL).match(path) is not None) == expected


@pytest.mark.parametrize("pattern", ["*.log", "/data/", "docs/**/*.md", "**/big", "out/**", "a*b*c/d*e"])
def test_usual_patterns_are_expressions(pattern: str) -> None:
    assert Wildcards(pattern).few


HANG = """
import sys
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import matcher
for pattern in ("*a" * 20 + "*b", "**/" * 12 + "b", "?*" * 20 + "b", "a*" * 30 + "/**/" + "*a" * 30 + "/**/c"):
    for path in ("a" * 255, "/".join(["a" * 80] * 50), "a/" * 2000 + "a"):
        print(matcher([pattern])(path))
"""


def test_no_pattern_hangs() -> None:
    """The child is killed only where it would run for hours."""
    done = subprocess.run(
        [sys.executable, "-c", HANG], capture_output=True, text=True, timeout=300, check=True, env={
            "PYTHONPATH": ":".join(sys.path)
        },
    )  # fmt: skip
    assert set(done.stdout.split()) == {"False"}
