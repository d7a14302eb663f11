# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch script of a script job: where it is read from, and the layers that its #SBATCH lines are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import Roots

# The name of a script that stands in a job file as text.
INLINE = "the script"


@dataclass(frozen=True)
class Script:
    """A script: its text, the file that it was read from (absolute; None for text in a job), the layers below the job
    and the mistakes in its #SBATCH lines.
    """

    text: str
    path: str | None
    layers: tuple[Layer, ...]
    problems: tuple[str, ...]


def script_of(layers: Sequence[tuple[Layer, str]], roots: Roots, cwd: str) -> Script | None:
    """The script that the last of the layers names; None for a job without one. Each layer comes with the folder that
    its paths are relative to. Raises RankzeroError if the file cannot be read.
    """
    named = [(layer.data.get("script"), folder) for layer, folder in layers if "script" in layer.data]
    given, folder = named[-1] if named else (None, "")
    if not isinstance(given, str):
        return None
    if batch_script.is_script(given) or "\n" in given:
        return _script(given, None, INLINE)
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(given)))
    roots.check("script", path)
    try:
        text = named_text(path, "script")
    except FileNotFoundError:
        raise RankzeroError(
            f"script: there is no file {path} on the controller; give a path relative to {folder} or an absolute one"
        ) from None
    return _script(text, path, os.path.relpath(path, cwd) if path.startswith(cwd + os.sep) else path)


def _script(text: str, path: str | None, shown: str) -> Script:
    header = batch_script.read_header(text)
    if path is not None:
        header.data.setdefault("name", batch_script.name_of(path))
        header.options.setdefault("job-name", os.path.basename(path))
    below = Layer("a script job", batch_script.BELOW)
    problems = tuple(f"script: {sentence} ({shown}, line {line})" for line, sentence in header.problems)
    return Script(text, path, (below, Layer(shown, header.data, header.lines)), problems)
