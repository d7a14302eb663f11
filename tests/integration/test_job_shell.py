# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""job_shell, run by ansible-playbook on this machine: what it shows, and what it says where it cannot open a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import recording
from tests.repository import BIN, bullet_list

MODULE = "rankzero.slurm.job_shell"


def run(folder: Path, *wanted: dict[str, Any]) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, results and output of a play at no terminal with a task for each of the options."""
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code" / "train.py").write_text("print('train')\n")
    job = {"name": "job", "command": ["train.py"], "code": {"src": str(folder / "code")}}
    roots = {"state_root": str(folder / "state"), "store_root": str(folder / "store")}
    tasks = [
        {MODULE: {"job": job, "cluster": roots, **options}, "ignore_errors": len(wanted) > 1} for options in wanted
    ]
    ship = {"rankzero.slurm.code_snapshot": {"src": str(folder / "code"), "store_root": roots["store_root"]}}
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [ship, *tasks]}]
    (folder / "play.yml").write_text(json.dumps(play))
    done = subprocess.run(
        [
            *(str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml"),
            *("-e", f"ansible_python_interpreter={sys.executable}"),
        ],
        cwd=folder,
        env={**os.environ, "ANSIBLE_LOCALHOST_WARNING": "0", **recording.settings(folder / "record")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        check=False,
    )
    return done.returncode, recording.results(folder / "record", MODULE), done.stdout


def test_the_commands_are_shown(tmp_path: Path) -> None:
    rc, _results, said = run(tmp_path, {"overrides": {"nodes": 3}})
    assert rc == 0, said
    assert "localhost: salloc --job-name=job.shell --nodes=3 " in said
    assert "localhost: srun --pty " in said
    assert list(tmp_path.glob("state/shells/job/*/shell.sh"))


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"open": True}, "open: ansible-playbook runs at no terminal, and a shell needs one; type the commands"),
        ({"open": "maybe"}, "open: must be true or false, not 'maybe'"),
        ({"serve": "vscode"}, "serve: must be jupyter or code, not 'vscode'"),
        ({"session": "a b"}, "session: must be a name of letters, digits, _ and -, at most 64, not 'a b'"),
        ({"opne": True}, "unknown option opne; allowed: job, cluster, overrides, role, serve, session, open"),
        ({"x_request": {}}, "unknown option x_request"),
    ]
    _rc, results, said = run(tmp_path, *(options for options, _message in wrong))
    assert len(results) == len(wrong), said
    unsaid = [
        f"{options}: {result['msg']}"
        for (options, message), result in zip(wrong, results, strict=True)
        if not result["failed"] or message not in result["msg"]
    ]
    assert not unsaid, bullet_list(unsaid)
