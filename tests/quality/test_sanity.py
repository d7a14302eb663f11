# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test sanity, without containers and without anything from outside the package index."""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests import wheels
from tests.repository import BIN, CACHE, bullet_list, files, read, run

#: Put where ansible-test keeps the script that installs pip into its environments. It would fetch that script from a
#: host of its own. And each of its environments (one for each test that needs packages) would install pip anew.
GET_PIP = '''\
"""Give this virtual environment the pip that is installed in {installed!r}."""
import shutil
import sysconfig

ignored = shutil.ignore_patterns("bin")
shutil.copytree({installed!r}, sysconfig.get_path("purelib"), ignore=ignored, dirs_exist_ok=True)
'''


def installed_pip(home: Path, version: str) -> Path:
    """A folder with that pip, kept between runs and complete whenever it exists."""
    kept = home / f"pip-{version}-{sys.version_info.major}.{sys.version_info.minor}"
    if not kept.exists():
        unfinished = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        run("python", "-m", "pip", "install", "--quiet", "--no-deps", "--target", unfinished, f"pip=={version}")
        unfinished.rename(kept)
    return kept


def out_of_reach() -> dict[str, str]:
    """Sanity tests that pip cannot install here -> why: what they require lies at an address, not in the index."""
    found = {}
    for path in sorted((_source() / "_data" / "requirements").glob("sanity.*.txt")):
        for host in re.findall(r"@ https?://([^/\s]+)/", path.read_text(encoding="utf-8")):
            try:
                socket.create_connection((host, 443), 10).close()
            except OSError as error:
                found[path.name.split(".")[1]] = f"{path.name} requires a file of {host}: {error}"
    return found


def _source() -> Path:
    spec = importlib.util.find_spec("ansible_test")
    assert spec and spec.submodule_search_locations, "ansible-test belongs to ansible-core and is not installed"
    return Path(next(iter(spec.submodule_search_locations)))


def prepare_home(home: Path) -> None:
    """A home for ansible-test: its caches, pip's settings, and our way to install pip."""
    source = _source() / "_internal" / "python_requirements.py"
    versions = set(re.findall(r"\bpip='(\d+(?:\.\d+)+)'", source.read_text(encoding="utf-8")))
    assert versions, f"{source} no longer says which pip it installs: adapt this test to the new ansible-core"
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in versions:
        script = GET_PIP.format(installed=str(installed_pip(home, version)))
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(script, encoding="utf-8")
    parser = configparser.RawConfigParser()
    parser["global"] = wheels.pip_settings()
    settings = home / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True, exist_ok=True)
    with settings.open("w", encoding="utf-8") as stream:
        parser.write(stream)


def test_ansible_test_sanity(exported_collection: Path, tmp_path: Path) -> None:
    """On what ships, with the settings in tests/: the rules are about content for Ansible, and ruff reads the rest."""
    home = CACHE / "ansible-test"
    prepare_home(home)
    tree = tmp_path / "ansible_collections" / "rankzero" / "slurm"
    shutil.copytree(exported_collection, tree, symlinks=True)
    for folder in tree.glob("tests/*"):
        if folder.is_dir() and folder.name != "sanity":
            shutil.rmtree(folder)
    for path in (*tree.glob("tests/*.py"), tree / "scripts", tree / "benchmarks", tree / "examples"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    left = out_of_reach()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # The interpreter itself, not a shim that picks one by the folder it is called in.
    interpreter = Path(BIN / "python").resolve().parent
    run(
        "ansible-test",
        "sanity",
        "--python",
        version,
        "--color",
        "no",
        *(word for name in left for word in ("--skip-test", name)),
        cwd=tree,
        env={"HOME": str(home), "PATH": f"{BIN}:{interpreter}:/usr/bin:/bin"},
    )
    if left:
        pytest.skip(f"all others passed, but {'; '.join(f'{name} did not run: {why}' for name, why in left.items())}")


def test_no_rule_is_ignored() -> None:
    """An ignored rule is ignored for a whole file, and an index refuses most of them."""
    ignored = [line for path in files("tests/sanity/ignore-") for line in read(path).splitlines() if line.strip()]
    assert not ignored, bullet_list(ignored)
