# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job files of docs/rl.md on real Slurm, in full but for GPUs and launchers of packages, with small programs in the
place of trl, vllm, ray and the user's own (stand-ins).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.blocks import blocks
from tests.cluster.launching import Site, log_of, nothing_left, rank_logs, read_json

#: Answers at the port that stands in its words or in the job's variable, if any; else says what Ray says, and stays.
SERVER = """#!/usr/bin/python3
import http.server, os, sys, time
words = sys.argv[1:]
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path.startswith("/health") else 404)
        self.end_headers()
        self.wfile.write(os.environ["RANKZERO_ROLE"].encode())
if "--port" not in words:
    assert words[words.index("--address") + 1] == os.environ["RANKZERO_HEAD_HOSTS"], words
    print("Ray runtime started.", words, flush=True)
    time.sleep(3600)
http.server.HTTPServer(("", int(words[words.index("--port") + 1])), Page).serve_forever()
"""
#: Asks everybody that its words name; the deciding one writes what they have answered.
CLIENT = """
import json, os, sys, time, urllib.error, urllib.request
def ask(place):
    url = place if place.startswith("http") else "http://" + place
    return urllib.request.urlopen(url + "/health", timeout=5).read().decode()
answers = sorted(ask(each) for word in sys.argv[1:] if ":" in word for each in word.split(","))
if os.environ["RANKZERO_ROLE"] in ("trainer", "driver"):
    if os.environ["RANK"] == "0":
        with open("result.json.part", "w") as stream:
            json.dump({"reward": 0.7, "answers": answers, "words": sys.argv[1:]}, stream)
        os.rename("result.json.part", "result.json")
else:
    time.sleep(3600)
"""
TEXTS = [block.text for block in blocks() if block.page == "docs/rl.md" and block.language == "yaml"]
SHAPES = {yaml.safe_load(text)["name"]: text for text in TEXTS}


def small(site: Site, spec: dict[str, Any]) -> dict[str, Any]:
    """The job for the lab: no GPUs, two CPUs at most, ranks by srun, and an environment that has the stand-ins."""
    place = f"{site.state_root}.envs/rl"
    folder = site.host_path(place) / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to("/usr/bin/python3")
    for name in ("trl", "vllm", "ray"):
        site.program(name, "", folder)
        (folder / name).write_text(SERVER, encoding="utf-8")
    for role in spec["roles"].values():
        program = role.get("command", [""])[0]
        if program.endswith(".py"):
            text = SERVER if "--port" in role["command"] else CLIENT
            (site.folder / "code" / program).write_text(text, encoding="utf-8")
        role["resources"] = {"cpus_per_rank": 1}
        role.get("launcher", {}).pop("gpus", None)
        if "launcher" in role:
            role["launcher"] = {"ranks_per_node": min(2, role["launcher"]["ranks_per_node"])}
        role["nodes"] = min(2, role.get("nodes", 1))
    own = {name: value for name, value in spec.items() if name not in ("resources", "environment")}
    job = site.job([], **own, environment={"mode": "path", "path": place})
    del job["command"]
    return job


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_shape_starts_asks_and_ends(site: Site, name: str) -> None:
    spec = yaml.safe_load(SHAPES[name])
    assert len(SHAPES[name].splitlines()) < 30
    launch = site.launch(small(site, spec), wait=True)
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], (log_of(run, launch["job_id"]), rank_logs(run))
    roles = {role["name"]: role for role in read_json(run / "started.json")["roles"]}
    assert {*roles} == {*spec["roles"]}
    (deciding,) = (role for role in roles if role in ("trainer", "driver"))
    result = json.loads((run / "work" / "result.json").read_text())
    waited = spec["roles"][deciding]["after_ready"]
    told = [
        host
        for role in waited
        if f"{{{role}." in str(spec["roles"][deciding]["command"])
        for host in roles[role]["hosts"]
    ]
    assert len(result["answers"]) == len(told) and {*result["answers"]} <= {*waited}, result
    assert all(host in " ".join(result["words"]) for host in told), result
    assert all(roles[role]["ready"] <= roles[deciding]["began"] for role in waited)
    nothing_left(site, launch)
