# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`train` from inside an execution environment: ansible-builder writes its Containerfile from what the collection's
tarball asks for, buildah builds it, and it reaches the lab by SSH.

The base is this machine's Debian, made by mmdebstrap, because no registry of images can be reached from everywhere.
"""

from __future__ import annotations

import configparser
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib

from ansible_collections.rankzero.slurm.plugins.module_utils.image import debian
from tests import wheels
from tests.cluster.door import Door
from tests.cluster.launching import RESULT, Site
from tests.repository import ROOT, load_yaml, read, run

pytestmark = pytest.mark.more

BASE, IMAGE = "localhost/rankzero-base:debian", "localhost/rankzero-ee:test"
#: ansible-builder gives the image this user.
USER = 1000
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
#: Debian's pip installs nothing beside apt's packages without it.
STAGES = {name: ["ENV PIP_BREAK_SYSTEM_PACKAGES=1"] for name in ("base", "galaxy", "builder", "final")}


class Builder:
    """buildah with images of its own, in mounts of its own."""

    def __init__(self, folder: Path) -> None:
        self.words = ["unshare", "--mount", "buildah", f"--root={folder}/root", f"--runroot={folder}/run"]

    def __call__(self, *words: str | Path) -> str:
        return run(*self.words, *words).stdout.strip()

    def last(self, *words: str | Path) -> str:
        """The last line of its answer: a name."""
        return self(*words).splitlines()[-1]


def base_of_this_machine(builder: Builder, folder: Path) -> None:
    """An image of this machine's Debian with Python and pip."""
    mirror = debian.pick_mirror(run(*debian.TARGETS).stdout)
    if not mirror:
        pytest.skip("apt of this machine has no archive of Debian to make a base of")
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    apt = [f"--aptopt={line}" for line in debian.transport_options(run(*debian.DUMP).stdout)]
    packages = "--include=ca-certificates,python3,python3-pip"
    tree = folder / "base.tar"
    run("mmdebstrap", "--variant=minbase", packages, *apt, suite, tree, f"deb {mirror} {suite} main")
    made = builder.last("from", "scratch")
    builder("add", made, tree, "/")
    builder("config", "--cmd=/bin/bash", made)
    builder("commit", "--rm", made, BASE)
    tree.unlink()


def definition(folder: Path, tarball: Path) -> Path:
    """What a site gives to ansible-builder: the collection says by itself what it needs."""
    (declared,) = tomllib.loads(read("antsibull-nox.toml"))["sessions"]["ee_check"]["execution_environments"]
    written = folder / "execution-environment.yml"
    content = {
        "version": load_yaml("meta/execution-environment.yml")["version"],
        "images": {"base_image": {"name": BASE}},
        "dependencies": {
            "ansible_core": {"package_pip": declared["ansible_core_package"]},
            "ansible_runner": {"package_pip": declared["ansible_runner_package"]},
            "galaxy": {"collections": [{"name": f"/build/collection/{tarball.name}", "type": "file"}]},
        },
        "options": {"package_manager_path": "/usr/bin/apt-get", "skip_pip_install": True},
        "additional_build_files": [{"src": str(tarball), "dest": "collection"}],
        "additional_build_steps": {
            **{f"prepend_{stage}": lines for stage, lines in STAGES.items()},
            "append_base": ["RUN apt-get --quiet update"],
        },
    }
    written.write_text(json.dumps(content), encoding="utf-8")
    return written


def settings_of_pip(folder: Path) -> Path:
    """How pip reaches its index, without what lies on this machine's disk."""
    parser = configparser.RawConfigParser()
    known = ("cert", "index-url", "proxy", "timeout", "trusted-host")
    parser["global"] = {name: value for name, value in wheels.pip_settings().items() if name in known}
    path = folder / "pip.conf"
    with path.open("w", encoding="utf-8") as stream:
        parser.write(stream)
    return path


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory, artifact: Path) -> Iterator[tuple[Builder, str]]:
    """buildah, and the name of a container of the execution environment."""
    missing = [name for name in ("buildah", "mmdebstrap", "ansible-builder") if not shutil.which(name)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, and {', '.join(missing) or 'nothing else'}")
    folder = tmp_path_factory.mktemp("ee")
    builder = Builder(folder)
    base_of_this_machine(builder, folder)
    context = folder / "context"
    run("ansible-builder", "create", f"--file={definition(folder, artifact)}", f"--context={context}")
    (text,) = (path for name in ("Containerfile", "Dockerfile") if (path := context / name).exists())
    mounts = [f"--volume={settings_of_pip(folder)}:/etc/pip.conf:ro"]
    if os.path.exists(CERTIFICATES):
        mounts.append(f"--volume={CERTIFICATES}:{CERTIFICATES}:ro")
    ways = ("--isolation=chroot", "--network=host", "--pull-never", "--layers=false")
    builder("bud", *ways, *mounts, f"--file={text}", f"--tag={IMAGE}", context)
    name = builder.last("from", "--pull-never", IMAGE)
    yield builder, name
    builder("rm", "--all")
    builder("rmi", "--all", "--force")


def test_train_from_inside_reaches_the_lab(container: tuple[Builder, str], site: Site, tmp_path: Path) -> None:
    builder, name = container
    project = tmp_path / "project"
    shutil.copytree(ROOT / "tests" / "ee", project)
    (project / "code").mkdir()
    (project / "code" / "README").write_text("Nothing.\n", encoding="utf-8")
    door = Door(project / "door", site.lab, [str(site.lab.dir / "bin" / "head"), *site.user.become(), "/bin/sh"])
    mounted = f"--volume={project}:/runner/project"
    ways = ("--isolation=chroot", "--network=host", mounted, "--workingdir=/runner/project")
    inside = ["run", *ways, name, "--", "/opt/builder/bin/entrypoint", "ansible-playbook"]
    job = {
        **site.job(RESULT),
        "code": {"src": "code"},
        "resources": {"nodes": 2, "time": "00:10:00"},
        "artifact": {"path": "result.json", "require": {"loss": {"lt": 2}}},
    }
    host = {**door.variables(Path("/runner/project")), "ansible_ssh_private_key_file": "/runner/project/door/key"}
    # Not as ansible_user: behind the door is another user, whose home Ansible would not take then.
    host["ansible_ssh_common_args"] += f" -o User={host.pop('ansible_user')}"
    files = {
        "hosts.json": {"slurm_login": {"hosts": {"login": host}}},
        "job.yml": job,
        "extra.json": {"launch_cluster": site.cluster, "launch_wait": True},
    }
    for path, content in files.items():
        (project / path).write_text(json.dumps(content), encoding="utf-8")
    subprocess.run(["chown", "-R", f"{USER}:0", str(project)], check=True)
    try:
        builder(*inside, "plan.yml")
        shown = builder(*inside, "-i", "hosts.json", "rankzero.slurm.train", "-e", "job=job.yml", "-e", "@extra.json")
    finally:
        door.close()
    (run_dir,) = site.host_path(site.state_root).glob(f"runs/{job['name']}/*/1")
    outcome = json.loads((run_dir / "outcome.json").read_text(encoding="utf-8"))
    assert outcome["success"] and outcome["artifact"]["valid"], outcome
    assert "failed=0" in shown, shown
