#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_diagnosis
short_description: Find out why a job failed
version_added: 0.1.0
author: []
description:
  - Reads the logs of every rank of a launch, of the batch script and the launcher, and the records of the job and of
    Slurm about its end. Reports one cause with its line, rank and node, its consequences, and a remedy in terms of
    the job spec.
  - The cause is chosen by evidence, not by the last or the loudest line. An exception of one rank takes precedence
    over its consequences on other ranks, such as watchdog timeouts, lost connections and launchers' summaries.
  - With O(path) it reads a file or a folder of logs of any launcher.
  - In addition to the logs it uses accounting (state, exit codes, memory), the preflight table and the monitor samples.
  - For a pending job it explains the reason, and what to change. For a running job it answers the launch checklist,
    and reports whether the job has stalled and which rank is behind.
  - A site can add failure families for its own programs, see O(families).
  - Logs may have any size and content, and be compressed with gzip or zstd, then with up to 512 MB unpacked. Unreadable
    files are listed, and the rest is analysed. Logs are reported as healthy if they show no failure, and a normal end
    or steps until their end.
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.state
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Reads everything and writes no C(diagnosis.json).
  diff_mode:
    support: none
options:
  path:
    description:
      - A log, or a folder of logs, of any launcher, on the host where the module runs. Overrides the options that
        select a launch; Slurm is not queried and nothing is written. It may
        be a link; links in the folder are not followed.
    type: path
  write:
    description: Whether to keep the diagnosis of a finished launch as C(diagnosis.json) in its run directory.
    type: bool
    default: true
  families:
    description:
      - YAML files on the controller, or folders of them, with a site's own failure families. They are data, checked
        on the controller, and cannot run anything. Their format is described in C(docs/diagnosis.md).
      - The role and the playbooks take them from C(launch_cluster.diagnosis_families).
    type: list
    elements: str
    default: []
  x_families:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: list
    elements: dict
    default: []
  reader:
    description:
      - A program of the site's own on the controller, as C(command) (a list of words) and C(seconds) (20). It reads a
        digest of at most 2 kB on its standard input, of a failure that no family knows (families V(exception),
        V(launcher) and V(unknown)), and prints a sentence, which is shown as its own. It changes nothing else.
      - The role and the playbooks take it from C(launch_cluster.diagnosis.reader).
    type: dict
  x_digest:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: bool
    default: false
  stall_factor:
    description: A running job has stalled if it makes no step for this many times the median step time.
    type: float
    default: 10.0
  stall_seconds:
    description: Minimum duration of a stall, in seconds.
    type: float
    default: 60.0
  processes:
    description: Number of processes for reading many or large logs. V(0) means one per processor, at most four.
    type: int
    default: 0
  x_paces:
    description:
      - Internal. What a wait has seen of a job whose log has no times, the usual and the new time of a step in seconds.
    type: list
    elements: float
    default: []
seealso:
  - module: rankzero.slurm.job_logs
  - module: rankzero.slurm.job_wait
"""

EXAMPLES = r"""
- name: Why did it fail?
  rankzero.slurm.job_diagnosis:
    run_dir: "{{ launch.run_dir }}"
  register: why

- name: Show it
  ansible.builtin.debug:
    msg: "{{ why.lines }}"

- name: Is it alive, and who is behind?
  rankzero.slurm.job_diagnosis:
    job_id: "1234"
    stall_factor: 20
    families: diagnosis/families

- name: Logs that another launcher wrote
  rankzero.slurm.job_diagnosis:
    path: /scratch/me/logs
"""

RETURN = r"""
diagnosis:
  description: The cause and its evidence.
  returned: success
  type: dict
  contains:
    healthy:
      description: Whether the logs show no failure, and a normal end or steps until their end.
      type: bool
    family:
      description: Identifier of the failure family.
      type: str
      sample: cuda_oom
    what:
      description: The kind of failure in words.
      type: str
    sentence:
      description: The end of the launch in a sentence; what it said of it itself, then C(what).
      type: str
    confidence:
      description: V(high), V(medium) or V(low).
      type: str
    root:
      description:
        - The line that shows the failure, with C(file), C(line), C(text), C(family), C(rank) and C(node).
        - Null if no failure was found.
      type: dict
    ranks:
      description: The ranks that logged it.
      type: list
      elements: int
    nodes:
      description: The nodes that logged it.
      type: list
      elements: str
    evidence:
      description: The root and one line of each other kind, each like C(root).
      type: list
      elements: dict
    chain:
      description: The chain of consequences, in words.
      type: list
      elements: str
    remedy:
      description:
        - What to do, in terms of the job spec.
        - Where C(confidence) is not V(high), what to look at before anything is changed.
      type: str
    retry:
      description: Whether the same launch may succeed on a retry.
      type: bool
    blame:
      description: The node to exclude, if one is at fault and C(confidence) is V(high).
      type: list
      elements: str
    files:
      description: Number of logs read.
      type: int
    bytes:
      description: Total size of these logs in bytes.
      type: int
    unreadable:
      description: The files that could not be read, with C(file) and C(why).
      type: list
      elements: dict
    launch:
      description: The diagnosed launch; only without O(path).
      type: dict
    checklist:
      description:
        - The launch checklist. Each C(question) with its C(answer), and C(ok), null if unknown.
        - Did all ranks start, is the world size right, which network does NCCL use, do steps progress, was the model
          saved.
      type: list
      elements: dict
    stall:
      description:
        - For a stalled job its C(age) and the C(median) step time in seconds, the newest C(step), the ranks that are
          C(behind), C(nodes) whose GPUs are idle while the others' are busy, and a C(message). C(median) and C(step)
          are null if the logs show no time of a step, or no step; then C(age) is that of the newest line.
        - Null for a job that makes steps. Only for running jobs.
      type: dict
    facts:
      description:
        - Evidence other than logs. C(accounting) by step, C(exit_code), C(preflight) of unfit nodes, C(samples) of
          the monitors by node, and C(reason) of a pending job. Only without O(path).
        - If a GPU was full, C(memory) has the C(sizes) of the job (parallelism, batches, sequence length), taken from
          its section C(parallelism) and the arguments of its program, and the highest memory use that the monitor
          sampled (C(peak_mb), C(node), C(gpu)).
        - Of a stalled job, C(standstill) has C(kind), C(ranks) that hold the others up, each with its C(node), C(place)
          in the program, C(operation) and C(state), and a C(message); null if the stacks of the ranks do not tell.
      type: dict
    ledger:
      description:
        - What the hours of an ended launch went to, over all attempts. C(node_seconds), C(node_hours), C(gpu_hours),
          C(energy_joules), C(queue_seconds), C(user), C(account), C(parts), C(allocations) and C(sentence).
        - Each of C(parts) has C(part), C(node_seconds), C(node_hours), C(gpu_hours) and C(share); null where the logs
          do not tell it. The shares add up to 1.
        - Each of C(roles) has C(role) and C(node_seconds); empty where the launch has none.
        - C(accounted) is true where the nodes and times are those of accounting.
      type: dict
lines:
  description: The diagnosis for a screen, at most 15 lines.
  returned: success
  type: list
  elements: str
reader:
  description: What the site's own reader said, as C(command), C(sentence) and C(trouble), why there is no sentence.
  returned: when O(reader) was asked
  type: dict
families:
  description: Number of failure families that the module knows.
  returned: success
  type: int
  sample: 37
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnose import diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {**diagnose(slurm, module.params, check_mode=module.check_mode), "warnings": slurm.notes}


def main() -> None:
    run_module(DIAGNOSIS_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
