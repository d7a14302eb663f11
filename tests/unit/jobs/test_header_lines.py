# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan says of the #SBATCH lines of a script job: the key of each, and what replaces its value."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.jobs.test_read import read_job


def test_the_plan_says_what_becomes_of_each_line_of_a_header(tmp_path: Path) -> None:
    options = (
        *("--nodes=2", "--time=10", "--gres=gpu:h100:2,lscratch:5", "--mail-type=END,FAIL", "--output=logs/%j.out"),
        *("--export=ALL,TOKEN=hf_secret", "--signal=B:USR1@60", "--exclusive", "--exclude=node01", "-J two-words"),
        *("--constraint=a&b", "--no-requeue", "--comment='of mine'"),
    )
    text = "".join(f"#SBATCH {option}\n" for option in options)
    (tmp_path / "x.sh").write_text(f"#!/bin/sh\n{text}true\n", encoding="utf-8")
    read = read_job("sbatch --time=20 x.sh", cwd=tmp_path, command_line={"nodes": 3})
    lines = read.header_lines()
    said = {int(line.split(":")[1]) for line in lines}
    assert said == {*range(2, 2 + len(options))}, lines
    assert "x.sh:2: resources.nodes 2; replaced by command line" in lines
    assert any(re.fullmatch(r"x\.sh:3: resources\.time 10; replaced by .*sbatch.*", line) for line in lines), lines
    assert "x.sh:7: env.TOKEN" in lines and "x.sh:12: resources.constraint a&b" in lines
    assert read_job({"name": "x", "command": ["true"]}, cwd=tmp_path).header_lines() == []
