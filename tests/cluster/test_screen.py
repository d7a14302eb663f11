# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of launches on real Slurm with the callback of this collection: at a terminal, in a pipe, and left.

The drawing itself is tested in tests/unit/screen and tests/integration/test_screen.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import termios
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import Any

from tests.cluster.launching import PLAYBOOK, RESULT, UNTIL_GO, Site
from tests.repository import BIN
from tests.terminals import Terminal, clean, kept

CALLBACK = {"ANSIBLE_STDOUT_CALLBACK": "rankzero.slurm.screen"}
STEPS = 'for i in $(seq 1 8); do echo "step $i/8 loss $((9 - i)).25 (10 tokens/s)"; sleep 0.5; done'
FAILS = """echo 'Traceback (most recent call last):'
echo '  File "/code/train.py", line 7, in <module>'
echo '    main()'
echo 'ValueError: batch size 3 is not divisible by 2'
exit 1"""


def playbook(site: Site, name: str) -> list[str]:
    """The command line of a playbook that works on the lab's head as the site's user."""
    where = ["-i", str(site.lab.inventory), *site.user.inventory(site.folder)]
    return [str(BIN / "ansible-playbook"), *where, name]


def argv(site: Site, job: Mapping[str, Any]) -> list[str]:
    """The command line with which the site's user launches a job, and waits."""
    extra = {"launch_cluster": site.cluster, "launch_wait": True, "launch_logs_dest": str(site.folder / "runs")}
    (site.folder / "extra.json").write_text(json.dumps(extra), encoding="utf-8")
    return [*playbook(site, PLAYBOOK), "-e", "@extra.json", "-e", f"job={site.write(job)}"]


def steps(lines: list[str]) -> list[str]:
    """The marks and names of rows."""
    return [" ".join(line.split()[:2]) for line in lines if re.match(r" (ok|>|!!|!) ", line)]


def test_a_launch_at_a_terminal(site: Site) -> None:
    artifact = {"path": "result.json", "require": {"loss": {"lt": 2}}}
    job = site.job(f"{STEPS}; {RESULT}", artifact=artifact)
    job["resources"]["nodes"] = 2
    with closing(Terminal(argv(site, job), site.folder, 80, **CALLBACK)) as terminal:
        terminal.read(until="/8 ")
        terminal.resize(60)
        text = terminal.read()
        assert terminal.process.returncode == 0, text
        assert termios.tcgetattr(terminal.slave) == terminal.before
    assert "\x1b[?25l" not in text and "tok/s" in text
    lines = kept(text)
    assert re.fullmatch(rf"{job['name']}  [0-9a-f]{{8}}  2 nodes x 1 rank, .*10 min +lab", lines[0]), text
    assert steps(lines) == ["ok code", "ok job", "ok preflight", "ok step"], text
    assert any(line.startswith(" ok step      8/8  loss 1.25  10 tok/s") for line in lines), text
    assert any(re.fullmatch(r"Proven in \d+ s: loss 1.5 \(< 2\) +work/result.json", line) for line in lines), text


def test_three_terminals_follow_one_launch_each_at_its_width(site: Site) -> None:
    job = site.job(f"{STEPS}; {UNTIL_GO}; {RESULT}", artifact={"path": "result.json", "require": {"loss": {"lt": 2}}})
    launch = site.launch(job)
    words = [*playbook(site, "rankzero.slurm.attach"), "-e", f"run_dir={launch['run_dir']}"]
    with ExitStack() as all_of_them:
        terminals = [
            all_of_them.enter_context(closing(Terminal(words, site.folder, width, **CALLBACK)))
            for width in (80, 120, 160)
        ]
        for terminal in terminals:
            terminal.read(until="8/8")
        site.go(launch)
        texts = [terminal.read() for terminal in terminals]
    for terminal, text, edge in zip(terminals, texts, (79, 100, 100)):
        assert terminal.process.returncode == 0, text
        assert "\x1b[?25l" not in text and re.search(r" >  (\x1b\[0m)?step +8/8 .*loss 1.25", text), text
        lines = kept(text)
        assert steps(lines) == ["ok job", "ok preflight", "ok step"], text
        (end,) = [line for line in lines if line.startswith("Proven in ")]
        assert len(end) == edge and end.endswith(" work/result.json"), text
        assert all(len(line) <= edge for line in lines if re.match(" (ok|>) |Proven", line)), text


def test_a_failure_in_a_pipe_is_told_once(site: Site) -> None:
    job = site.job(FAILS, artifact={"path": "result.json"})
    done = subprocess.run(
        argv(site, job), cwd=site.folder, env=clean(CALLBACK), capture_output=True, text=True, check=False
    )
    text = done.stdout
    assert done.returncode == 2 and "\x1b" not in text and "\r" not in text, text + done.stderr
    assert text.count("batch size 3 is not divisible by 2") == 1, text
    card = text[text.index(f"{job['name']} failed after ") :].splitlines()
    assert card[1:4] == [
        '      File "/code/train.py", line 7, in <module>',
        "        main()",
        "    ValueError: batch size 3 is not divisible by 2",
    ], text
    assert re.fullmatch(r"    where   rank 0 on node\d+", card[4]), text
    (log,) = re.findall(r"    log     (\S+):\d+", text)
    assert "batch size" in (site.folder / log).read_text()
    (verdict,) = re.findall(r"    verdict (.*)", text)
    assert "the program ended with exit code " in verdict and text.index("verdict ") < text.index("    advice  ")


def test_ctrl_c_leaves_the_job_and_the_terminal(site: Site) -> None:
    job = site.job(f"{STEPS}; {UNTIL_GO}; {RESULT}", artifact={"path": "result.json"})
    with closing(Terminal(argv(site, job), site.folder, 120, **CALLBACK)) as terminal:
        terminal.read(until="8/8")
        terminal.interrupt()
        text = terminal.read()
        assert termios.tcgetattr(terminal.slave) == terminal.before
    assert re.search(r"! +step .*no longer watched", "\n".join(kept(text))), text
    assert site.launch(job)["submission"] == "adopted", "the job runs on"
