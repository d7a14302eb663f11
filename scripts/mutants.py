# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change one rule of the library at a time, and name the changes that no test notices (`make mutants`).

A mutant is one file with one small change: another comparison, `and` for `or`, another constant, None for what is
returned. It is made in a copy of the working tree, and judged by the unit tests of its room. One that survives is a
rule without a test, or a change that makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "plugins/module_utils"
#: The rooms whose rules need neither Slurm nor a network. The tests of a room are tests/unit/ROOM, and these.
ROOMS = ("spec", "plan", "slurm", "run", "prune", "submit", "usage", "reconcile", "diagnosis")
MORE_TESTS = {
    "plan": ("tests/golden",),
    "spec": ("tests/unit/jobs", "tests/unit/plan"),
    "slurm": ("tests/unit/submit",),
    "submit": ("tests/unit/run",),
    "run": ("tests/unit/submit", "tests/unit/prune", "tests/unit/watch"),
}
#: All tests that `make unit` runs.
FAST = ("tests/unit", "tests/golden", "--ignore=tests/unit/runtime", "--ignore=tests/unit/pyenv")

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


@dataclass(frozen=True)
class Mutant:
    """A change of one expression. `start`, `end`: its place in the file in bytes."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    @property
    def room(self) -> str:
        """The room of its file."""
        return self.path.split("/")[2]

    def words(self) -> str:
        """Where it is and what it changes, in one line."""
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"

    def applied(self, text: str) -> str:
        """The file's text with the change. Lines above it keep their numbers."""
        data = text.encode()
        return (data[: self.start] + f"({self.after})".encode() + data[self.end :]).decode()


def mutants_of(path: str, text: str) -> list[Mutant]:
    """All mutants of a file, in the order of their places. `path`: as it is named."""
    starts = [0]
    for line in text.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    for node, changed in _changes(ast.parse(text)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(path, node.lineno, start, end, ast.unparse(node), changed))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Each expression below a node that can be changed, with its changed text. Declarations are not rules: types,
    f-strings, and the constants of a module's or a class's own level.
    """
    if isinstance(node, ast.expr):
        for changed in _of_expression(node):
            yield node, changed
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield node.value, "None"
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            declared = isinstance(node, (ast.Module, ast.ClassDef)) and isinstance(child, (ast.Assign, ast.AnnAssign))
            if isinstance(child, ast.AST) and not declared and not isinstance(child, (ast.JoinedStr, ast.Import)):
                yield from _changes(child)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _of_expression(node: ast.expr) -> Iterator[str]:
    """The texts of an expression with one change at its top."""
    if isinstance(node, ast.Compare):
        for place, old in enumerate(node.ops):
            for new in COMPARISONS[type(old)]:
                ops = [*node.ops[:place], new(), *node.ops[place + 1 :]]
                yield ast.unparse(ast.Compare(left=node.left, ops=ops, comparators=node.comparators))
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield ast.unparse(ast.BoolOp(op=other, values=node.values))
        for place in range(len(node.values)):
            rest = [value for at, value in enumerate(node.values) if at != place]
            yield ast.unparse(ast.BoolOp(op=node.op, values=rest) if len(rest) > 1 else rest[0])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield str(node.value + 1)


def candidates(root: Path, rooms: Sequence[str]) -> list[Mutant]:
    """All mutants of these rooms."""
    found = []
    for room in rooms:
        for path in sorted((root / LIBRARY / room).rglob("*.py")):
            found += mutants_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    return found


def copy_of(root: Path, place: Path) -> Path:
    """Copy the working tree without what git ignores, as a checkout that its tests can import. Returns the copy."""
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    copy = place / "checkout"
    for name in subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and os.path.lexists(root / name):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name, follow_symlinks=False)
    # Tests ask git for the files of the tree.
    subprocess.run(["git", "-C", str(copy), "init", "--quiet"], check=True)
    link = copy / ".cache" / "collections" / "ansible_collections" / "rankzero" / "slurm"
    link.parent.mkdir(parents=True)
    link.symlink_to(copy)
    return copy


def passes(copy: Path, tests: Sequence[str], seconds: float | None = None) -> bool:
    """Whether these tests pass in the copy; False if they take longer than this. A mutant may never end."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(copy.parent / "pycache")}
    try:
        done = subprocess.run(words, check=False, cwd=copy, env=environment, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def tests_of(room: str) -> list[str]:
    """The unit tests that hold the rules of a room."""
    return [f"tests/unit/{room}", *MORE_TESTS.get(room, ())]


def survives(copy: Path, mutant: Mutant, seconds: float, *, whole: bool = False) -> bool:
    """Whether the tests of its room pass with the mutant, within this time; with `whole`, also all fast tests."""
    file = copy / mutant.path
    text = file.read_text(encoding="utf-8")
    file.write_text(mutant.applied(text), encoding="utf-8")
    # Two mutants within a second could have one size, and so one and the same bytecode for Python.
    later = time.time() + random.Random(mutant.words()).randrange(1, 10**6)
    os.utime(file, (later, later))
    try:
        return passes(copy, tests_of(mutant.room), seconds) and (not whole or passes(copy, FAST))
    finally:
        file.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="how many mutants (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="another number draws other mutants")
    parser.add_argument("--whole", action="store_true", help="a mutant that survives its room meets all fast tests")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"default: {' '.join(ROOMS)}")
    given = parser.parse_args(arguments)
    rooms = given.rooms or ROOMS
    chosen = candidates(ROOT, rooms)
    chosen = random.Random(given.seed).sample(chosen, min(given.count, len(chosen)))
    alive = []
    with tempfile.TemporaryDirectory(prefix="rankzero-mutants-") as place:
        copy = copy_of(ROOT, Path(place))
        limits = {}
        for room in sorted({mutant.room for mutant in chosen}):
            began = time.monotonic()
            if not passes(copy, tests_of(room)):
                print(f"{room}: its tests do not pass unchanged, or there are none", file=sys.stderr)
                return 2
            limits[room] = 30 + 10 * (time.monotonic() - began)
        for number, mutant in enumerate(chosen, 1):
            if survives(copy, mutant, limits[mutant.room], whole=given.whole):
                alive.append(mutant)
                print(mutant.words(), flush=True)
            if sys.stderr.isatty():
                print(f"{number} of {len(chosen)}, {len(alive)} survive", end="\r", file=sys.stderr)
    print(f"{len(alive)} of {len(chosen)} mutants survive (seed {given.seed}; {', '.join(rooms)})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
