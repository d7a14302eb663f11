# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by all tests: the order of the run, an environment without a found cluster, and the built collection."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.recording import CALLBACKS
from tests.repository import CACHE, ROOT, run

# pytest rewrites every file of tests: the other workers and the next run read what one has made of it. What tests start
# does as the environment says.
sys.dont_write_bytecode, sys.pycache_prefix = False, str(CACHE / "pycache")

# On a busy machine an example takes as long as it takes: no test of this repository judges times.
settings.register_profile("rankzero", deadline=None)
settings.load_profile("rankzero")

#: Files whose tests use the sealed environment of the first example, with torch in it. One worker runs them, on one lab
#: with one store: it is built once.
WITH_TORCH = (
    "tests/cluster/test_environment_example.py",
    "tests/cluster/test_example_grpo.py",
    "tests/cluster/test_launch_user.py",
)
#: Cheap first: a mistake in a name is reported in seconds. Then what is BUSY: one worker begins with it at once, and
#: the others with the unit tests. Then what takes longest, so that no worker ends alone with it. The longest prefix
#: decides.
ORDER = (
    "tests/quality/test_repository",
    "tests/quality/test_imports",
    "tests/quality/test_documentation",
    "tests/quality/test_lint",
    "tests/quality/test_sanity",
    *WITH_TORCH,
    "tests/quality/test_molecule",
    "tests/quality/test_pythons",
    "tests/quality/test_artifact",
    "tests/quality",
    "tests/unit",
    "tests/golden",
    "tests/cluster/test_example_cpu_ddp_lab",
    "tests/cluster/test_site",
    "tests/cluster/test_examples_gpu",
    "tests/cluster/test_sweep",
    "tests/cluster/test_reconcile",
    "tests/integration/test_hub_cache",
    "tests/cluster/test_releases",
    "tests/cluster/test_launch_heal",
    "tests/cluster",
    "tests",
    "tests/integration",
)
#: Files of tests that keep a core busy from their first second to their last, while most of the others wait for Slurm.
#: One worker at a time runs them, so that those who wait find a machine that answers in time: what is not BUSY has to
#: take longer than all of them together, and they have to begin first.
BUSY = ("tests/quality/", *WITH_TORCH)


def pytest_collectstart() -> None:
    """Keep what pytest makes of the next file of tests, although a program of the runtime was imported before.

    Such a program compiles nothing into the folder of a launch: it sets sys.dont_write_bytecode.
    """
    sys.dont_write_bytecode = False


class Turned(pytest.Dir):
    """A folder of tests, of whose entries each worker reads another one first, and then those after it.

    The workers of a run without a cache rewrite the asserts of all files at once. So each rewrites its share of them,
    and reads what the others have made of theirs.
    """

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        entries = list(super().collect())
        worker: Mapping[str, Any] = getattr(self.config, "workerinput", {"workerid": "gw0", "workercount": 1})
        number, workers = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        first = number % workers * len(entries) // workers
        return entries[first:] + entries[:first]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return None if (path / "__init__.py").is_file() else Turned.from_parent(parent, path=path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="run the tests that are marked `more`, too, as `make test-all` does"
    )


def pytest_configure(config: pytest.Config) -> None:
    """No test may find a cluster, or settings of one, in the environment of the person who runs it."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "ANSIBLE_"))]:
        del os.environ[name]
    # Launches detach in CI by default: what a test sees must not depend on where it runs.
    os.environ.pop("CI", None)
    # Without it a playbook compiles what the one before has compiled. What a user starts keeps it beside the files.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(CACHE / "collections")
    os.environ["ANSIBLE_NOCOLOR"] = "1"
    # All workers share what Ansible packs for a module (callback_plugins/rankzero_payloads.py).
    os.environ["ANSIBLE_CALLBACK_PLUGINS"] = str(CALLBACKS)
    if not hasattr(config, "workerinput"):
        place = tempfile.mkdtemp(prefix="rankzero-payloads-")
        os.environ["RANKZERO_TEST_PAYLOADS"] = place
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))
    # A run that a shell has put into the background ignores SIGINT, and so would all that it starts. With a handler
    # here, what the tests start begins with the default, as it does under Slurm and in a terminal.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make test-all` runs, unless its file was asked for by name. Sort the rest by ORDER; within
    one place by path, and within a file as collected: all workers must have the same order.
    """
    named = {Path(argument.split("::")[0]).name for argument in config.args if ".py" in argument}
    if not config.getoption("--all"):
        left_out = [item for item in items if item.get_closest_marker("more") and item.path.name not in named]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    def rank(item: pytest.Item) -> tuple[int, tuple[str, ...]]:
        path = item.path.relative_to(ROOT)
        prefixes = [prefix for prefix in ORDER if path.as_posix().startswith(prefix)]
        return ORDER.index(max(prefixes, key=len)), path.parts

    items.sort(key=rank)


class ByFile(LoadFileScheduling):
    """A file of tests stays together, because its tests share a lab; so do the files WITH_TORCH. Of the files that are
    BUSY one is run at a time, as long as there are others.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return WITH_TORCH[0] if file in WITH_TORCH else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker the next file that it may run now: the scheduler takes the first one of its queue."""
        elsewhere = [
            file
            for worker, files in self.assigned_work.items()
            if worker is not node
            for file, tests in files.items()
            if file.startswith(BUSY) and not all(tests.values())
        ]
        if elsewhere:
            quiet = next((file for file in self.workqueue if not file.startswith(BUSY)), None)
            if quiet:
                self.workqueue.move_to_end(quiet, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile | None:
    """In place of `--dist loadfile`; other ways to distribute, and a run in one process, stay as they are."""
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def exported_collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real folder .../ansible_collections/rankzero/slurm that holds the working tree and nothing that git ignores."""
    target = tmp_path_factory.mktemp("export")
    return Path(run(ROOT / "scripts" / "export", target).stdout.strip())


@pytest.fixture(scope="session")
def writable_collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported collection for a tool that writes into the folder that it reads."""
    return Path(run(ROOT / "scripts" / "export", tmp_path_factory.mktemp("publishable")).stdout.strip())


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tarball that `make build` makes from the working tree."""
    target = tmp_path_factory.mktemp("artifact")
    run(ROOT / "scripts" / "build", target, "tarball")
    (tarball,) = target.glob("rankzero-slurm-*.tar.gz")
    return tarball


@pytest.fixture(scope="session")
def installed_collections(tmp_path_factory: pytest.TempPathFactory, artifact: Path) -> Path:
    """A collections path that holds the installed tarball: what a user has, without the checkout."""
    target = tmp_path_factory.mktemp("installed")
    # Only the empty path is searched: a collection that is found elsewhere would not be installed again.
    where = {"ANSIBLE_COLLECTIONS_PATH": str(target)}
    run("ansible-galaxy", "collection", "install", "--offline", "--collections-path", target, artifact, env=where)
    return target
