# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `report_page`: render what the cluster returned as one HTML file, a summary, and annotations."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import LAUNCH, Page
from ansible_collections.rankzero.slurm.plugins.module_utils.report.pages import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import COLUMNS
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.tables import csv_text
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import Presented
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.annotations import (
    CODE_QUALITY,
    GITHUB,
    GITLAB,
    annotation_lines,
    append_summary,
    code_quality,
    platform,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.markdown import markdown
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.output import write_files
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.render import default_path, html
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display


@dataclass(frozen=True)
class _Options:
    """The options that the module does not read."""

    annotations: str
    dest: str | None = None


class ActionModule(Presented):
    ARGUMENTS = ARGUMENTS
    ACTION_ARGUMENTS = ACTION_ARGUMENTS

    def presented(self, options: Parameters, result: ModuleResult) -> ModuleResult:
        shown, chosen = Page.of(result), record_of(_Options, options)
        page = os.path.abspath(chosen.dest or default_path(shown))
        # Page and summary have the same name with another ending.
        summary, folder = os.path.splitext(page)[0] + ".md", os.path.dirname(page)
        files = {page: html(result, page), summary: markdown(shown)}
        hours = os.path.splitext(page)[0] + ".csv" if shown.kind == LAUNCH else None
        if hours:
            files[hours] = csv_text(COLUMNS, shown.launches[0].ledger.parts)
        system = platform(os.environ) if chosen.annotations == "auto" else chosen.annotations
        if system == GITLAB:
            files[os.path.join(folder, CODE_QUALITY)] = code_quality(shown)
        differences = write_files(files, pretend=self._task.check_mode)
        if system == GITHUB and not self._task.check_mode:
            append_summary(files[summary], os.environ)
        for line in annotation_lines(shown) if system == GITHUB and not self._task.check_mode else []:
            display.command(line)
        size = len(files[page].encode())
        changes = {"changed": bool(differences), "diff": differences}
        told = {"page": page, "bytes": size, "summary": summary, **({"hours": hours} if hours else {})}
        return {**result, **changes, **told}
