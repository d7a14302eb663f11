# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in a real ansible-playbook: at terminals, in a pipe, under CI, with -v, several hosts, and Ctrl-C.

The tasks are Ansible's own and job_report, which runs on the controller alone.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import termios
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from tests.repository import BIN
from tests.terminals import Terminal, clean, kept

CALLBACK = {
    "ANSIBLE_STDOUT_CALLBACK": "rankzero.slurm.screen",
    "ANSIBLE_LOCALHOST_WARNING": "false",
    "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
}
LAUNCH = {
    "name": "gpt",
    "job_id": "7",
    "generation": 1,
    "run_dir": "/s/gpt/1",
    "proof": {"path": "result.json", "require": {"loss": {"lt": 1}}},
}
VALUES = {"\x1b[2J": "\x1b]0;x", "loss": 0.25}
PROVEN = {
    "launch": LAUNCH,
    "result": LaunchReport(
        *("gpt", "0123456789abcdef", 1, "succeeded", "the artifact is proven", "/s/gpt/1", "/s/gpt/1/logs"),
        completed=True,
        success=True,
        wall_time=29.0,
        outcome={"artifact": {"path": "/s/gpt/1/work/result.json", "valid": True, "scalars": VALUES}},
    ).as_dict(),
}
FAILED = {
    "launch": LAUNCH,
    "result": LaunchReport(
        *("gpt", "0123456789abcdef", 1, "failed", "exit code 1", "/s/gpt/1", "/s/gpt/1/logs"),
        completed=True,
        wall_time=3.0,
    ).as_dict(),
}
SECONDS = 60
EXPECTED = [
    "hello",
    "ok Take a moment s",
    r"Proven in s: loss (< 1), \x1b]0;x work/result.json",
]


def playbook(folder: Path, report: dict[str, Any], *more: dict[str, Any], hosts: str = "one,") -> list[str]:
    """The command line of a play on these hosts, each of them this machine."""
    tasks = [
        {"name": "Nothing to see", "ansible.builtin.meta": "noop"},
        {"name": "Say it", "ansible.builtin.debug": {"msg": "hello"}},
        {"name": "Take a moment", "ansible.builtin.command": "sleep 2"},
        *more,
        {"name": "The end", "rankzero.slurm.job_report": report},
    ]
    play = {"hosts": "all", "gather_facts": False, "connection": "local", "tasks": tasks}
    (folder / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
    return [str(BIN / "ansible-playbook"), "-i", hosts, "play.yml"]


def piped(argv: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=folder,
        env=clean({**CALLBACK, **environment}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without_times(lines: list[str]) -> list[str]:
    """Lines without their numbers, and with one blank between words."""
    return [" ".join(word for word in line.split() if not word.replace(".", "").isdigit()) for line in lines if line]


@pytest.mark.parametrize("width", [80, 120, 160])
def test_at_a_terminal(tmp_path: Path, width: int) -> None:
    with closing(Terminal(playbook(tmp_path, PROVEN), tmp_path, width, **CALLBACK)) as terminal:
        text = terminal.read()
        assert terminal.process.returncode == 0, text
        assert termios.tcgetattr(terminal.slave) == terminal.before
    assert "\x1b[?25l" not in text and "\x1b[2J" not in text and "\x1b]" not in text
    assert re.search(r" >  (\x1b\[0m)?Take a moment", text), "the row of a task that runs"
    lines = kept(text)
    assert [len(lines[1]), len(lines[2])] == [min(width - 1, 100)] * 2, "the right edge"
    assert without_times(lines) == EXPECTED


@pytest.mark.parametrize("callback", ["rankzero.slurm.screen", "ansible.builtin.default"])
def test_in_a_pipe_a_line_appears_when_it_happens(tmp_path: Path, callback: str) -> None:
    """Whoever reads the pipe has the line of one task while the next one still runs, with Ansible's callback, too."""
    argv = playbook(tmp_path, PROVEN)
    tasks = json.loads((tmp_path / "play.yml").read_text())[0]["tasks"]
    wait = {"name": "Wait", "ansible.builtin.command": "sh -c 'until [ -e gate ]; do sleep 0.1; done'"}
    (tmp_path / "play.yml").write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "connection": "local", "tasks": [tasks[-1], wait]}])
    )
    environment = clean({**CALLBACK, "ANSIBLE_STDOUT_CALLBACK": callback})
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            seen = b""
            while b"loss 0.25" not in seen:
                ready = select.select([process.stdout], [], [], SECONDS)[0]
                block = os.read(process.stdout.fileno(), 65536) if ready else b""
                assert block, f"nothing was seen before the second task ended: {seen!r}"
                seen += block
        finally:
            (tmp_path / "gate").touch()
        process.stdout.read()
        assert process.wait(SECONDS) == 0


def test_under_ci_a_terminal_gets_plain_lines(tmp_path: Path) -> None:
    with closing(Terminal(playbook(tmp_path, PROVEN), tmp_path, 80, CI="true", NO_COLOR="1", **CALLBACK)) as terminal:
        text = terminal.read()
    assert "\x1b" not in text
    assert without_times(text.replace("\r\n", "\n").split("\n")) == EXPECTED


def test_a_failure_is_told_once_and_v_shows_all(tmp_path: Path) -> None:
    argv = playbook(tmp_path, FAILED)
    short, whole = piped(argv, tmp_path), piped([*argv, "-v"], tmp_path)
    assert short.returncode == whole.returncode == 2
    assert "\x1b" not in short.stdout and short.stdout.count("exit code 1") == 1
    assert short.stdout.splitlines()[-1] == "gpt failed after 3 s: exit code 1"
    assert "PLAY RECAP" in whole.stdout and "TASK [Take a moment]" in whole.stdout
    assert "one: gpt failed" in whole.stdout, "the card, in Ansible's own output"
    assert whole.stdout.count("wall time") == 1, "the card, which is not repeated in the JSON of the failed task"


def test_a_check_shows_what_a_step_would_do(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    publish = {
        "name": "Publish",
        "rankzero.slurm.code_snapshot": {"src": "code", "store_root": str(tmp_path / "store")},
    }
    argv = playbook(tmp_path, PROVEN, publish)
    checked, done = piped([*argv, "--check"], tmp_path), piped(argv, tmp_path)
    assert checked.returncode == done.returncode == 0, checked.stdout + done.stdout
    assert "would be built" in checked.stdout and " sent" not in checked.stdout, checked.stdout
    assert "would be built" not in done.stdout and " sent" in done.stdout, done.stdout


def test_several_hosts_in_a_pipe(tmp_path: Path) -> None:
    done = piped(playbook(tmp_path, PROVEN, hosts="one,three,"), tmp_path)
    assert done.returncode == 0, done.stderr
    lines = without_times(done.stdout.splitlines())
    assert sorted(lines) == sorted(f"{host} {line}" for host in ("one", "three") for line in EXPECTED)


def test_ctrl_c_leaves_a_terminal_as_it_was(tmp_path: Path) -> None:
    slow = {"name": "Take an hour", "ansible.builtin.command": "sleep 3600"}
    with closing(Terminal(playbook(tmp_path, PROVEN, slow), tmp_path, 80, **CALLBACK)) as terminal:
        terminal.read(until="Take an hour")
        terminal.resize(30)
        terminal.interrupt()
        text = terminal.read()
        assert terminal.process.returncode not in (0, None)
        assert termios.tcgetattr(terminal.slave) == terminal.before
    assert "\x1b[?25l" not in text
    assert not any("Take an hour" in line for line in kept(text)), "the row that ran is wiped"


def test_nothing_is_drawn_while_a_task_has_the_terminal(tmp_path: Path) -> None:
    ask = {"name": "Ask", "ansible.builtin.pause": {"prompt": "Go on", "seconds": 3}}
    with closing(Terminal(playbook(tmp_path, PROVEN, ask), tmp_path, 80, **CALLBACK)) as terminal:
        text = terminal.read()
        assert terminal.process.returncode == 0, text
    assert "Go on" in text
    assert "\x1b[J" not in text[text.index("Go on") : text.index("Proven")]


def test_ansible_is_patient_while_it_waits_for_a_job(tmp_path: Path) -> None:
    """Its main process looks at its workers a thousand times a second otherwise, for as long as the job takes."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n: > {tmp_path}/asked\nuntil [ -e {tmp_path}/gate ]; do sleep 0.1; done\nexec python3 "$@"\n'
    )
    python.chmod(0o755)
    argv = playbook(tmp_path, PROVEN)
    wait = {"name": "Wait", "rankzero.slurm.job_wait": {"run_dir": str(tmp_path / "runs" / "gpt" / ("0" * 16) / "1")}}
    play: dict[str, Any] = {"hosts": "all", "gather_facts": False, "connection": "local", "tasks": [wait]}
    play["vars"] = {"ansible_python_interpreter": str(python)}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    with subprocess.Popen(argv, cwd=tmp_path, env=clean(CALLBACK), stdout=subprocess.PIPE) as process:
        try:
            until = time.monotonic() + SECONDS
            while not (tmp_path / "asked").exists():
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.05)
            before, began = wake_ups(process.pid), time.monotonic()
            time.sleep(3)
            assert wake_ups(process.pid) - before <= 60 * (time.monotonic() - began)
        finally:
            (tmp_path / "gate").touch()
            process.communicate(timeout=SECONDS)


def wake_ups(pid: int) -> int:
    """How often the first thread of a process has waited."""
    status = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
