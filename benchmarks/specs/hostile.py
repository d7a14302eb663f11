# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job specs in which every text is hostile: a shell, a template or sbatch could misinterpret it."""

from __future__ import annotations

import random
import string
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import reserved

#: Each would leave a file in the canary's folder if a shell interpreted it.
EXECUTABLE = [
    "$(touch CANARY/a)", "`touch CANARY/b`", "; touch CANARY/c;", "' ; touch CANARY/d; '", '" ; touch CANARY/e; "',
    "\ntouch CANARY/f\n", "&& touch CANARY/g", "| touch CANARY/h", "${x:=$(touch CANARY/i)}", "\\\ntouch CANARY/j",
    "x\n#SBATCH --comment=`touch CANARY/k`\n", "a[$(touch CANARY/l)]", "<(touch CANARY/m)", "> CANARY/n",
    "{{ 7 * 7 }}", "{% raw %}", "{# x #}", "'\"$(touch CANARY/o)\"'",
    "$'\\x24(touch CANARY/p)'", "EOF\ntouch CANARY/q\n",
]  # fmt: skip
AWKWARD = [
    "", " ", "  two  ", "-", "--", "-n", "--output=x", "#", "# x", "\\", "\\\\", "!!", "*", "?", "[a-z]", "~", "~root",
    "$HOME", "${PATH}", "$", "'", "''", '"', "a'b\"c", "\t", "\n", "\n\n", "\r\n", "é", "日本語", "🚀", "\u2028",
    "\u200d", "\x01", "\x1b[31m", "\x7f", "\x80", "\ufeff", "=", "a=b", ",", ";", "&", "%j", "%", "null", "(", ")",
    "{a,b}", "EOF", "GENERATION-0123456789abcdef01234567", "GENERATION-",
]  # fmt: skip


class Hostile:
    """Draws specs. `folder`: an absolute path whose `canary` must stay empty. The same seed gives the same specs."""

    def __init__(self, seed: int, folder: str) -> None:
        self.draw = random.Random(seed)
        self.folder = folder

    def text(self) -> str:
        draw, kind = self.draw, self.draw.random()
        if kind < 0.35:
            words = [draw.choice(EXECUTABLE)]
        elif kind < 0.6:
            words = [draw.choice(AWKWARD)]
        elif kind < 0.8:
            words = [draw.choice(EXECUTABLE + AWKWARD) for _word in range(draw.randint(2, 4))]
        else:
            words = [chr(draw.choice([draw.randint(1, 0x2FF), draw.randint(0xE000, 0xFFFF)])) for _char in range(30)]
        return "".join(words).replace("CANARY", f"{self.folder}/canary")

    def line(self) -> str:
        """A text without control characters."""
        return "".join(char for char in self.text() if char >= " " and char != "\x7f")

    def part(self) -> str:
        """A part of a path on the cluster, which must not contain a newline, % or a backslash."""
        word = "".join(char for char in self.line() if char not in "/%\\")[:40]
        return word if word.strip() not in ("", ".", "..") else "$(id)"

    def name(self) -> str:
        """The name of a variable. Names that our own scripts use are allowed too."""
        while True:
            short = self.draw.choice(["log", "name", "value", "code", "line", "owner", "x", "i", "A", "step", "node"])
            more = "".join(self.draw.choices(string.ascii_letters + string.digits + "_", k=self.draw.randint(0, 9)))
            name = short + more
            if not reserved(name):
                return name

    def spec(self) -> dict[str, Any]:
        draw = self.draw
        env = {}
        for name in {self.name() for _number in range(draw.randint(0, 6))}:
            # A value that refers to its own variable is refused.
            env[name] = self.text().replace("$" + name, "$").replace("${" + name + "}", "$")
        made: dict[str, Any] = {
            "name": draw.choice(["job", "a.b-c_d", "-x"[1:], "EOF", "0"]),
            "env": env,
            "resources": {
                "nodes": draw.randint(1, 9),
                "sbatch": {"comment": self.line(), "mail-user": self.line()},
                "gres": draw.choice([[], ["lscratch:5"]]),
            },
            "launcher": {"kind": draw.choice(["srun", "torchrun"]), "srun": {"prolog": self.line()}},
        }
        if draw.random() < 0.3:
            made["shell"] = self.text() + "x"
        else:
            made["command"] = [draw.choice(["train.py", "./" + self.part()]), *(self.text() for _word in range(8))]
        if draw.random() < 0.6:
            made["artifact"] = {"path": "a" + self.part(), "then": draw.choice(["end", "let_run"])}
        if draw.random() < 0.3:
            made["checkpoint"] = {"dir": f"{self.folder}/c{self.part()}"}
        return made
