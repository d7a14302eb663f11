# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `report_page`: render what the cluster returned as one HTML file, a summary, and annotations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import LAUNCH, Page
from ansible_collections.rankzero.slurm.plugins.module_utils.report.pages import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import COLUMNS
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.tables import csv_text
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
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
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display


@dataclass(frozen=True)
class _Options:
    """The options that the module does not read."""

    annotations: str
    dest: str | None = None


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, checked = self.validate_argument_spec(ACTION_ARGUMENTS)
        options = record_of(_Options, checked)
        given = {name: value for name, value in self._task.args.items() if name in ARGUMENTS}
        answer = call_module(self, "rankzero.slurm.report_page", given, task_vars, ACTION_ARGUMENTS)
        if answer.get("failed"):
            return answer
        shown = Page.of(answer)
        page = os.path.abspath(options.dest or default_path(shown))
        # Page and summary have the same name with another ending.
        summary, folder = os.path.splitext(page)[0] + ".md", os.path.dirname(page)
        files = {page: html(answer, page), summary: markdown(shown)}
        hours = os.path.splitext(page)[0] + ".csv" if shown.kind == LAUNCH else None
        if hours:
            files[hours] = csv_text(COLUMNS, shown.launches[0].ledger.parts)
        system = platform(os.environ) if options.annotations == "auto" else options.annotations
        if system == GITLAB:
            files[os.path.join(folder, CODE_QUALITY)] = code_quality(shown)
        try:
            differences = write_files(files, pretend=self._task.check_mode)
            if system == GITHUB and not self._task.check_mode:
                append_summary(files[summary], os.environ)
        except RankzeroError as error:
            return {**answer, "failed": True, "msg": error.message}
        for line in annotation_lines(shown) if system == GITHUB and not self._task.check_mode else []:
            display.command(line)
        size = len(files[page].encode())
        changes = {"changed": bool(differences), "diff": differences}
        told = {"page": page, "bytes": size, "summary": summary, **({"hours": hours} if hours else {})}
        return {**answer, **changes, **told}
