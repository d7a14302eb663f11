# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hydra's launcher `rankzero`: the jobs of a multirun are the elements of one sweep, each launched exactly once.

    python train.py -m lr=0.1,0.01 hydra/launcher=rankzero hydra.launcher.resources.time=00:30:00

Hydra looks for launchers in modules of `hydra_plugins`. What is below `hydra.launcher` is the job spec, but for
`cluster` and `inventory`. Nothing is pickled: a job runs the program with the values of its element, as a person would.
"""

from __future__ import annotations

import inspect
import logging
import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, setup_globals
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf, open_dict

# Hydra imports this file in every program: the rest is imported by those that launch.
if TYPE_CHECKING:
    from rankzero.api import Launch

#: What each rank runs, in the folder of the code: the file of the program, with the words of its command line. The file
#: may name this launcher, which the nodes do not have. Of several ranks the first one's value counts.
PROGRAM = """\
import json, os, runpy, shlex, sys, types
from hydra.core.config_store import ConfigStore
from hydra.experimental.callback import Callback
file, place, key, words = sys.argv[1:]
place = os.path.abspath(place)
class Returned(Callback):
    def on_job_end(self, config, job_return, **more):
        if job_return.status.name == "COMPLETED" and os.environ.get("RANK", "0") == "0":
            value = job_return.return_value
            with open(place + ".part", "w") as stream:
                json.dump({key: value}, stream, allow_nan=False, default=float)
            os.replace(place + ".part", place)
sys.modules["returned"] = types.ModuleType("returned")
sys.modules["returned"].Returned = Returned
ConfigStore.instance().store(group="hydra/launcher", name="rankzero", node={})
os.environ.setdefault("HYDRA_FULL_ERROR", "1")
file = os.path.abspath(file)
sys.path[:0] = [os.path.dirname(file), os.getcwd()]
sys.argv = [file, *shlex.split(words), "+hydra.callbacks.returned._target_=returned.Returned"]
runpy.run_path(file, run_name="__main__")
"""
#: Overrides that are for the machine which launches.
_HERE = ("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper")
#: What Hydra writes beside the program: with it in the code, the same multirun would be others each time.
_WRITTEN = ("**/multirun/*-*-*/", "**/outputs/*-*-*/")
LOG = logging.getLogger(__name__)


class RankzeroLauncher(Launcher):  # type: ignore[misc]
    """`job`: the job spec, without what the program is. `cluster`, `inventory`: as for `rankzero.run`."""

    def __init__(self, cluster: str | None = None, inventory: str | None = None, **job: Any) -> None:
        self.cluster, self.inventory = cluster, inventory
        self.job: dict[str, Any] = OmegaConf.to_container(OmegaConf.create(job), resolve=True)

    def setup(self, *, hydra_context: Any, task_function: Any, config: DictConfig) -> None:
        """Take over what Hydra has composed."""
        self.context, self.function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submit the jobs of a batch, and wait for all."""
        from rankzero.api import FILE, VALUE
        from rankzero.functions import place_of, spec_of
        from rankzero.many import sweep

        setup_globals()
        hydra = self.config.hydra
        configure_log(hydra.hydra_logging, hydra.verbose)
        numbered = list(enumerate(map(list, job_overrides), initial_job_idx))
        code = self.job.get("code") or {}
        root = os.path.abspath(code.get("src") or place_of(self.function)[0])
        file = os.path.abspath(inspect.getfile(self.function))
        own = [word for word in hydra.overrides.hydra if not word.lstrip("+~").startswith(_HERE)]
        own = [*self._options(root, os.path.dirname(file)), *own]
        ends = ["hydra.mode=RUN", "hydra.run.dir=."]
        words = [shlex.join([*own, *each, f"hydra.job.num={number}", *ends]) for number, each in numbered]
        program = {
            "command": ["python3", "-c", PROGRAM, os.path.relpath(file, root), FILE, VALUE, "{overrides}"],
            "code.src": root,
            "code.exclude": [*(code.get("exclude") or []), *_WRITTEN],
            "artifact": {"path": FILE, "format": "json"},
        }
        job = spec_of(hydra.job.name, self.job)
        grid = {"overrides": words}
        launches = sweep(job, grid, overrides=program, cluster=self.cluster, inventory=self.inventory)
        for launch, (number, each) in zip(launches, numbered, strict=True):
            LOG.info("#%d : %s : %s/%s", number, " ".join(filter_overrides(each)), launch.name, launch.key[:8])
        launches.wait()
        configure_log(hydra.hydra_logging, hydra.verbose)
        return [self._ended(launch, each) for launch, (_number, each) in zip(launches, numbered, strict=True)]

    def _options(self, root: str, beside: str) -> list[str]:
        """The options that name the configuration, and its place in the code. `beside`: the folder of the program."""
        from rankzero.errors import UsageError

        name = self.config.hydra.job.config_name
        options = [f"--config-name={name}"] if name else []
        for source in self.config.hydra.runtime.config_sources:
            option = {"main": ("path", beside), "command-line": ("dir", root)}.get(source.provider)
            if option is None or source.schema != "file":
                continue
            if os.path.commonpath([root, os.path.abspath(source.path)]) != root:
                raise UsageError(
                    f"the configuration {source.path} is not in the code {root}; set hydra.launcher.code.src to a "
                    "folder with both"
                )
            options.append(f"--config-{option[0]}={os.path.relpath(source.path, option[1])}")
        return options

    def _ended(self, launch: Launch, overrides: list[str]) -> JobReturn:
        from rankzero.errors import RankzeroError

        config = self.context.config_loader.load_sweep_config(self.config, overrides)
        ended = JobReturn(overrides, hydra_cfg=config.copy(), working_dir=f"{launch.run_dir}/work")
        ended.task_name = config.hydra.job.name
        with open_dict(config):
            del config["hydra"]
        ended.cfg = config
        try:
            ended.return_value, ended.status = launch.returned(), JobStatus.COMPLETED
        except RankzeroError as error:
            # Hydra raises it where the value is asked for.
            ended.return_value, ended.status = error, JobStatus.FAILED
        return ended


# Open, because what is a key of a job is decided where jobs are read.
_SETTINGS = OmegaConf.create({"_target_": f"{__name__}.{RankzeroLauncher.__name__}"}, flags={"struct": False})
ConfigStore.instance().store(group="hydra/launcher", name="rankzero", node=_SETTINGS, provider="rankzero")
