# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real pyxis and enroot on a real Slurm: images of ours, the traps of docs/containers.md by their numbers.

Runs where both are installed; no distribution of the tests packages them. tests/unit/runtime/test_pyxis.py is the same
under a stand-in, everywhere.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import images
from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.launching import Site, log_of, rank_logs
from tests.cluster.test_attach import PROMPT
from tests.cluster.test_launch_oci import VALUES, opened_shell, ranks_look_about, seen_in_the_image

PLUGIN = next(
    (
        found
        for folder in ("/usr/local/lib", "/usr/lib64", "/usr/lib", "/usr/lib/*-linux-gnu")
        for found in glob.glob(f"{folder}/slurm*/spank_pyxis.so")
    ),
    None,
)
pytestmark = [
    pytest.mark.skipif(
        PLUGIN is None or shutil.which("enroot") is None or os.getuid() != 0,
        reason="needs root, the plugin spank_pyxis.so and enroot; no distribution of the tests has a package of them",
    ),
    pytest.mark.needs_root("no machine of the tests has pyxis: what has not run as another user stays as it is"),
]
#: With it, enroot's hook for PyTorch sets the ranks' places to its own (trap 5).
IN_THE_IMAGE = {**VALUES, "PYTORCH_VERSION": "2.7.0"}


@pytest.fixture(scope="module")
def lab() -> Iterator[LabCluster]:
    """A lab whose Slurm loads pyxis. Everybody may read the file that says so; the tests' own folders are root's."""
    folder = Path(tempfile.mkdtemp(prefix="rankzero-pyxis-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "plugstack.conf").write_text(f"required {PLUGIN}\n")
    this = lab_of(
        instance_name("pyxis"),
        nodes=2,
        partitions=[],
        internet=False,
        binds=[str(folder)],
        slurm_conf=[f"PlugStackConfig={folder}/plugstack.conf"],
    )
    try:
        with booted(this) as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def image(lab: LabCluster) -> str:
    """A squashfs file on /shared, as the nodes name it."""
    made = images.built(lab.shared / "images-of-pyxis", IN_THE_IMAGE)
    return made["sqsh"].replace(str(lab.shared), lab.shared_inside)


def leftovers(site: Site) -> dict[str, list[str]]:
    """On each node: what pyxis and enroot have made for containers, wherever enroot.conf says that they do."""
    found = {}
    for node in site.lab.nodes:
        look = "find /tmp /var/tmp /run -xdev -maxdepth 4 -name 'pyxis_*' 2>/dev/null; :"
        said = site.lab.node(node, ["sh", "-c", look]).stdout.split()
        if said:
            found[node] = said
    return found


def test_traps_5_7_8_and_10_of_a_users_ranks_on_two_nodes(site: Site, image: str) -> None:
    site.outcome(site.launch(site.job("true", name="store")))
    container, how = {"runtime": "pyxis", "image": image}, site.as_ordinary_user()
    # A secret would be a file that Ansible's local connection brings.
    ranks_look_about(site, container, "image=ok mounts=ok", uid=65534, env={"TOKEN": "hidden"}, launch=how)
    assert leftovers(site) == {}


def test_trap_2_at_the_level_of_the_job_the_script_is_on_the_node(site: Site, image: str) -> None:
    """And a user is root in an image that he may write, as the example enroot_site has it."""
    site.outcome(site.launch(site.job("true", name="store")))
    job = site.job(
        "touch /new && echo $RANK $INSIDE $(cat /in-the-image) $(id -u); [ $RANK != 0 ] || echo {} > result.json",
        resources={"nodes": 2, "time": "00:10:00"},
        container={"runtime": "pyxis", "image": image, "level": "job", "remap_root": True, "writable": True},
        artifact={},
    )
    launch = site.launch(job, **site.as_ordinary_user())
    outcome, run = site.outcome(launch), site.run_dir(launch)
    assert outcome["success"], log_of(run, launch["job_id"])
    assert f"#SBATCH --container-image={image}" in (run / "job.sbatch").read_text()
    assert [text.splitlines()[-1] for text in rank_logs(run).values()] == ["0 torch yes 0", "1 torch yes 0"]


@pytest.mark.parametrize("preflight", [True, False], ids=["looked at before", "seen by the step"])
def test_an_image_that_a_node_lacks_is_named(site: Site, image: str, preflight: bool) -> None:
    lacking = site.lab.nodes[1]
    job = site.job(
        "true",
        container={"runtime": "pyxis", "image": image},
        resources={"nodes": 2, "time": "00:10:00"},
        preflight={"enabled": preflight},
    )
    site.lab.faults.hide(lacking, os.path.dirname(image))
    try:
        outcome = site.outcome(site.launch(job))
    finally:
        site.lab.faults.unhide(lacking, os.path.dirname(image))
    assert not outcome["success"]
    if preflight:
        assert outcome["message"].startswith(f"preflight: {lacking}: the image {image} is not here"), outcome
    else:
        assert f"{lacking}: error: pyxis:" in outcome["message"] and image in outcome["message"], outcome


def test_a_damaged_image_is_in_the_verdict(site: Site, image: str) -> None:
    broken = f"{site.state_root}.broken.sqsh"
    site.host_path(broken).parent.mkdir(parents=True, exist_ok=True)
    content = bytearray(site.host_path(image).read_bytes())
    middle = len(content) // 2
    content[middle : middle + 65536] = os.urandom(65536)
    site.host_path(broken).write_bytes(content)
    launch = site.launch(site.job("true", container={"runtime": "pyxis", "image": broken}))
    outcome = site.outcome(launch)
    step = (site.run_dir(launch) / "logs" / "0" / "step.log").read_text()
    assert outcome["message"].startswith("no rank started in its container: slurmstepd-"), (outcome, step)
    assert "pyxis:     " in outcome["message"], "what enroot says, and not only that it failed"
    assert rank_logs(site.run_dir(launch)) == {}
    site.ended(launch["job_id"])
    assert leftovers(site) == {}


def test_trap_3_a_node_whose_enroot_does_not_run(site: Site, image: str) -> None:
    lacking, enroot = site.lab.nodes[1], str(shutil.which("enroot"))
    job = site.job("true", container={"runtime": "pyxis", "image": image}, resources={"nodes": 2, "time": "00:10:00"})
    site.lab.node(lacking, ["chmod", "0", enroot])
    try:
        launch = site.launch(job)
        outcome = site.outcome(launch)
    finally:
        site.lab.node(lacking, ["chmod", "755", enroot])
    assert not outcome["success"] and outcome["ended_by"] == "setup", outcome
    assert lacking in outcome["message"], (outcome, (site.run_dir(launch) / "logs" / "0" / "step.log").read_text())


def test_trap_14_what_its_node_has_mounted_is_seen_in_the_image(site: Site, image: str) -> None:
    """By root, who fills the store, and then by an ordinary user."""
    seen_in_the_image(site, {"runtime": "pyxis", "image": image})
    seen_in_the_image(site, {"runtime": "pyxis", "image": image}, **site.as_ordinary_user())
    assert leftovers(site) == {}


def test_a_cancelled_job_leaves_nothing(site: Site, image: str) -> None:
    job = site.job(
        "trap '' TERM; sleep 300 & sleep 300", container={"runtime": "pyxis", "image": image}, resources={"nodes": 2}
    )
    launch = site.launch(job)
    site.lab.wait_until(lambda: len(rank_logs(site.run_dir(launch))) == 2, 60, "both ranks are up")
    assert set(leftovers(site)) == set(site.lab.nodes), "they are found while they are there"
    site.lab.head(["scancel", launch["job_id"]])
    assert site.ended(launch["job_id"]) == "CANCELLED"
    site.lab.wait_until(lambda: leftovers(site) == {}, 30, "nothing is left")


def test_its_shell(site: Site, image: str) -> None:
    job = site.job("true", env={"GREETING": "hello"}, container={"runtime": "pyxis", "image": image})
    terminal, folder = opened_shell(site, job)
    terminal.type('echo "@""@$GREETING|$INSIDE|$(ls /in-the*)|$(pwd)@""@"')
    (_before, seen, _after) = terminal.expect(r"@@.*@@.*" + PROMPT).split("@@")
    assert seen.split("|") == ["hello", "torch", "/in-the-image", f"{folder}/work"]
    terminal.type("exit 0")
    terminal.expect("PLAY RECAP")
    assert terminal.close() == 0
