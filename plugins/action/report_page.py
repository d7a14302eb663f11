# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `report_page`: render what the cluster returned as one HTML file, a summary, and annotations."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.report.pages import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.annotations import CODE_QUALITY, annotate, platform
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.markdown import markdown
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.render import default_path, html
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(ACTION_ARGUMENTS)
        given = {name: value for name, value in self._task.args.items() if name in ARGUMENTS}
        answer = call_module(self, "rankzero.slurm.report_page", given, task_vars, ACTION_ARGUMENTS)
        if answer.get("failed"):
            return answer
        page = os.path.abspath(options["dest"] or default_path(answer))
        text, short = html(answer), markdown(answer)
        # Page and summary have the same name with another ending.
        summary = os.path.splitext(page)[0] + ".md"
        result = {**answer, "changed": True, "page": page, "bytes": len(text.encode()), "summary": summary}
        if self._task.check_mode:
            return result
        os.makedirs(os.path.dirname(page), exist_ok=True)
        for path, content in ((page, text), (summary, short)):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(content)
        asked = options["annotations"]
        quality = os.path.join(os.path.dirname(page), CODE_QUALITY)
        system = platform(os.environ) if asked == "auto" else asked
        for line in annotate(answer, system, short, quality, os.environ):
            display.display(line)
        return result
