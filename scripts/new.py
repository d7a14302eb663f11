# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the file, the rows and the lines of tests of an addition: `make new KIND=tracker NAME=neptune`.

The worked additions of contributing/extending.md are the templates: the lines of a diff are inserted where it inserts
them, with the name in the place of the worked one. What is particular to the addition is then edited by hand.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = "contributing/extending.md"
#: KIND -> the section of the page, and the name of its worked addition.
KINDS = {
    "launcher": ("A launcher", "numa"),
    "container": ("A container runtime", "charliecloud"),
    "fabric": ("A fabric", "omni_path"),
    "family": ("A failure family", "inotify_limit"),
    "format": ("An artifact format", "jsonl"),
    "tracker": ("An experiment tracker", "swanlab"),
    "option": ("A Slurm option", "licenses"),
    "input": ("A kind of input", "weights"),
}
NAME = re.compile(r"[a-z][a-z0-9_]{1,30}")
HUNK = re.compile(r"^@@ .*\n", re.M)


@dataclass(frozen=True)
class Section:
    """A section of the page: its diff, and the tests that check an addition of its kind."""

    diff: str
    checks: str


def section(root: str, kind: str) -> Section:
    """Read the section of a kind."""
    with open(os.path.join(root, PAGE), encoding="utf-8") as stream:
        text = stream.read().partition(f"\n## {KINDS[kind][0]}\n")[2].partition("\n## ")[0]
    diff, checks = re.search(r"^```diff\n(.*?)^```$", text, re.M | re.S), re.search(r"`pytest (.+?)`\.$", text, re.M)
    if diff is None or checks is None:
        raise SystemExit(f"{PAGE} has no diff, or no checks, in the section of {kind}")
    return Section(diff[1], checks[1])


def renamed(text: str, worked: str, name: str) -> str:
    """The text with a name in the place of the worked one, in all its spellings. A part of a word is left alone."""
    spellings = {spell(worked): spell(name) for spell in (str, str.upper, str.capitalize)}
    pattern = "|".join(map(re.escape, spellings))
    text = re.sub(rf"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])", lambda match: spellings[match[0]], text)
    # Slurm writes its options with dashes.
    return re.sub(r'Sbatch\("([a-z_]+)"\)', lambda match: match[0].replace("_", "-"), text)


def insert(text: str, hunk: str, path: str) -> str:
    """The text with the changes of a hunk: added lines come after those that the hunk has before them, and take the
    place of lines that it takes away. What is there already is left.
    """
    before = ""
    for mark, lines in itertools.groupby(hunk.splitlines(keepends=True), lambda line: line[:1] in ("+", "-")):
        group = list(lines)
        removed, added = ("".join(line[1:] for line in group if line[0] == sign) for sign in "-+")
        if mark and before + added not in text:
            if text.count(before + removed) != 1:
                raise SystemExit(f"{path} has not once the lines where the addition belongs:\n{before}{removed}")
            text = text.replace(before + removed, before + added)
        before += added if mark else "".join(line[1:] for line in group)
    return text


def write(root: str, kind: str, name: str) -> list[str]:
    """Write an addition below `root`. Returns the files that were written, relative to it. Nothing is written if any of
    them cannot be.
    """
    worked = KINDS[kind][1]
    parts = re.split(r"^diff --git a/\S+ b/(\S+)\n", section(root, kind).diff, flags=re.M)[1:]
    texts = {}
    for path, part in zip(parts[::2], parts[1::2]):
        head, *hunks = HUNK.split(part)
        if head.startswith("new file mode"):
            path = renamed(path, worked, name)
            if os.path.exists(os.path.join(root, path)):
                raise SystemExit(f"{path} is there already: choose another NAME")
            texts[path] = renamed("".join(line[1:] for line in hunks[0].splitlines(keepends=True)), worked, name)
            continue
        with open(os.path.join(root, path), encoding="utf-8") as stream:
            texts[path] = stream.read()
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            new = "".join(renamed(line, worked, name) if line.startswith("+") else line for line in lines)
            texts[path] = insert(texts[path], new, path)
    for path, text in texts.items():
        with open(os.path.join(root, path), "w", encoding="utf-8") as stream:
            stream.write(text)
    python = [path for path in texts if path.endswith(".py")]
    # A name may sort elsewhere among the imports, and be longer.
    for words in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *words, "--no-cache", *python], cwd=root, check=True)
    return list(texts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write an addition to the collection.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("name")
    given = parser.parse_args()
    if not NAME.fullmatch(given.name):
        parser.error(f"NAME must be small letters, digits and _, at most 31, beginning with a letter; not {given.name}")
    for path in write(ROOT, given.kind, given.name):
        print(f"wrote {path}")
    print(f"Edit what is particular to {given.name}; {PAGE} explains it. Then: make reference, and")
    print(f"    scripts/test {section(ROOT, given.kind).checks}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
