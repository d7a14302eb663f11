#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: store_prune
short_description: Remove files that no launch has used for a number of days
version_added: 0.1.0
author: []
description:
  - Removes run directories of launches that ended more than O(older_than) days ago, and code snapshots, environments,
    sets of packages, images, datasets, job runtimes, archives, folders of interactive sessions and cached answers of
    Slurm that have not been used for that time.
  - Everything that a launch uses is kept while that launch is pending or running, or if it ended less than
    O(older_than) days ago. Slurm is asked for pending and running jobs. If it does not answer, a launch without an
    outcome counts as running.
  - A launch records its use of an item in the store before it checks whether the item exists. Items used in the last
    hour are always kept, so a launch that starts during a prune is safe. The store also knows the other state roots
    whose launches use it. If one of them cannot be read, no code, environment, image, dataset or packages are removed.
  - Each item is renamed first and then deleted. The next prune deletes what an interrupted one leaves.
  - Only files of the user of the task (or of one of O(owners)) are removed, and only names that the collection creates,
    in its folders below O(store_root) and O(state_root).
extends_documentation_fragment:
  - rankzero.slurm.attributes
attributes:
  diff_mode:
    support: full
    details:
      - Lists the items to remove, with kind, bytes, path and reason.
options:
  older_than:
    description:
      - Number of days. Items used since then are kept. V(0) removes every ended launch, and all unused items.
      - A run directory contains the logs and the results of a launch. Once it is removed, an identical launch runs
        again.
    type: float
    required: true
  max_size:
    description:
      - A size such as V(500G). Of the items that O(older_than) allows, the longest unused are removed first, until the
        user's files in both roots fit into this size. By default all of them are removed.
      - V(older_than=0) with a size enforces a quota by last use only. Items used by pending and running launches are
        kept nevertheless.
    type: str
  owners:
    description:
      - For administrators. Names of users whose files are pruned, in place of one's own. Requires root. A separate
        process with that user's permissions prunes for each user, so it cannot reach other files through links, and
        works on file systems with C(root_squash).
      - V(~) and C($USER) in the roots are expanded for each user.
      - If the prune of one user fails, the others are still done, and the task fails with the names.
    type: list
    elements: str
    default: []
  kinds:
    description:
      - The kinds of items to remove. V(container_environment) is the environments that jobs have made inside an image.
      - V(run) is run directories and, after the last of its elements, the folder of a sweep; V(shell) folders of
        interactive sessions with the user's own files in them, V(cache) cached answers of Slurm, which are kept for ten
        minutes. The caches of tools (C(launch_cluster.caches)), locks of environments and copies of uv in the store are
        never removed.
    type: list
    elements: str
    choices: [code, environment, packages, image, dataset, container_environment, runtime, archive, run, shell, cache]
    default: [code, environment, packages, image, dataset, container_environment, runtime, archive, run, shell, cache]
  store_root:
    description: As C(launch_cluster.store_root). V(~) and variables are expanded on the cluster.
    type: str
    default: ~/.rankzero/store
  state_root:
    description: As C(launch_cluster.state_root). V(~) and variables are expanded on the cluster.
    type: str
    default: ~/.rankzero/state
notes:
  - A job that was submitted to another cluster and has not started there is not found. Give each cluster its own
    O(state_root).
seealso:
  - module: rankzero.slurm.code_snapshot
  - module: rankzero.slurm.image
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.job_info
"""

EXAMPLES = r"""
- name: Show what has not been used for a month
  rankzero.slurm.store_prune:
    older_than: 30
    store_root: /scratch/ml/rankzero
    state_root: /project/ml/rankzero
  check_mode: true
  diff: true

- name: Remove code and environments not used for a week, and keep all results
  rankzero.slurm.store_prune:
    older_than: 7
    kinds: [code, environment]

- name: As an administrator, limit each user to 2 TiB, removing what was unused for two weeks
  rankzero.slurm.store_prune:
    older_than: 14
    max_size: 2T
    owners: [alice, bob]
    store_root: /scratch/$USER/rankzero
    state_root: ~/.rankzero/state
  become: true
"""

RETURN = r"""
removed:
  description: Items that were removed, or would be removed in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: As in O(kinds).
      type: str
    path:
      description: Its path.
      type: str
    bytes:
      description: Size of its files in bytes.
      type: int
    reason:
      description: The reason.
      type: str
    owner:
      description: Its owner, with O(owners).
      type: str
    left_out:
      description: Names of the fields that are shortened. Of more than 20 items, each has at most 4 KiB.
      returned: if values are missing
      type: list
      elements: str
  sample:
    - kind: code
      path: /scratch/ml/rankzero/code/4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
      bytes: 48211
      reason: not used for 41 days
bytes:
  description: Total size of the removed items in bytes.
  returned: success
  type: int
kept:
  description: Items that are kept, each with the reason.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Its path.
      type: str
    reason:
      description: What needs it, or when it was last used.
      type: str
    owner:
      description: Its owner, with O(owners).
      type: str
    left_out:
      description: Names of the fields that are shortened. Of more than 20 items, each has at most 4 KiB.
      returned: if values are missing
      type: list
      elements: str
lines:
  description: How much was removed of each kind and how many items are kept, as sentences; with O(owners) one for each.
  returned: success
  type: list
  elements: str
  sample: ["removed 14 MB in /scratch/ml/rankzero and /project/ml/rankzero: code 1, run 2; kept: 12"]
swept:
  description: Leftovers of interrupted tasks that were deleted.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.plan import KINDS
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.prune import prune
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.users import for_each
from ansible_collections.rankzero.slurm.plugins.module_utils.run.bounded import bounded
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.preflight import size_bytes


def logic(module: AnsibleModule) -> dict[str, Any]:
    asked = module.params
    try:
        most = None if asked["max_size"] is None else size_bytes(asked["max_size"])
    except ValueError:
        raise RankzeroError(f"max_size: {asked['max_size']!r} is not a size; give one such as 500G or 2T") from None

    def own() -> dict[str, Any]:
        slurm = Slurm()
        result = prune(
            slurm,
            store_root=asked["store_root"],
            state_root=asked["state_root"],
            days=asked["older_than"],
            kinds=asked["kinds"],
            max_size=most,
            check_mode=module.check_mode,
        )
        lists = {name: bounded(result[name]) for name in ("removed", "kept")}
        return {**result, **lists, "notes": slurm.notes}

    if asked["owners"]:
        return for_each(asked["owners"], lambda _name: own(), module.warn)
    result = own()
    for note in result.pop("notes"):
        module.warn(note)
    return result


def main() -> None:
    run_module(
        {
            "older_than": {"type": "float", "required": True},
            "max_size": {"type": "str"},
            "owners": {"type": "list", "elements": "str", "default": []},
            "kinds": {"type": "list", "elements": "str", "choices": list(KINDS), "default": list(KINDS)},
            "store_root": {"type": "str", "default": "~/.rankzero/store"},
            "state_root": {"type": "str", "default": "~/.rankzero/state"},
        },
        logic,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
