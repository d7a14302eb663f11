# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook without the imports of ansible-core is the playbook that the program itself runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import warm_playbooks
from tests.repository import BIN, ROOT

#: Bound of waiting, in seconds. Nothing is measured with it.
SECONDS = 60
#: What a playbook sees of its process, and a result that its exit code has to tell.
TASKS = [
    {"debug": {"var": "seen"}, "vars": {"seen": "{{ lookup('pipe', command) }}"}},
    {"rankzero.slurm.job_info": {"run_dir": "/nowhere"}},
]
SEEN = "pwd; env | grep -v '^_=' | sort; ulimit -a; cat; trap; ls /proc/self/fd | wc -l"


def book(folder: Path, tasks: Sequence[Mapping[str, object]]) -> list[str]:
    (folder / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    extra = json.dumps({"ansible_python_interpreter": sys.executable, "command": SEEN})
    return [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml", "-e", extra]


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may have asked for as many servers as there may be, and changed what is set here."""
    monkeypatch.setattr(warm_playbooks, "MOST_SERVERS", len(warm_playbooks._servers) + 2)
    monkeypatch.setattr(warm_playbooks, "OWN", warm_playbooks._settings(os.environ))


def test_it_sees_and_says_what_the_program_does(tmp_path: Path) -> None:
    argv = book(tmp_path, TASKS)
    env = {**os.environ, "RANKZERO_NOTE": "two words"}
    warm = warm_playbooks.start(argv, tmp_path, env)
    assert isinstance(warm, warm_playbooks.WarmPlaybook)
    cold = warm_playbooks.start(argv, tmp_path, {**env, warm_playbooks.COLD: "1"})
    assert isinstance(cold, subprocess.Popen)
    outputs = [process.stdout.read() for process in (warm, cold) if process.stdout]
    assert (warm.wait(SECONDS), cold.wait(SECONDS)) == (2, 2), outputs
    assert "RANKZERO_NOTE=two words" in outputs[0] and f'"{tmp_path}' in outputs[0]
    assert outputs[0] == outputs[1].replace(f"{warm_playbooks.COLD}=1\\n", "")


def test_each_environment_has_its_own_imports(tmp_path: Path) -> None:
    """ansible-core reads its settings when it is imported. What is asked for once is not worth a process."""
    env = {**os.environ, "ANSIBLE_NOCOLOR": "", "ANSIBLE_FORCE_COLOR": "1"}
    argv = book(tmp_path, TASKS[:1])
    plain = warm_playbooks.run(argv, tmp_path, os.environ)
    first, second = (warm_playbooks.start(argv, tmp_path, env) for _time in range(2))
    outputs = [process.stdout.read() for process in (first, second) if process.stdout]
    assert (first.wait(SECONDS), second.wait(SECONDS), plain[0]) == (0, 0, 0)
    assert isinstance(first, subprocess.Popen) and isinstance(second, warm_playbooks.WarmPlaybook)
    assert outputs[0] == outputs[1] and "\x1b[" in outputs[1] and "\x1b[" not in plain[1]


def test_threads_that_start_at_once_share_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the other thread forgets would end, and nobody would hear of the end of its playbooks."""
    together, made = threading.Barrier(3), warm_playbooks._server

    def slowly(settings: warm_playbooks.Settings) -> socket.socket:
        time.sleep(0.5)
        return made(settings)

    def play(_number: int) -> int:
        together.wait()
        process = warm_playbooks.start(book(tmp_path, TASKS[:1]), tmp_path, os.environ)
        return process.wait(SECONDS)

    monkeypatch.setattr(warm_playbooks, "_servers", {})
    monkeypatch.setattr(warm_playbooks, "_server", slowly)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(play, range(3))) == [0, 0, 0]


def test_settings_of_the_folder_count(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\nnocows = true\n")
    process = warm_playbooks.start(book(tmp_path, TASKS[:1]), tmp_path, os.environ)
    assert isinstance(process, subprocess.Popen)
    assert process.wait(SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_ends_it_as_it_ends_the_program(tmp_path: Path, number: signal.Signals) -> None:
    """Its process group is its own, and another playbook goes on."""
    # While a module runs: a signal between two tasks, or while a prompt begins, can be lost.
    begun = tmp_path / "begun"
    argv = book(
        tmp_path, [{"command": {"argv": ["sh", "-c", f"touch begun; exec sleep {SECONDS}"], "chdir": str(tmp_path)}}]
    )
    ends = []
    for env in (dict(os.environ), {**os.environ, warm_playbooks.COLD: "1"}):
        process = warm_playbooks.start(argv, tmp_path, env)
        assert process.stdout
        while not begun.exists():
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        begun.unlink()
        os.killpg(process.pid, number)
        ends.append(process.wait(SECONDS))
        process.stdout.close()
    assert ends[0] == ends[1]
    after = warm_playbooks.start(book(tmp_path, TASKS[:1]), tmp_path, os.environ)
    assert after.wait(SECONDS) == 0


def test_nothing_of_the_collection_or_the_tests_is_imported_before(tmp_path: Path) -> None:
    """What a playbook uses of them it has to find by itself."""
    program = (
        "import sys; sys.path.insert(0, 'tests'); import warm_server; warm_server.warm_up();"
        "print(*sorted(name for name in sys.modules if name.startswith(('ansible_collections', 'tests', 'pytest'))))"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
