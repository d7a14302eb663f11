# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection declares, `init` finds in a batch script: each option of sbatch, each launcher."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import FieldInfo, fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS, Starter
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import Resources
from rankzero.sbatch import declared, step
from rankzero.sbatch.convert import converted
from rankzero.sbatch.job import Row
from rankzero.sbatch.recorder import Script
from rankzero.sbatch.translate import translated
from tests.unit.command.sbatch.recorded import needs_sandbox

pytestmark = needs_sandbox

#: Values on the nodes, as a script may have them.
VALUES = {"python": "python3", "nodes": "2", "ranks_per_node": "4", "world_size": "8", "node": "$SLURM_NODEID"}
#: `--no-kill` of a script says nothing of spare nodes.
OPTIONS = [info for info in fields_of(Resources) if info.meta["sbatch"] and info.meta["sbatch"].name != "no-kill"]
COLOSSAL = Starter(
    kind="colossal",
    doc="another launcher with one task per node",
    per="node",
    command=(
        *("{python}", "-m", "colossal.launch", "--wide", "--num_machines={nodes}"),
        *("--num_processes={world_size}", "--machine_rank={node}", "{rendezvous}", "--no_python", "{rank}"),
    ),
    rendezvous={"static": ("--main_process_ip={master_addr}", "--main_process_port={master_port}")},
)
HWLOC = Starter(kind="hwloc", doc="bound to memory", per="rank", command=("hwloc-bind", "--membind", "{rank}"))


def job_of(folder: Path, script: str) -> tuple[dict[str, Any], list[Row]]:
    """The job of a script, and what of it only the script itself can say."""
    (folder / "train.py").touch()
    path = folder / "x.sbatch"
    path.write_text(script, encoding="utf-8")
    made = converted(str(path), str(folder / "jobs"))
    return yaml.safe_load(made.text), [row for row in made.rows if row.kept]


@pytest.mark.parametrize("info", OPTIONS, ids=lambda info: info.path)
def test_each_option_of_sbatch_sets_the_key_that_declares_it(info: FieldInfo, tmp_path: Path) -> None:
    example = info.meta["example"]
    value = "" if example is True else f"={','.join(example) if isinstance(example, list) else example}"
    spec, kept = job_of(tmp_path, f"#!/bin/bash\n#SBATCH --{info.meta['sbatch'].name}{value}\nsrun train.py\n")
    assert (kept, spec["resources"].get("sbatch")) == ([], None)
    made = parse(merge([Layer("script", spec)]))
    assert made.problems == []
    wanted = parse(merge([Layer("job", {"name": "x", "resources": {info.path: example}})])).spec
    assert getattr(made.spec.resources, info.path) == getattr(wanted.resources, info.path)


def declare(monkeypatch: pytest.MonkeyPatch, row: Starter) -> None:
    """Add a launcher to those that `init` knows."""
    monkeypatch.setitem(step.STARTERS, row.kind, declared.starter(row))


def spec_of(folder: Path, row: Starter) -> tuple[dict[str, Any], list[Row]]:
    """The job of a script that starts two nodes with four ranks each by the launcher, as its record does."""
    values = {**VALUES, "nodes": "1"} if row.one_node else VALUES
    words = row.words(row.meets("static"))[:-1] if row.command else ()
    filled = [
        re.sub(r"\{(\w+)\}", lambda match: values.get(PLACES.get(match[1], match[1]), "$SLURM_JOB_ID"), word)
        for word in words
    ]
    tasks = 4 if row.per == "rank" else 1
    head = f"#!/bin/bash\n#SBATCH --nodes={1 if row.one_node else 2}\n#SBATCH --ntasks-per-node={tasks}\n"
    (folder / "train.py").touch()
    # A cluster's own launcher is not one that `plan` knows here.
    job = translated(Script(f"{head}srun {' '.join([*filled, 'train.py', '--lr', '1'])}\n", str(folder)))
    return job.spec, job.kept


PLACES = {"RANKZERO_PYTHON": "python", "RANKZERO_NODES": "nodes", "RANKZERO_RANKS_PER_NODE": "ranks_per_node",
          "RANKZERO_WORLD_SIZE": "world_size", "SLURM_NODEID": "node"}  # fmt: skip


#: The ones whose command a script has: not those that start the ranks of all nodes themselves.
READ = [row for row in STARTERS if row.per != "job"]


@pytest.mark.parametrize("row", [*READ, COLOSSAL, HWLOC], ids=lambda row: row.kind)
def test_each_launcher_is_found_by_the_words_of_its_command(
    row: Starter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if row not in STARTERS:
        declare(monkeypatch, row)
    spec, kept = spec_of(tmp_path, row)
    assert kept == []
    assert (spec["launcher"]["kind"], spec["command"]) == (row.kind, ["train.py", "--lr", "1"])
    assert spec["launcher"]["ranks_per_node"] == 4


def test_an_option_that_a_declared_launcher_does_not_set_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = "#!/bin/bash\n#SBATCH -N2\nsrun colossal launch --num_processes 8 --num_machines 2 --wide --odd 1 train.py\n"
    assert job_of(tmp_path, line)[0]["launcher"]["kind"] == "srun"
    declare(monkeypatch, COLOSSAL)
    spec, kept = job_of(tmp_path, line)
    assert spec["script"] == "../x.sbatch"
    assert [row.what for row in kept if row.why] == ["colossal --odd"]
