# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built collection: what it holds, that it installs, works by its full name and would be accepted by an index."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.repository import PAGES, ROOT, bullet_list, dead_links, files, run


def test_artifact_holds_what_runs_and_nothing_else(artifact: Path) -> None:
    with tarfile.open(artifact) as archive:
        held = {member.name for member in archive if member.isfile()}
    folders = ("plugins/", "roles/", "playbooks/", "meta/", "docs/", "examples/")
    shipped = [path for folder in folders for path in files(folder)]
    missing = sorted(set(shipped) - held)
    assert not missing, "missing:" + bullet_list(missing)
    ours_alone = re.compile(
        r"(tests|scripts|benchmarks|contributing|build|extensions/molecule|changelogs/fragments|LICENSES|\.[\w-]+"
        r"|Makefile|(CODE|CONTR|MAINT|SECUR)[A-Z_]+\.md|(REUSE|antsibull-nox|pyproject)\.toml|noxfile\.py|renovate\.json)(/|\.yaml|$)"
    )
    unwanted = sorted(path for path in held if ours_alone.match(path))
    assert not unwanted, "these belong to the repository, not to the collection:" + bullet_list(unwanted)


def test_pages_of_the_artifact_link_to_what_is_there(artifact: Path) -> None:
    with tarfile.open(artifact) as archive:
        streams = {member.name: archive.extractfile(member) for member in archive if member.name.endswith(PAGES)}
        pages = {name: stream.read().decode("utf-8") for name, stream in streams.items() if stream}
        dead = dead_links(pages, archive.getnames())
    assert len(pages) > 50 and not dead, bullet_list(dead)


def test_the_same_commit_gives_the_same_bytes(artifact: Path, tmp_path: Path) -> None:
    """Of tarball and wheel, for another user in another place at another time."""
    builds = [tmp_path / "here", tmp_path / "there"]
    run("bash", "-c", f"umask 077; {ROOT / 'scripts' / 'build'} {builds[0]}", env={"TZ": "Pacific/Apia"})
    run(ROOT / "scripts" / "build", builds[1], "wheel", env={"PYTHONHASHSEED": "1", "LC_ALL": "C"})
    shutil.copy(artifact, builds[1])
    held = [{path.name: path.read_bytes() for path in build.glob("rankzero-*")} for build in builds]
    assert len(held[0]) == 2 and held[0].keys() == held[1].keys()
    assert [name for name, content in held[0].items() if held[1][name] != content] == []


def test_installed_collection_is_complete_by_its_own_checksums(installed_collections: Path) -> None:
    where = {"ANSIBLE_COLLECTIONS_PATH": str(installed_collections)}
    # What other tests have run from there is compiled beside its source.
    for compiled in list(installed_collections.rglob("__pycache__")):
        shutil.rmtree(compiled)
    run("ansible-galaxy", "collection", "verify", "--offline", "-p", installed_collections, "rankzero.slurm", env=where)


def test_playbooks_of_the_installed_collection_run_by_their_full_names(
    installed_collections: Path, tmp_path: Path
) -> None:
    """From a user's folder, without the checkout, all in one start. The runs themselves are in tests/cluster."""
    playbooks = [Path(path).stem for path in files("playbooks/", ".yml") if path.count("/") == 1]
    shown = run(
        *("ansible-playbook", "--syntax-check", "--inventory", "localhost,", "-e", "nodes=2"),
        *(f"rankzero.slurm.{name}" for name in playbooks),
        cwd=tmp_path,
        env={"ANSIBLE_COLLECTIONS_PATH": str(installed_collections)},
    ).stdout
    read = re.findall(rf"^playbook: {re.escape(str(installed_collections))}/.*/(\w+)\.yml$", shown, re.M)
    assert playbooks and read == playbooks, shown


def test_installed_modules_show_their_documentation(installed_collections: Path, tmp_path: Path) -> None:
    names = [f"rankzero.slurm.{Path(path).stem}" for path in files("plugins/modules/", ".py")]
    where = {"ANSIBLE_COLLECTIONS_PATH": str(installed_collections)}
    shown = run("ansible-doc", "--json", *names, cwd=tmp_path, env=where).stdout
    documented = json.loads(shown[shown.index("{") :])
    missing = [name for name in names if not documented.get(name, {}).get("doc", {}).get("description")]
    assert names and not missing, "ansible-doc shows nothing of:" + bullet_list(missing) + f"\n{shown[:2000]}"


@pytest.mark.more
def test_galaxy_importer(artifact: Path, tmp_path: Path) -> None:
    """The check of an index on upload. Its ansible-lint is left out: that of test_lint.py looks at more, and
    what else it asks for is in test_publication.py. A release runs it.
    """
    settings = {"HOME": str(tmp_path), "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "no"}
    said = run("python", "-m", "galaxy_importer.main", artifact, cwd=tmp_path, env=settings).stdout
    assert "Importer processing completed successfully" in said, said
    complaints = [line for line in said.splitlines() if line.startswith(("ERROR", "WARNING"))]
    assert not complaints, bullet_list(complaints)
