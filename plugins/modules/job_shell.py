#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_shell
short_description: Open an interactive shell with a job's resources and environment, or show the commands
version_added: 0.1.0
author: []
description:
  - Shows the two commands for an interactive session in place of a job. C(salloc) allocates the resources of the job,
    C(srun --pty) opens a shell on the first node. With C(launcher.inside_job) only the second is needed.
  - The shell has a rank's variables, the environment's programs in PATH, the site set-up, the code in a writable
    working directory, and the container with its mounts if the job has one. This module writes a script for all of it
    below C(state_root), so that the commands are short and contain no values of the job.
  - With O(serve) the session serves a Jupyter server, or stays open for C(ssh) and VS Code, in place of a shell. They
    reach it through the login node.
  - With O(open) the shell is opened in the terminal from which C(ansible-playbook) was started. The task ends when
    the shell is closed, and the allocation is released.
  - A session that is opened has the job's C(secrets), as a launch has them. Their values lie in a file with mode 0600
    below C(state_root) until it ends. Commands that are typed by hand bring only those with C(from_file).
  - If the code is not on the cluster yet, it is sent. If the environment or the image is missing, the task fails. See
    O(missing). The playbook C(rankzero.slurm.shell) builds everything.
extends_documentation_fragment:
  - rankzero.slurm.job_spec
  - rankzero.slurm.missing
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Shows the commands. Writes and opens nothing.
  diff_mode:
    support: none
options:
  role:
    description:
      - Of a job with C(roles), the one whose program the shell is for. Default is the role that decides.
      - Where C(launcher.inside_job) is the launch's own job, the shell opens on a node of the role.
    type: str
  serve:
    description:
      - What the session serves in place of a shell. It ends with the session.
      - V(jupyter) is a Jupyter server of the job's environment on the first node, on a socket that only its user can
        open. What to type and the address are printed on the node, in the session's terminal.
      - V(code) waits. C(ssh) and the extension Remote-SSH of VS Code reach the node under the name RV(ssh_host).
      - Needs C(sshd) on the node, which a step runs as the user; C(container.runtime) V(pyxis) is not possible.
    type: str
    choices: [jupyter, code]
  session:
    description:
      - Name of the session. C(squeue) shows its job, or its step inside a running job, as I(job).I(session).
    type: str
    default: shell
  open:
    description:
      - Open the shell. Requires a terminal and a local or SSH connection; over SSH it runs the user's own C(ssh -t).
    type: bool
    default: false
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
seealso:
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Show what to type for a shell with the resources of a job
  rankzero.slurm.job_shell:
    job: jobs/gpt.yml
    overrides:
      nodes: 1

- name: Open a shell inside an allocation that is there already
  rankzero.slurm.job_shell:
    job: jobs/gpt.yml
    overrides:
      inside_job: "1234"
    open: true

- name: Open a shell where the servers of a running launch are
  rankzero.slurm.job_shell:
    job: jobs/grpo.yml
    role: rollout
    overrides:
      inside_job: "1234"
    open: true
"""

RETURN = r"""
commands:
  description: The commands to type.
  returned: always
  type: list
  elements: str
allocate:
  description: The arguments of C(salloc); empty with C(launcher.inside_job).
  returned: always
  type: list
  elements: str
shell:
  description: The arguments of C(srun).
  returned: always
  type: list
  elements: str
folder:
  description: Folder of the session on the cluster, with its script and its working directory.
  returned: always
  type: str
allocation:
  description: With C(launcher.inside_job), the job that is used, and its remaining time.
  returned: always
  type: str
nodes:
  description: With C(launcher.inside_job), the nodes that a launch would use; the shell opens on the first of them.
  returned: always
  type: list
  elements: str
snapshots:
  description:
    - If something is missing, a file that lasts as long as ansible-playbook. It says what the code was, so that the
      collection's playbooks submit exactly what they have planned.
  returned: if something is missing
  type: str
missing:
  description: What must be built first, as for M(rankzero.slurm.job).
  returned: always
  type: list
  elements: dict
ssh_host:
  description: With O(serve), the name by which C(ssh) reaches the session.
  returned: with O(serve)
  type: str
ssh_config:
  description:
    - With O(serve), the file on this machine with the C(Host) block of RV(ssh_host). C(ssh -F FILE) reads it, and
      C(Include rankzero/*.conf) at the top of C(~/.ssh/config) does. It is removed when a session that was opened ends.
  returned: with O(serve)
  type: str
host_key:
  description: With O(serve), the public key of the session, by which C(ssh) knows it. Empty in check mode.
  returned: always
  type: str
user:
  description: With O(serve), the user on the node. Empty in check mode.
  returned: always
  type: str
notes:
  description: Parts of a rank's environment that the shell does not have.
  returned: always
  type: list
  elements: str
store_group_writable:
  description: As C(launch_cluster.store_group_writable).
  returned: always
  type: bool
store_root:
  description: Folder for code and environments of this cluster, expanded.
  returned: always
  type: str
exit_code:
  description: Exit code of the session.
  returned: when it was opened
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_SHELL
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.secret_files import forgetting
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.shell_session import prepare


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    request = module.params["x_request"]
    refs = [Ref.of(ref) for ref in request["refs"]]
    with forgetting(request.get("secrets_file")):
        result = prepare(slurm, **{**request, "refs": refs}, check_mode=module.check_mode)
    return {**result, "warnings": slurm.notes}


def main() -> None:
    run_module(JOB_SHELL, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
