# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments on nodes without a route out, both ways: from a login node that has one, and from what was carried in.

The index is a program of the test on the host's loopback. The head reaches it through the lab's proxy, the nodes not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import apptainer, images
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site, log_of, node_folders, rank_logs
from tests.cluster.test_launch_oci import END_OF_PROMPT, opened_shell
from tests.repository import BIN
from tests.unit.pyenv.conftest import Index, make_wheel
from tests.unpacked import Unavailable

NODES = ["node02", "node03"]
MODULE = "rankzero.slurm.uv_environment"
PROGRAM = """\
import json, os, sys, urllib.request
import alpha
said = {"node": os.environ["SLURMD_NODENAME"], "prefix": sys.prefix, "value": alpha.VALUE, "file": alpha.__file__,
        "venv": os.environ["VIRTUAL_ENV"], "cached": alpha.__cached__ and os.path.isfile(alpha.__cached__)}
try:
    said["network"] = urllib.request.urlopen(sys.argv[1], timeout=5).status
except OSError as error:
    said["network"] = "none"
with open("said-%s.json" % os.environ["RANK"], "w") as stream:
    json.dump(said, stream)
if os.environ["RANK"] == "0":
    with open("result.json", "w") as stream:
        stream.write('{"loss": 1.0}')
"""

INSIDE = """\
import json, os, sys
import alpha, beta, gamma
said = {"alpha": alpha.VALUE, "beta": beta.VALUE, "gamma": gamma.VALUE, "prefix": sys.prefix,
        "inside": os.path.exists("/in-the-image")}
with open("said-%s.json" % os.environ["RANK"], "w") as stream:
    json.dump(said, stream)
if os.environ["RANK"] == "0":
    with open("result.json", "w") as stream:
        stream.write('{"loss": 1.0}')
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("index")
    # 127.0.0.1 is no address for a proxy: every host takes it for itself.
    made = Index(folder / "served", "127.0.0.2")
    try:
        text = {"alpha/__init__.py": "import beta\nVALUE = beta.VALUE + 1\n"}
        made.add(make_wheel(folder, "alpha", "1.0", text, ("beta",)))
        made.add(make_wheel(folder, "beta", "2.0", {"beta.py": "VALUE = 1\n"}))
        yield made
    finally:
        made.close()


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest, index: Index) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("nodes of the simple way have the host's network and folders")
    made = Site(lab, tmp_path, request.node.name)
    made.cluster["store_root"] = f"{made.state_root}/store"  # its own: what it holds is what is tested
    code = tmp_path / "code"
    (code / "prog.py").write_text(PROGRAM, encoding="utf-8")
    text = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["alpha"]\n'
    (code / "pyproject.toml").write_text(text, encoding="utf-8")
    command = [
        str(BIN / "uv"),
        "lock",
        "-q",
        "--no-config",
        "--python",
        "/usr/bin/python3",
        "--default-index",
        index.url,
    ]
    subprocess.run(command, cwd=code, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, check=True)
    yield made
    made.close()


def job(site: Site, index: Index, mode: str, **environment: Any) -> dict[str, Any]:
    return site.job(
        ["prog.py", index.url],
        launcher={"ranks_per_node": 2},
        resources={"nodes": len(NODES), "time": "00:10:00", "sbatch": {"nodelist": ",".join(NODES)}},
        environment={"mode": mode, "project": str(site.folder / "code"), **environment},
        artifact={},
    )


def task(site: Site, host: str, **options: Any) -> Any:
    """One task of uv_environment, on the head or on the controller itself."""
    given = {"project": str(site.folder / "code"), "store_root": site.cluster["store_root"]}
    given |= {"mode": "wheelhouse", **options}
    play = [{"hosts": host, "gather_facts": False, "tasks": [{MODULE: given}]}]
    if host == "localhost":
        play[0]["connection"] = "local"
    path = site.folder / "task.yml"
    path.write_text(json.dumps(play), encoding="utf-8")  # JSON is YAML
    played = site.start(None, playbook=str(path)).finish()
    return played.results(MODULE)[-1]


def said(run: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((run / "work").glob("said-*.json"))]


def proven(site: Site, index: Index, launch: dict[str, Any]) -> Path:
    """The launch succeeded on nodes without a network, each with an environment of its own, and nothing is left."""
    outcome, run = site.outcome(launch), site.run_dir(launch)
    site.ended(launch["job_id"])
    log = log_of(run, launch["job_id"])
    assert outcome["success"], (outcome, log)
    ranks = said(run)
    assert [(one["value"], one["network"], one["cached"]) for one in ranks] == [(2, "none", True)] * 4
    assert {one["node"] for one in ranks} == set(NODES)
    for one in ranks:
        own = f"/tmp/rankzero-{site.user.uid}-{launch['job_id']}"
        assert re.fullmatch(f"{own}-[0-9a-f]{{8}}/environment", one["prefix"]), one
        assert one["venv"] == one["prefix"] and one["file"].startswith(one["prefix"])
    assert "environment: 2 nodes made it" in log
    table = (run / "preflight" / "0" / "table").read_text()
    assert table.count("env=made") == 2
    assert node_folders(site.lab, *NODES) == []
    return run


def test_from_a_login_node_that_has_a_network(site: Site, index: Index) -> None:
    """The launch itself gathers uv's cache on the head; the nodes sync from it, and ask nobody."""
    launch = site.launch(job(site, index, "cache"))
    proven(site, index, launch)
    made = json.loads(next(site.host_path(site.cluster["store_root"]).glob("packages/*/packages.json")).read_text())
    assert "cache.tar" in made["files"] and made["packages"] == {"alpha": "1.0", "beta": "2.0"}
    again = site.launch(job(site, index, "cache"))
    assert (again["submission"], again["key"]) == ("unchanged", launch["key"])
    # What a node that was killed has left goes when the next job starts, and a cancelled one leaves nothing.
    dead = f"/var/tmp/rankzero-{site.user.uid}-999999-deadbeef"
    leave = f"mkdir -p {dead}/install && touch {dead}/lock && touch -d 2020-01-01 {dead}"
    site.lab.node(NODES[0], [*site.user.become(), "sh", "-c", leave])
    wanted = {**job(site, index, "cache"), "command": ["sh", "-c", "touch begun-$RANK; exec sleep 300"]}
    launch = site.launch(wanted)
    site.wait_for(site.run_dir(launch) / "work" / "begun-3")
    assert "environment" in site.lab.node(NODES[0], ["sh", "-c", f"ls /tmp/rankzero-{site.user.uid}-*"]).stdout
    assert site.lab.node(NODES[0], ["test", "-e", dead], check=False).returncode == 1
    site.lab.head(["scancel", launch["job_id"]])
    assert site.ended(launch["job_id"]) == "CANCELLED"
    site.lab.wait_until(lambda: not node_folders(site.lab, *NODES), 60, "the nodes have removed their environments")


def test_carried_in_and_tampered_with(site: Site, index: Index) -> None:
    """A wheelhouse is made on the controller for the nodes' platform, carried by hand, and refused once changed."""
    nodes_have = {"python": "3.11", "platform": "x86_64-manylinux_2_17"}
    bundle = task(site, "localhost", store_root=str(site.folder / "bundle"), **nodes_have)
    assert bundle["changed"], bundle
    carried = site.host_path(f"{site.state_root}/usb")
    shutil.copytree(bundle["ref"]["path"], carried)
    site.user.give(carried.parent)

    wanted = job(site, index, "wheelhouse", **nodes_have)
    # Nothing of this is on the cluster, which has no network either: the launch does not begin.
    planned = site.play(wanted, "--check").launch()
    assert [ref["key"] for ref in planned["missing"] if ref["kind"] == "packages"] == [bundle["ref"]["key"]]
    taken = task(site, "slurm_login", source=f"{site.state_root}/usb", download="head", **nodes_have)
    assert taken["changed"] and taken["ref"]["digest"] == bundle["ref"]["digest"]
    proven(site, index, site.launch(wanted))

    wheel = site.host_path(f"{taken['ref']['path']}/wheels/beta-2.0-py3-none-any.whl")
    wheel.chmod(0o644)
    make_wheel(site.folder, "beta", "2.0", {"beta.py": "VALUE = 665\n"}).replace(wheel)
    launch = site.launch(wanted, launch_relaunch="always")
    outcome, run = site.outcome(launch), site.run_dir(launch)
    site.ended(launch["job_id"])
    assert outcome["ended_by"] == "setup" and not rank_logs(run), outcome
    assert re.search(r"preflight: node02: environment: uv pip: .*[Hh]ash.*beta", outcome["message"]), outcome
    assert node_folders(site.lab, *NODES) == []
    # Looked at on the head, the file is named; what was carried in mends it.
    mended = task(site, "slurm_login", source=f"{site.state_root}/usb", **nodes_have)
    assert mended["changed"] and mended["damaged"] == ["wheels/beta-2.0-py3-none-any.whl (changed)"]


def runtime_of(site: Site, runtime: str) -> str:
    """The folder for the PATH of the nodes that has the runtime; empty if it is there already. Skips without it."""
    if runtime == "oci":
        if not shutil.which("crun"):
            pytest.skip("crun is not installed")
        return ""
    place = f"{site.state_root}.apptainer"
    site.own(place)
    try:
        return apptainer.install(site.host_path(place), place)
    except Unavailable as reason:
        pytest.skip(f"no apptainer here: {reason}")


# An environment in an image of oci: test_launch_oci.py.
@pytest.mark.parametrize("runtime", [pytest.param("oci", marks=pytest.mark.more), "apptainer"])
def test_inside_an_image(site: Site, index: Index, runtime: str) -> None:
    """Made once, by the image's own Python, on top of the image's packages: one is added, one is another version."""
    tools = runtime_of(site, runtime)
    folder = site.host_path(f"{site.state_root}.image")
    root = images.root_folder(folder / "root", programs=(str(BIN / "uv"),))
    packages = root / "usr" / "lib" / "python3" / "dist-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (packages / "beta.py").write_text("VALUE = -7\n", encoding="utf-8")
    (packages / "gamma.py").write_text("VALUE = 3\n", encoding="utf-8")
    made = images.built(folder, {"INSIDE": "yes"}, "oci" if runtime == "oci" else "sif")
    image = made["sif"] if runtime == "apptainer" else str(Path(made["sqsh"]).parent / "bundle")
    (site.folder / "code" / "prog.py").write_text(INSIDE, encoding="utf-8")
    nodes_have = {"python": "3.11", "platform": "x86_64-manylinux_2_17"}
    wanted = job(site, index, "wheelhouse", **nodes_have)
    wanted["container"] = {"runtime": runtime, "image": image.replace(str(site.lab.shared), site.lab.shared_inside)}
    wanted["setup"] = {"commands": [f'export PATH="{tools}:$PATH"'] if tools else []}
    wanted["preflight"] = {"imports": ["alpha", "gamma"]}
    prefixes = set()
    for seed in (1, 2):
        launch = site.launch({**wanted, "seed": seed})
        outcome, run = site.outcome(launch), site.run_dir(launch)
        log = log_of(run, launch["job_id"])
        assert outcome["success"], (outcome, log, rank_logs(run))
        ranks = said(run)
        assert [(one["alpha"], one["beta"], one["gamma"], one["inside"]) for one in ranks] == [(2, 1, 3, True)] * 4
        prefixes |= {one["prefix"] for one in ranks}
        assert ("made on" in log) == (seed == 1) and ("made by an earlier job" in log) == (seed == 2), log
        table = (run / "preflight" / "0" / "table").read_text()
        assert table.count("env=ok") == table.count(f"{runtime}=ok") == 2, table
    (prefix,) = prefixes
    assert "/environments/" in prefix, prefix
    assert os.listdir(site.host_path(prefix).parent) == ["environment"]
    if runtime == "oci":
        terminal, _folder = opened_shell(site, wanted)
        look = "import alpha as a, gamma as g, sys; print(a.VALUE, g.VALUE, sys.prefix)"
        terminal.type(f'echo "@""@$(python -c "{look}")@""@"')
        seen = terminal.expect(r"@@.*@@.*" + END_OF_PROMPT).split("@@")[1].split()
        assert seen[:2] == ["2", "3"] and seen[2].startswith("/") and "/environments/" in seen[2], seen
        terminal.type("exit 0")
        terminal.expect("PLAY RECAP")
        assert terminal.close() == 0


def test_a_python_that_the_nodes_lack(site: Site, index: Index) -> None:
    """Of the head's own kind it is said before anything is submitted; for another platform the nodes say it."""
    refused = site.play(job(site, index, "wheelhouse", python="3.99"))
    assert refused.rc != 0 and "no suitable Python on this host" in refused.output
    assert site.jobs() == {}
    nodes_have = {"python": "3.12", "platform": "x86_64-manylinux_2_17"}
    launch = site.launch(job(site, index, "wheelhouse", **nodes_have))
    outcome = site.outcome(launch)
    site.ended(launch["job_id"])
    assert "no Python 3.12 on this node" in outcome["message"] and "/usr/bin/python3 (3.11)" in outcome["message"]
    assert node_folders(site.lab, *NODES) == []


def test_a_conda_environment_that_was_packed_elsewhere(site: Site, index: Index) -> None:
    """Its folder is a conda environment to the job: activated, and named as such."""
    prefix = site.folder / "prefix"
    for name in ("bin", "conda-meta", "etc/conda/activate.d"):
        (prefix / name).mkdir(parents=True)
    (prefix / "bin" / "python").write_text('#!/bin/sh\nexec /usr/bin/python3 "$@"\n', encoding="utf-8")
    (prefix / "bin" / "python").chmod(0o755)
    (prefix / "bin" / "conda-unpack").write_text("")
    (prefix / "etc" / "conda" / "activate.d" / "gdal.sh").write_text('export GDAL_DATA="$CONDA_PREFIX/share/gdal"\n')
    with tarfile.open(site.folder / "code" / "lab.tar.gz", "w:gz") as archive:
        archive.add(prefix, arcname=".")
    program = 'printf "%s " "$CONDA_PREFIX" "$GDAL_DATA" "$(command -v python)" > said-$RANK; echo "{}" > result.json'
    wanted = site.job(
        program,
        environment={"mode": "conda", "project": str(site.folder / "code"), "file": "lab.tar.gz"},
        code={"src": str(site.folder / "code"), "exclude": ["/lab.tar.gz"]},
        artifact={},
    )
    launch = site.launch(wanted)
    outcome, run = site.outcome(launch), site.run_dir(launch)
    assert outcome["success"], (outcome, log_of(run, launch["job_id"]))
    path = next(
        ref["path"] for ref in json.loads((run / "launch.json").read_text())["refs"] if ref["kind"] == "environment"
    )
    assert (run / "work" / "said-0").read_text().split() == [path, f"{path}/share/gdal", f"{path}/bin/python"]
    assert site.launch(wanted)["submission"] == "unchanged"
