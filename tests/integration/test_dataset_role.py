# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role dataset with sources that a host reaches by a network: a web server, and the stand-in for the hub."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests import hub
from tests.repository import run
from tests.webserver import WebServer


def play(root: Path, *roles: dict[str, Any], **env: str) -> None:
    given = [{"role": "rankzero.slurm.dataset", "dataset_store_root": str(root / "store"), **one} for one in roles]
    (root / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "roles": given}]))
    without = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
    run(
        *("ansible-playbook", "-i", "localhost,", "-c", "local", "play.yml"),
        *("-e", f"ansible_python_interpreter={sys.executable}"),
        cwd=root,
        env={**without, **env},
    )


def test_files_of_a_web_server(tmp_path: Path) -> None:
    files = {"d/a.txt": b"first", "d/b.txt": b"second", "one.bin": b"alone"}
    (tmp_path / "token").write_text("abc")
    with WebServer(files).running() as server:
        server.login = "Bearer abc"
        http = {"dataset_source": "http", "dataset_token_file": str(tmp_path / "token")}
        play(
            tmp_path,
            {**http, "dataset_name": "two", "dataset_src": f"{server.url}d/", "dataset_files": ["a.txt", "b.txt"]},
            {
                **http,
                "dataset_name": "one",
                "dataset_src": f"{server.url}one.bin",
                "dataset_sha256": hashlib.sha256(b"alone").hexdigest(),
            },
        )
    names = tmp_path / "store" / "datasets" / "by-name"
    assert [(names / name).read_bytes() for name in ("two/a.txt", "two/b.txt", "one/one.bin")] == list(files.values())


def test_a_dataset_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(hub.TOKEN)
    with hub.Hub({"train.jsonl": b"{}", "README.md": b"x"}).running() as served:
        play(
            tmp_path,
            {
                "dataset_name": "it",
                "dataset_source": "hub",
                "dataset_src": "org/gated",
                "dataset_revision": hub.COMMIT,
                "dataset_python": str(hub.python()),
                "dataset_token_file": str(tmp_path / "token"),
                "dataset_include": ["*.jsonl"],
            },
            HF_ENDPOINT=served.url,
            HF_HUB_DISABLE_XET="1",
            HF_HOME=str(tmp_path / "own"),
        )
    data = tmp_path / "store" / "datasets" / "by-name" / "it"
    assert [path.name for path in data.iterdir()] == ["train.jsonl"]
