# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Under Ansible, Python's own loader imports the libraries, so that they are compiled once and not in every command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.repository import ROOT

#: Imports as ansible-playbook does, and says which loader each module has.
IMPORTS = """
import gc, json, sys
if sys.argv[2] == "program":
    import ansible.cli
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
_AnsibleCollectionFinder(paths=[sys.argv[1]])._install()
before = list(sys.meta_path)
import ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render
import ansible_collections.rankzero.slurm.plugins.module_utils.run.search.listing
name = "ansible_collections.rankzero.slurm.plugins."
print(sys.meta_path == before)
print(gc.get_freeze_count())
print(json.dumps({key[len(name):]: [type(module.__spec__.loader).__name__, module.__spec__.cached]
                  for key, module in sys.modules.items() if key.startswith(name)}))
"""


def imported(tmp_path: Path, way: str) -> tuple[str, int, dict[str, list[str]]]:
    """Whether Python's finders stay as they were, how many objects its garbage collector leaves alone, and the loader
    and the compiled file of each module.
    """
    place = tmp_path / "ansible_collections" / "rankzero"
    place.mkdir(parents=True)
    (place / "slurm").symlink_to(ROOT)
    argv = [sys.executable, "-c", IMPORTS, str(tmp_path), way]
    environment = {"PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    same, frozen, loaders = done.stdout.splitlines()
    return same, int(frozen), json.loads(loaders)


def test_ansible_compiles_no_library(tmp_path: Path) -> None:
    same, frozen, loaders = imported(tmp_path, "program")
    own = {name for name, (loader, _cached) in loaders.items() if loader == "SourceFileLoader"}
    assert same == "False" and frozen > 10_000, "what Ansible has imported is not looked through again"
    assert own >= {
        "plugin_utils.jobs.render",
        "plugin_utils.jobs",
        "module_utils.spec.job",
        "module_utils.run.search.listing",
    }
    assert set(loaders) - own == {"module_utils", "plugin_utils"}
    assert all(Path(loaders[name][1]).is_file() for name in own)


def test_ansible_test_finds_nothing_changed(tmp_path: Path) -> None:
    """Its check of imports refuses a plugin that changes how Python imports."""
    same, frozen, loaders = imported(tmp_path, "check")
    assert (same, frozen) == ("True", 0)
    assert all(loader != "SourceFileLoader" for loader, _cached in loaders.values())
