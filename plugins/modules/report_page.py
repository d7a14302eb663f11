#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report_page
short_description: Write a page about launches
version_added: 0.1.0
author: []
description:
  - Writes one self-contained HTML file on the controller. It shows one launch, several launches side by side, a
    sweep, or a list of launches with a search. It works offline, and no request leaves the page.
  - The page of a launch shows its metrics, the times of steps by rank, the samples of its nodes, a timeline, the
    preflight table, its variables with reasons, the cause of a failure, and what the launch was made of.
  - Also writes a summary in Markdown next to it, and in GitHub Actions or GitLab CI annotations of failed launches.
  - Files are replaced by rename, and only if their content differs. So the task reports no change while the launches
    have not changed.
  - The cluster reads run directories and logs, and returns a summary of limited size. Nothing on the cluster is
    changed.
extends_documentation_fragment:
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - In check mode no file is written, and RV(ignore:changed) says whether one would be.
  diff_mode:
    support: partial
    details:
      - Shows the lines of the summary that change. Of the page it shows size and digest.
options:
  launches:
    description:
      - The launches to show, each a job id, C(NAME), C(NAME/KEY), C(NAME/KEY/GENERATION) or a run directory. A name
        is its newest launch.
      - One launch gives its page, several a comparison. Without any, and without O(sweep), the page lists all
        launches.
    type: list
    elements: str
    default: []
  sweep:
    description: The sweep to show, by its name or its folder.
    type: str
  time:
    description:
      - The number in the artifacts that is the time to compare, as in M(rankzero.slurm.job_compare).
    type: str
  limit:
    description: A list of launches shows at most this many that are not active, the most recent ones. V(0) shows all.
    type: int
    default: 500
  dest:
    description:
      - The HTML file to write on the controller.
      - Default is C(report.html) in C(runs), for one launch or a sweep in the folder of its name.
    type: path
  annotations:
    description:
      - How CI is told about failed launches. V(github) prints annotations of GitHub Actions, and appends the summary
        to the job's summary. V(gitlab) writes C(gl-code-quality-report.json) next to the page. V(auto) finds out.
    type: str
    choices: [auto, github, gitlab, none]
    default: auto
seealso:
  - module: rankzero.slurm.job_compare
  - module: rankzero.slurm.job_diagnosis
  - module: rankzero.slurm.job_info
"""

EXAMPLES = r"""
- name: The page of the newest launch of a job
  rankzero.slurm.report_page:
    launches: [gpt-small]

- name: Two launches side by side
  rankzero.slurm.report_page:
    launches: ["1234", "1240"]
    dest: public/compare.html
"""

RETURN = r"""
kind:
  description: What the page shows, V(launch), V(compare), V(sweep) or V(index).
  returned: success
  type: str
launches:
  description: The launches in the order of the page, with their metrics in limited size.
  returned: success
  type: list
  elements: dict
sweep:
  description: The result of M(rankzero.slurm.job_sweep_info).
  returned: when a sweep is shown
  type: dict
comparison:
  description: The launches as M(rankzero.slurm.job_compare) returns them. Empty unless all have succeeded.
  returned: when several launches are shown
  type: list
  elements: dict
page:
  description: Path of the HTML file.
  returned: success
  type: str
bytes:
  description: Size of the HTML file.
  returned: success
  type: int
summary:
  description: Path of the summary in Markdown.
  returned: success
  type: str
hours:
  description:
    - Path of a CSV file with what the hours went to, a row for each part. It lies next to the HTML file.
    - RV(launches) has the same as C(ledger).
  returned: when one launch is shown
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.report.pages import ACTION_ARGUMENTS, pages
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {"changed": False, **pages(slurm, module.params), "warnings": slurm.notes}


def main() -> None:
    run_module(ACTION_ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
