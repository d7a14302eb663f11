# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hub_cache as Ansible runs it, with the hub's own library (real) and a server that stands in for the hub."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import hub, recording, warm_playbooks
from tests.repository import BIN, bullet_list, run

MODULE = "rankzero.slurm.hub_cache"
FILES = {"config.json": b"{}", "tokenizer.json": b'{"a": 1}', "weights/model.bin": os.urandom(6_000_000)}


class Bench:
    """A host whose jobs have `home` as HF_HOME, and a hub."""

    def __init__(self, root: Path, served: hub.Hub) -> None:
        self.root, self.hub, self.home, self.plays = root, served, root / "home", 0

    def task(self, **options: Any) -> dict[str, Any]:
        """The result of one task; what was printed is in `said`."""
        (result,) = self.tasks(options)
        return result

    def tasks(self, *many: dict[str, Any], diff: bool = False) -> list[dict[str, Any]]:
        """The results of tasks, each with its options, that one playbook runs one after another. `check_mode` is
        a keyword of the task.
        """
        record = self.root / f"record-{self.plays}"
        self.plays += 1
        common = {"repo": "org/small", "path": str(self.home), "python": str(hub.python())}
        tasks = []
        for given in many:
            options = {**common, **given}
            keywords = {"ignore_errors": True, "check_mode": options.pop("check_mode", False)}
            tasks.append({MODULE: options, **keywords})
        play = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
        (self.root / "play.yml").write_text(json.dumps(play))
        flags = ["--diff"] * diff
        argv = [str(BIN / "ansible-playbook"), "-vvv", "-i", "localhost,", "-c", "local", *flags, "play.yml"]
        code, said = warm_playbooks.run(
            [*argv, "-e", f"ansible_python_interpreter={sys.executable}"],
            self.root,
            {
                **os.environ,
                "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
                "HF_ENDPOINT": self.hub.url,
                "HF_HUB_DISABLE_XET": "1",
                "HF_HOME": str(self.root / "users-own"),
                "HF_HUB_OFFLINE": "1",
                "XDG_CACHE_HOME": str(self.root / "xdg"),
                **recording.settings(record),
            },
        )
        assert code == 0, said
        return [{**result, "said": said} for result in recording.results(record, MODULE)]

    @property
    def snapshot(self) -> Path:
        return self.home / "hub" / "models--org--small" / "snapshots" / hub.COMMIT


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with hub.Hub(dict(FILES)).running() as served:
        yield Bench(tmp_path, served)


@pytest.mark.parametrize("who", ["head", "controller"])
def test_from_the_hub_once_and_then_without_it(bench: Bench, who: str) -> None:
    foretold = bench.task(download=who, check_mode=True)
    assert (foretold["changed"], foretold["ref"]["digest"], bench.hub.asked) == (True, None, [])
    (done,) = bench.tasks({"download": who, "require": ["config.json"]}, diff=True)
    assert (done["changed"], done["ref"]["path"]) == (True, str(bench.snapshot))
    assert foretold["ref"]["key"] == done["ref"]["key"]
    assert {name: (bench.snapshot / name).read_bytes() for name in FILES} == FILES
    assert (bench.home / "hub" / "models--org--small" / "refs" / "main").read_text() == hub.COMMIT
    assert "tokenizer.json" in done["diff"]["after"]
    bench.hub.asked.clear()
    again = bench.task(download=who)
    assert (again["changed"], again["ref"], bench.hub.asked) == (False, done["ref"], [])
    (bench.snapshot / "tokenizer.json").resolve().write_text('{"a": 2}')
    mended = bench.task(download=who)
    assert mended["repaired"] == {"tokenizer.json": "has another content"}
    assert (bench.snapshot / "tokenizer.json").read_bytes() == FILES["tokenizer.json"]
    whole = [asked for asked in bench.hub.asked if asked.startswith("GET") and "model.bin" in asked]
    assert len(whole) == (0 if who == "head" else 1), "the host asks for what is damaged only"
    # And the library itself finds it, with no hub at all.
    find = "from huggingface_hub import snapshot_download as f; print(f('org/small', local_files_only=True))"
    assert run(hub.python(), "-c", find, env={"HF_HOME": str(bench.home)}).stdout.strip() == str(bench.snapshot)


def test_a_download_that_broke_off_goes_on_with_what_is_missing(bench: Bench) -> None:
    """Whole files stay. (The hub's library resumed within a file until its release 1, and no longer does.)"""
    bench.hub.breaks = {"weights/model.bin": 2_000_000}
    failed = bench.task()
    assert failed["failed"] and "run again to resume" in failed["msg"]
    assert not (bench.home / "hub" / "models--org--small" / "refs").exists()
    bench.hub.breaks = {}
    bench.hub.asked.clear()
    assert bench.task()["changed"]
    got = [asked.rsplit("/", 1)[-1] for asked in bench.hub.asked if asked.startswith("GET /org")]
    assert got == ["model.bin"]
    assert (bench.snapshot / "weights" / "model.bin").read_bytes() == FILES["weights/model.bin"]


def test_a_folder_of_the_host_as_a_dataset(bench: Bench, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    for name in ("train.csv", "notes.txt"):
        (made / name).write_text(name)
    options = {"src": str(made), "remote_src": True, "repo_type": "dataset", "exclude": ["notes*"]}
    assert bench.task(**options)["snapshot"]["files"] == ["train.csv"]
    [blob] = (bench.home / "hub" / "datasets--org--small" / "blobs").iterdir()
    before = blob.stat()
    blob.write_text("train.csw")
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))
    kept, mended = bench.tasks(options, {**options, "verify": True})
    assert not kept["changed"], "its time says that nobody wrote to it"
    assert mended["repaired"] == {"train.csv": "has another content"}


def test_a_moved_branch_is_followed_when_asked(bench: Bench) -> None:
    bench.task(include=["*.json"])
    bench.hub.commit, bench.hub.files["config.json"] = "f" * 40, b'{"new": 1}'
    kept, moved, again = bench.tasks(*({"include": ["*.json"], "update": update} for update in (False, True, True)))
    assert not kept["changed"]
    assert (moved["changed"], moved["snapshot"]["commit"]) == (True, "f" * 40)
    assert (bench.snapshot / "config.json").read_bytes() == b"{}", "jobs that run have the old one"
    assert not again["changed"]


def test_a_gated_repository_needs_a_token_that_nobody_sees(bench: Bench, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(hub.TOKEN + "\n")
    refused, done = bench.tasks({"repo": "org/gated"}, {"repo": "org/gated", "token_file": str(token)})
    assert "repo: org/gated is gated" in refused["msg"] and "permission to read public gated" in refused["msg"]
    assert done["changed"], done
    assert hub.TOKEN not in done["said"]
    kept = [path for path in bench.home.rglob("*") if path.is_file() and hub.TOKEN.encode() in path.read_bytes()]
    assert not kept


def test_bad_input(bench: Bench) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"repo": "org/none"}, "repo: there is no model org/none, or it is private"),
        ({"revision": "v9"}, "revision: org/small has no 'v9'"),
        ({"require": ["config.json", "spiece.model"]}, "require: org/small lacks spiece.model. It has: config.json,"),
        ({"python": "/usr/bin/python3"}, "python: /usr/bin/python3 has no huggingface_hub"),
        ({"python": "/nowhere/python"}, "python: /nowhere/python cannot be run: No such file or directory"),
        ({"token_file": "/nowhere/token"}, "token_file: /nowhere/token cannot be read: No such file"),
        ({"src": "/nowhere/x"}, "src: /nowhere/x does not exist; expected a folder or an archive"),
        ({"remote_src": True}, "remote_src: needs src"),
        ({"x_request": {"files": []}}, "x_request"),
        ({"repo_type": "weights"}, "value of repo_type must be one of: model, dataset, space"),
    ]
    results = bench.tasks(*(options for options, _message in bad))
    wrong = [
        f"{options}: {result.get('msg')}"
        for (options, message), result in zip(bad, results, strict=True)
        if not (result["failed"] and message in result["msg"])
    ]
    assert not wrong, bullet_list(wrong)
    assert not (bench.home / "hub").exists()


def test_from_the_controllers_own_files(bench: Bench, tmp_path: Path) -> None:
    made = tmp_path / "made" / "tokenizer"
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    (made / "tokenizer.json").write_text("[]")
    archives = [shutil.make_archive(str(tmp_path / "tokenizer"), form, made.parent) for form in ("gztar", "zip")]
    kinds = [{"src": str(src), "path": str(tmp_path / f"home-{place}")} for place, src in enumerate([*archives, made])]
    steps: list[dict[str, Any]] = [{"check_mode": True}, {}, {}, {"state": "absent"}]
    results = bench.tasks(*({**kind, **step} for kind in kinds for step in steps))
    assert len(results) == len(kinds) * len(steps) and not bench.hub.asked
    for kind in kinds:
        (foretold, done, again, gone), results = results[: len(steps)], results[len(steps) :]
        assert foretold["changed"] and foretold["ref"] == {**done["ref"], "present": False}, kind
        assert (done["snapshot"]["files"], done["snapshot"]["source"]) == (
            ["config.json", "tokenizer.json"],
            kind["src"],
        )
        assert done["sent"] > 0
        assert (again["changed"], "sent" in again) == (False, False), kind
        assert gone["changed"] and not list(Path(kind["path"], "hub", "models--org--small", "blobs").iterdir()), kind
