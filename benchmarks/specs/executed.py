# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a spec's script with the real template and run it with bash, to check that it passes on what was written.

The job's runtime is replaced by one that records how it is called, which needs one process per spec instead of a
hundred. How the real runtime handles hostile texts is tested in tests/unit/runtime/test_strings.py.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import bundle_key, publish_files
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from tests.plans import plan

CODE = "c" * 64
#: What the recording runtime does instead of starting ranks.
RECORD = 'rankzero_launch() { printf "%s\\0" "$@" > "$SEEN/argv"; /usr/bin/env -0 > "$SEEN/env"; }\n'


class Ground:
    """A folder in which scripts run one after another. `state_root` may have any name."""

    def __init__(self, folder: Path, state_root: str) -> None:
        self.folder = folder
        self.state = folder / state_root
        self.seen = folder / "seen"
        self.canary = folder / "canary"
        functions = {
            name
            for path in Path(RUNTIME).glob("*/*.sh")
            for name in re.findall(r"^(rankzero_\w+)\(\)", path.read_text(encoding="utf-8"), re.MULTILINE)
        }
        nothing = "".join(f"{name}() {{ :; }}\n" for name in sorted(functions))
        # The script checks that the folder's name is the digest of the files in it and its subfolders.
        files = {"owner.py": "", "start/job.sh": nothing + RECORD}
        self.key = bundle_key(files)
        (self.state / "runtime").mkdir(parents=True)
        publish_files(str(self.state / "runtime" / self.key), files)
        for made in (self.seen, self.canary):
            made.mkdir()
        self.before = {path.name for path in folder.iterdir()}

    def run(self, spec: Mapping[str, Any]) -> list[str]:
        """What is wrong; empty if every byte is as written and nothing was executed."""
        merged = merge([Layer("job.yml", dict(spec))])
        made = plan(
            validated(merged),
            merged,
            code_key=CODE,
            environment_key=None,
            runtime_key=self.key,
            state_root=str(self.state),
            store_root=str(self.folder / "store"),
        )
        script = with_generation(render_script(made), made.token, 1)
        for name in ("argv", "env"):
            (self.seen / name).unlink(missing_ok=True)
        done = subprocess.run(
            ["/bin/bash", "-s"],
            input=script.encode(),
            env={"SEEN": str(self.seen), "RANKZERO_LOGS": "/nowhere", "PATH": os.defpath},
            cwd=self.canary,
            capture_output=True,
            check=False,
        )
        problems = (
            []
            if done.returncode == 0 and not done.stderr
            else [f"bash: {done.returncode} {done.stdout!r} {done.stderr!r}"]
        )
        problems += [f"executed: {path.name}" for path in self.canary.iterdir()]
        problems += [f"made: {name}" for name in {path.name for path in self.folder.iterdir()} - self.before]
        if not problems:
            problems += self._header(made, script) + self._argv(made) + self._env(made)
        return problems

    def _header(self, made: Plan, script: str) -> list[str]:
        """Read the #SBATCH lines as sbatch does: up to the first line that is not a comment; double quotes group, and a
        backslash takes the next character literally.
        """
        head = itertools.takewhile(lambda line: not line or line.startswith("#"), script.split("\n"))
        lines = [line for line in head if line.startswith("#SBATCH")]
        read = []
        for line in lines:
            option = line.removeprefix("#SBATCH --")
            name, equals, value = option.partition("=")
            if value.startswith('"') and value.endswith('"'):
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            read.append((name, value if equals else True))
        wanted = [
            (name, value if value is True else with_generation(str(value), made.token, 1))
            for name, value in made.header
        ]
        return [] if read == wanted else [f"header: {read} is not {wanted}"]

    def _argv(self, made: Plan) -> list[str]:
        words = [os.fsdecode(word) for word in (self.seen / "argv").read_bytes().split(b"\0")[:-1]]
        options = [f"--{name}" if value is True else f"--{name}={value}" for name, value in made.step]
        problems = [] if words[1 : 1 + len(options)] == options else [f"srun: {words} is not {options}"]
        ours, launcher = made.topology.starter.script, made.topology.words
        at = next(index for index, word in enumerate(words) if word.endswith(f"/{self.key}/{ours}"))
        wanted = [*([str(len(launcher)), *launcher] if launcher else []), *made.argv]
        return problems + ([] if words[at + 1 :] == wanted else [f"argv: {words[at + 1 :]} is not {wanted}"])

    def _env(self, made: Plan) -> list[str]:
        pairs = [os.fsdecode(pair) for pair in (self.seen / "env").read_bytes().split(b"\0")[:-1]]
        values = dict(pair.split("=", 1) for pair in pairs)
        wanted = {variable.name: variable.value for variable in made.variables}
        wanted |= dict(made.exports)
        if made.spec.artifact:
            wanted["RANKZERO_ARTIFACT_PATH"] = made.spec.artifact.path
        wanted["RANKZERO_RUN_DIR"] = with_generation(made.run_dir, made.token, 1)
        wrong = {name: value for name, value in wanted.items() if values.get(name) != value}
        return [f"env {name}: {values.get(name)!r} is not {value!r}" for name, value in wrong.items()]
