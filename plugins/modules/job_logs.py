#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_logs
short_description: Fetch the logs of every rank of a launch
version_added: 0.1.0
author: []
description:
  - Copies the logs of a launch to the controller. These are the logs of the batch script, the launcher and every
    rank, of every attempt, in the same layout as on the cluster.
  - Transfers new bytes only, in one compressed archive per round trip. A log that was truncated, rotated or
    rewritten, or whose copy was edited, is fetched again.
  - Binary data and invalid UTF-8 are preserved.
  - Secrets are replaced by asterisks before anything leaves the cluster (O(redact)).
  - Can show new lines while the launch runs (O(follow)), and merge all ranks' lines into one file by time (O(merge)).
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Lists what would be fetched.
  diff_mode:
    support: none
options:
  dest:
    description:
      - Folder on the controller, relative to the current directory. The logs are stored below it, in
        C(<name>/<key>/<generation>/logs). If that folder already has the logs of another launch with this key (on
        another cluster, or with another O(state_root)), C(<generation>-<8 digits>) is used instead.
    type: path
    default: runs
  tail_bytes:
    description:
      - If a log has more new bytes than this, only its end is fetched, and replaces the earlier copy. The default is 64
        MiB. RV(omitted) says what was left on the cluster.
      - V(0) fetches all, also what was left out before.
    type: int
    default: 67108864
  head_bytes:
    description:
      - If O(tail_bytes) omits the beginning of a log, this many of its first bytes are fetched too, into a file
        next to it whose name ends in C(.head). V(0) fetches none.
    type: int
    default: 0
  redact:
    description:
      - Replace secrets by asterisks of the same length. Secrets are the values given to the launch, also after its
        end; tokens of Hugging Face, GitHub, OpenAI, Slack and AWS, JSON web tokens; values assigned to a variable
        that is named like a secret (C(HF_TOKEN=...)), and passwords in addresses.
      - No rule finds every secret. A program should not print them.
    type: bool
    default: true
  merge:
    description:
      - Write C(merged.log) next to the folder of the logs, with every line of the newest attempt, prefixed with its
        rank and ordered by the times in the lines. A line without a time follows the line before it.
    type: bool
    default: false
  follow:
    description:
      - Continue fetching until the launch has ended, and show each new line with its rank. Ctrl-C ends this, but not
        the job.
    type: bool
    default: false
  follow_timeout:
    description: Seconds after which O(follow) ends; V(0) follows until the launch ends.
    type: int
    default: 0
  reconnect_timeout:
    description: As in M(rankzero.slurm.job_wait).
    type: int
    default: 120
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
seealso:
  - module: rankzero.slurm.job_wait
"""

EXAMPLES = r"""
- name: Fetch the logs of a launch
  rankzero.slurm.job_logs:
    run_dir: "{{ launch.run_dir }}"
  register: logs

- name: Show what the ranks write, until the end
  rankzero.slurm.job_logs:
    name: gpt-small
    follow: true
    merge: true

- name: The last MiB of each log of a Slurm job
  rankzero.slurm.job_logs:
    job_id: "1234"
    dest: /tmp/logs
    tail_bytes: 1048576
"""

RETURN = r"""
dest:
  description: The folder on the controller that holds the logs of this launch.
  returned: success
  type: str
  sample: /home/me/project/runs/gpt-small/0123456789abcdef/1/logs
run_dir:
  description: The run directory on the cluster.
  returned: success
  type: str
job_id:
  description: Slurm's job id, null if none is recorded.
  returned: success
  type: str
files:
  description: The logs with fetched content (in check mode, content to fetch).
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Path below RV(dest).
      type: str
    start:
      description: Offset of the first byte that was fetched.
      type: int
    bytes:
      description: Number of bytes fetched.
      type: int
    size:
      description: Size of the log on the cluster.
      type: int
    restart:
      description: Whether it replaced what was fetched before.
      type: bool
omitted:
  description: What of these logs stayed on the cluster because of O(tail_bytes), and how to fetch it, in one sentence.
    Null if nothing did.
  returned: success
  type: str
merged:
  description: The file with the lines of all ranks by time.
  returned: with O(merge)
  type: str
over:
  description: Whether the launch has ended, so that the logs are complete.
  returned: success
  type: bool
bytes:
  description: Bytes of logs that were fetched.
  returned: success
  type: int
archive_bytes:
  description: Bytes of the archives that carried them.
  returned: success
  type: int
connection_lost:
  description: Whether the logs are missing because the connection to the host was lost.
  returned: after a lost connection
  type: bool
choice:
  description:
    - Which launch O(name) was taken to mean, with the others of that name, their times and states. It is the newest.
    - Null if only one launch has that name.
  returned: success
  type: str
rounds:
  description: Number of archives transferred.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import PLAIN, fetch_plan, origin_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest, Round
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import is_over
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import choice_made, one_run
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import LOGS_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    """One round: says what is new and packs it. The action plugin of the same name fetches and unpacks the archive."""
    slurm = Slurm()
    run = one_run(module.params, slurm)
    request = FetchRequest.of(module.params["x_request"] or {})
    # Asked before the logs are looked at: what is written until the end is then still fetched.
    over = is_over(run, slurm, ask=request.ask, often=module.params["follow"])
    redactor = redactor_of(run) if module.params["redact"] else PLAIN
    fetched = fetch_plan(run.shown("logs"), request, write=not module.check_mode, redactor=redactor)
    choice = choice_made(slurm, module.params, run)
    return Round(run.path, origin_of(run.path), over, choice, fetched, run.job_id()).result()


def main() -> None:
    run_module(LOGS_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
