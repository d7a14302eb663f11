#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_pull
short_description: Fetch the artifact and other outputs of a launch
version_added: 0.1.0
author: []
description:
  - Copies the artifact of a launch, or files and folders that you name, from the working directory of its ranks to the
    controller.
  - Transfers new bytes only, in compressed archives, so an interrupted copy is resumed and a file that has grown is
    continued.
  - Then the SHA-256 digest of every file is compared with the cluster's. A copy that differs is fetched again.
  - The artifact must also have the digest with which it proved the launch. The task fails if it was changed afterwards.
  - Content is not redacted. Links are not followed, so the code of the launch is not copied.
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
  paths:
    description:
      - Files and folders to fetch, relative to the working directory of the ranks. V(.) fetches everything.
      - Without it the artifact is fetched (C(artifact.path) of the job spec).
    type: list
    elements: str
    default: []
  dest:
    description:
      - Folder on the controller, relative to the current directory. The files are stored below it, in
        C(<name>/<key>/<generation>/work), next to the logs from M(rankzero.slurm.job_logs).
    type: path
    default: runs
  reconnect_timeout:
    description: As in M(rankzero.slurm.job_wait).
    type: int
    default: 120
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
seealso:
  - module: rankzero.slurm.job_logs
"""

EXAMPLES = r"""
- name: Fetch the artifact of the newest launch of a job
  rankzero.slurm.job_pull:
    name: gpt-small
  register: pulled

- name: Fetch a checkpoint and the metrics of one launch
  rankzero.slurm.job_pull:
    run_dir: "{{ launch.run_dir }}"
    paths: [checkpoints/last, metrics.csv]
    dest: results
"""

RETURN = r"""
dest:
  description: The folder on the controller that holds the files.
  returned: success
  type: str
  sample: /home/me/project/runs/gpt-small/0123456789abcdef/1/work
run_dir:
  description: The run directory on the cluster.
  returned: success
  type: str
name:
  description: Name of the launch.
  returned: success
  type: str
key:
  description: The first 16 digits of the launch key.
  returned: success
  type: str
generation:
  description: Number of the submission under the key.
  returned: success
  type: int
job_id:
  description: Slurm's job id, null if none is recorded.
  returned: success
  type: str
files:
  description: The selected files, complete and verified. In check mode those that would be fetched.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Path below RV(dest).
      type: str
    bytes:
      description: Size of the file.
      type: int
    sha256:
      description: Digest of the file here and on the cluster, null in check mode.
      type: str
artifact:
  description: The file that proved the launch, if it is among RV(files); else null.
  returned: success, outside check mode
  type: dict
  contains:
    path:
      description: Path on the controller.
      type: str
    sha256:
      description: Digest of the file when it proved the launch.
      type: str
bytes:
  description: Bytes that were fetched.
  returned: success
  type: int
archive_bytes:
  description: Bytes of the archives that carried them.
  returned: success
  type: int
rounds:
  description: Number of archives transferred.
  returned: success
  type: int
over:
  description: Whether the launch has ended, so that the files no longer change.
  returned: success
  type: bool
lines:
  description: Where the files are, and how many, for a screen.
  returned: success
  type: list
  elements: str
connection_lost:
  description: Whether files are missing because the connection to the host was lost.
  returned: after a lost connection
  type: bool
choice:
  description: As in M(rankzero.slurm.job_logs).
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import fetch_plan, origin_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.outputs import (
    chosen_paths,
    listing,
    verification,
    work_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest, Round
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import is_over
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import choice_made, one_run
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import PULL_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    """One round, or the digests at the end. The action plugin of the same name fetches and compares."""
    slurm = Slurm()
    run = one_run(module.params, slurm)
    request = FetchRequest.of(module.params["x_request"] or {})
    paths = chosen_paths(run, module.params["paths"])
    if request.digests:
        return verification(run, paths, request.have).result()
    work = work_of(run)
    over = is_over(run, slurm, ask=False, often=False)
    fetched = fetch_plan(work, request, write=not module.check_mode, listing=listing(work, paths))
    choice = choice_made(slurm, module.params, run)
    return Round(run.path, origin_of(run.path), over, choice, fetched, run.job_id()).result()


def main() -> None:
    run_module(PULL_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
