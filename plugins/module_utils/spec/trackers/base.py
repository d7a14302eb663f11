# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tracker of experiments is: the record of one. Pure; no I/O.

A record is all that is known of a tracker: the options that a job gives it, the variables that make a launch one run of
it, and where people find that run. The variables contain the launch key and the generation, so all attempts of a
launch, its requeues and its successor jobs report to the same run. Credentials are not among them: they belong into
`secrets`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject

#: What a text may name besides the options of its record: the launch. `commit` is empty for code without a commit.
OF_LAUNCH = ("run", "group", "tags", "commit", "run_dir")
_NAMED = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Setting:
    """One variable of a tracker.

    `text` may contain {names} of OF_LAUNCH and of the record's options; without a value for each of them, and for the
    option `needs`, the variable is not set.
    """

    name: str
    text: str
    reason: str = "the cluster's tracker reads it"
    needs: str = ""

    @property
    def named(self) -> tuple[str, ...]:
        """The options and facts of the launch without which the variable is not set."""
        return (*_NAMED.findall(self.text), *([self.needs] if self.needs else ()))

    def filled(self, values: Mapping[str, str]) -> str | None:
        """Return the value of the variable; None if it is not set."""
        if not all(values.get(name) for name in self.named):
            return None
        return _NAMED.sub(lambda match: values[match[1]], self.text)


#: The variable that names the run for programs that open it themselves.
RUN = "RANKZERO_TRACKER_RUN"


@dataclass(frozen=True)
class Kind:
    """A tracker: its name in `trackers`, the options that it has, and its variables.

    `run`: the variable with the name of the run. `places`: where people find it, as an address or a folder in which
    {NAME} is the value of a variable; the first one counts whose variables are all set, and the job resolves it
    (runtime/start/tracker.py). `own`: the cluster has declared it.
    """

    name: str
    doc: str
    options: tuple[str, ...]
    variables: tuple[Setting, ...]
    places: tuple[str, ...] = ()
    run: str = RUN
    own: bool = False

    def record(self) -> JsonObject:
        """Return the record as launch.json has it."""
        return dataclasses.asdict(self)

    def found(self) -> JsonObject:
        """Return what the job must know to say where the run is found."""
        return {"tracker": self.name, "run": self.run, "places": list(self.places)}


# Reasons that several trackers give.
RESUMED = "all attempts of a launch are one run"
GROUP = "the generations of a launch are one group"
CHOSEN = "trackers names it"
