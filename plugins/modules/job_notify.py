#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_notify
short_description: Send the messages about launches that are due, and write numbers about launches
version_added: 0.1.0
author: []
description:
  - Tells the receivers that jobs name in C(notify) of what has happened to their launches. Started, first step,
    stalled, failed with its cause, and proven.
  - A waiting command sends the same messages. This module is for a timer on the login node, which sees what nobody
    waits for. Each receiver is told of each event of a launch once, whoever sends it.
  - Without O(run_dir), O(run_dirs), O(name) and O(job_id), all launches are looked at about which there is still
    something to tell. Others cost nothing.
  - A receiver that cannot be reached is no failure. It is listed in RV(messages) and as a warning, and is told later.
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Returns the messages that are due, and sends none.
  diff_mode:
    support: none
options:
  run_dirs:
    description: The run directories of several launches. Replaces the other options that name a launch.
    type: list
    elements: path
  urls:
    description:
      - Addresses by the name of their variable (C(url_env) of the job spec), in addition to the variables
        C(RANKZERO_NOTIFY_...) in the environment of the module.
    type: dict
    default: {}
  metrics_file:
    description:
      - A file on the host for numbers about all launches of O(state_root), as gauges in the OpenMetrics text format.
        It is written by rename and readable by everyone.
      - For node-exporter, a file with the ending C(.prom) in the folder of its textfile collector.
    type: path
  metrics_hours:
    description: The numbers count what has ended in this many hours.
    type: int
    default: 24
  x_stalled:
    description: Internal. Set by M(rankzero.slurm.job_wait); a task cannot set it.
    type: dict
    default: {}
seealso:
  - module: rankzero.slurm.job_wait
  - module: rankzero.slurm.job_diagnosis
"""

EXAMPLES = r"""
- name: Send what is due
  rankzero.slurm.job_notify:

- name: Send what is due, and write numbers for node-exporter
  rankzero.slurm.job_notify:
    metrics_file: /var/lib/prometheus/node-exporter/rankzero-alice.prom

- name: Send it to an address that only this machine has
  rankzero.slurm.job_notify:
    urls:
      RANKZERO_NOTIFY_SLACK: "{{ lookup('ansible.builtin.env', 'RANKZERO_NOTIFY_SLACK') }}"
"""

RETURN = r"""
messages:
  description: The messages that were due.
  returned: success
  type: list
  elements: dict
  contains:
    run_dir:
      description: The run directory of the launch.
      type: str
    event:
      description: V(started), V(first_step), V(stalled), V(failed) or V(proven).
      type: str
    receiver:
      description: Where the address is, or the mail address. Never the address of a webhook.
      type: str
    state:
      description:
        - V(sent).
        - V(waiting) if another sender has taken it, or a receiver that failed is to be left alone for a while.
        - V(failed) if the receiver did not take it.
        - V(skipped) if this sender does not know the address.
        - V(due) in check mode.
      type: str
    reason:
      description: Why it was not sent.
      type: str
    text:
      description: The text of the message.
      type: str
left:
  description: Number of launches about which there may be something to tell later.
  returned: success
  type: int
metrics:
  description: The text that was written, or would be in check mode.
  returned: with O(metrics_file)
  type: str
untrusted:
  description: Run directories that were left out because another user could have written them, each with the reason.
  returned: success
  type: dict
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.monitoring.openmetrics import measure
from ansible_collections.rankzero.slurm.plugins.module_utils.notify.due import Sender, listed, send_due
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import chosen_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import NOTIFY_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

PREFIX = "RANKZERO_NOTIFY_"


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm, params = Slurm(), module.params
    own = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    sender = Sender({**own, **params["urls"]}, params["x_stalled"], check_mode=module.check_mode)
    if any(params.get(name) for name in ("run_dir", "run_dirs", "name", "key", "generation", "job_id")):
        runs = chosen_runs(params)
    else:
        runs = listed(params["state_root"])
    result = send_due(slurm, runs, sender)
    warnings = dict.fromkeys(
        f"notify: {message['receiver']} was not told `{message['event']}`: {message['reason']}"
        for message in result["messages"]
        if message["state"] in ("failed", "skipped")
    )
    if params["metrics_file"]:
        result["metrics"] = measure(slurm, params, module.check_mode, time.time())
        result["changed"] = result["changed"] or not module.check_mode
    return {**result, "warnings": [*slurm.notes, *warnings], "slurm_commands": slurm.commands}


def main() -> None:
    run_module(NOTIFY_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
