# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dataset as Ansible runs it: pieces from the controller, a worker on the host that says how far it is, and kills."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import recording
from tests.repository import BIN, bullet_list
from tests.webserver import WebServer

MODULE = "rankzero.slurm.dataset"
BIG = random.Random(3).randbytes(16_000_000)


class Bench:
    """A controller with a folder, and a host with a store, which are this machine."""

    def __init__(self, root: Path) -> None:
        self.root, self.src, self.store, self.record = root, root / "src", root / "store", root / "record"
        (self.src / "sub").mkdir(parents=True)
        (self.src / "big.bin").write_bytes(BIG)
        (self.src / "sub" / "small.txt").write_text("small")
        (self.src / "empty").touch()

    def start(self, *flags: str, **options: Any) -> subprocess.Popen[str]:
        return self.start_all(options, flags=flags)

    def start_all(self, *many: dict[str, Any], flags: Sequence[str] = ()) -> subprocess.Popen[str]:
        """One playbook with a task for each of the options."""
        common = {"name": "it", "src": "src", "store_root": str(self.store)}
        tasks = [{MODULE: {**common, **options}, "ignore_errors": True} for options in many]
        (self.root / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        words = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml", *flags]
        words += ["-e", f"ansible_python_interpreter={sys.executable}"]
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return subprocess.Popen(
            words,
            cwd=self.root,
            env={**clean, **recording.settings(self.record)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def task(self, *flags: str, **options: Any) -> dict[str, Any]:
        """The result of the task; what was printed is in `said`."""
        with self.start(*flags, **options) as process:
            said = process.communicate(timeout=120)[0]
        assert process.returncode == 0, said
        return {**recording.results(self.record, MODULE)[-1], "said": said}

    def come(self) -> int:
        """Bytes of the large file that are on the host."""
        return max([one.stat().st_size for one in self.store.glob("datasets/*.partial/parts/*")], default=0)

    @property
    def data(self) -> Path:
        return self.store / "datasets" / "by-name" / "it"

    def is_whole(self) -> bool:
        return (self.data / "big.bin").read_bytes() == BIG and (self.data / "sub" / "small.txt").read_text() == "small"


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_folder_of_the_controller(bench: Bench) -> None:
    foretold = bench.task("--check", "--diff")
    assert not bench.store.exists() and "big.bin" in foretold["said"]
    made = bench.task()
    assert bench.is_whole() and (bench.data / "empty").read_bytes() == b""
    assert made["moved"] == len(BIG) + len("small")
    assert made["ref"] == {**foretold["ref"], "present": True}
    assert "localhost: dataset it: sent" in made["said"] and "of 16 MB" in made["said"]
    (bench.src / "sub" / "small.txt").write_text("other")
    again = bench.task()
    assert (again["changed"], again["moved"]) == (True, len("other"))
    assert (bench.data / "sub" / "small.txt").read_text() == "other"


def test_a_controller_that_was_killed_goes_on(bench: Bench) -> None:
    with bench.start() as process:
        wait_for(lambda: bench.come() > 4_000_000, process)
        os.killpg(process.pid, signal.SIGKILL)
    there = bench.come()
    result = bench.task()
    assert bench.is_whole()
    # Appended by a module that was still running when its controller was killed, at most.
    assert result["moved"] <= len(BIG) + len("small") - there


def test_sums_are_looked_at_before_anything_is_sent(bench: Bench) -> None:
    sums = f"{'0' * 64}  big.bin\n{hashlib.sha256(b'small').hexdigest()}  sub/small.txt\n"
    (bench.src / "SUMS").write_text(sums)
    (bench.src / "empty").unlink()
    failed = bench.task(checksums="SUMS")
    assert failed["failed"] and "big.bin: has the sha256" in failed["msg"] and "it was not sent" in failed["msg"]
    assert not bench.store.exists()


def test_a_worker_is_asked_how_far_it_is_and_a_killed_one_is_gone_on_with(bench: Bench) -> None:
    with WebServer({"big.bin": BIG}).running() as server:
        server.slow["big.bin"] = 0.1
        one = {"source": "http", "src": f"{server.url}big.bin", "sha256": hashlib.sha256(BIG).hexdigest()}
        with bench.start(**one) as process:
            assert process.stdout
            bringing = next((line for line in process.stdout if "dataset it: bringing" in line), "")
            assert "of 16 MB" in bringing
            wait_for(lambda: bench.come() > 1_000_000, process)
            [owner] = bench.store.glob("datasets/records/*.work/*/owner")
            os.kill(int(owner.read_text()), signal.SIGKILL)
            said = process.communicate(timeout=60)[0]
        assert "the process that stages it on the host was killed" in said
        there, before = bench.come(), -1
        # The server may write a last block to the one that has gone.
        while before != server.sent["big.bin"]:
            before = server.sent["big.bin"]
            time.sleep(0.5)
        server.slow.clear()
        result = bench.task(**one)
        assert server.sent["big.bin"] - before == result["moved"] == len(BIG) - there
        assert (bench.data / "big.bin").read_bytes() == BIG
        assert not bench.task(**one)["changed"]


def test_a_run_attaches_to_the_worker_of_one_that_was_interrupted(bench: Bench) -> None:
    with WebServer({"big.bin": BIG}).running() as server:
        server.slow["big.bin"] = 0.01
        one = {"source": "http", "src": f"{server.url}big.bin"}
        with bench.start(**one) as process:
            wait_for(lambda: bench.come() > 4_000_000, process)
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=60)
        server.slow.clear()
        result = bench.task(**one)
        assert (bench.data / "big.bin").read_bytes() == BIG
        # It was brought once.
        assert server.sent["big.bin"] == len(BIG) == result["moved"]


def test_bad_input(bench: Bench) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"src": "nowhere"}, "nowhere is not on this host"),
        ({"source": "controler"}, "value of source must be one of"),
        ({"source": "object", "src": "/x"}, "src: '/x'"),
        ({"surce": "http"}, "surce"),
    ]
    with bench.start_all(*(options for options, _message in bad)) as process:
        said = process.communicate(timeout=120)[0]
    results = recording.results(bench.record, MODULE)
    assert len(results) == len(bad), said
    wrong = [
        f"{options}: {result.get('msg')}"
        for (options, message), result in zip(bad, results, strict=True)
        if not (result["failed"] and message in result["msg"])
    ]
    assert not wrong, bullet_list(wrong)
