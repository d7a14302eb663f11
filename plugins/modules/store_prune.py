#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: store_prune
short_description: Remove what no launch has used for some days
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Removes run directories of launches that ended more than O(older_than) days ago, and code snapshots, environments,
    sets of packages, images, datasets, job runtimes, archives, folders of interactive sessions and cached answers of
    Slurm that were not used for so long.
  - What the files of a launch name stays while that launch waits, runs, or ended less than O(older_than) days ago.
    Slurm is asked for jobs that wait or run. While it does not answer, a launch without an outcome of its own counts
    as running.
  - A launch notes what it uses in the store, before it looks whether it is there. What was noted in the last hour stays
    in any case, so a launch that begins during a prune is safe. The store also knows the other state roots whose
    launches use it; where one of them cannot be read, no code, environment, image, dataset or packages go.
  - Each thing loses its name by one rename and is deleted afterwards. What a killed prune leaves is swept by the next.
  - Only what belongs to the user of the task (or to one of O(owners)) goes, and only names of the form that the
    collection gives, in the folders that it makes below O(store_root) and O(state_root).
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Lists what goes, with kind, bytes, path and reason.
options:
  older_than:
    description:
      - Days. What was used since stays. With V(0) every launch that has ended goes, and what nothing uses.
      - A run directory holds the logs and the results of a launch. An identical launch runs again when they are gone.
    type: float
    required: true
  max_size:
    description:
      - A size such as V(500G). Of what O(older_than) lets go the longest unused goes first, and no more once the user's
        files in both roots are no larger. Without it all of that goes.
      - V(older_than=0) and a size keep a quota by last use alone. What waiting and running launches use stays even so.
    type: str
  owners:
    description:
      - Names of users whose things go in the place of one's own, for an administrator. It needs root. Each user's prune
        is done by a process that has become that user for good, so that nothing else can be reached, wherever a link
        leads, and so that it works on file systems with C(root_squash).
      - V(~) and C($USER) in the roots are then each user's own.
      - Where the prune of one user fails the others' are done, and the task fails with the names.
    type: list
    elements: str
    default: []
  kinds:
    description:
      - What may go.
      - V(run) is run directories and, after the last of its elements, the folder of a sweep; V(shell) folders of
        interactive sessions with the user's own files in them, V(cache) answers of Slurm that are kept for ten minutes.
        The caches of tools (C(launch_cluster.caches)) are never touched, nor are locks of environments and copies of uv
        in the store.
    type: list
    elements: str
    choices: [code, environment, packages, image, dataset, runtime, archive, run, shell, cache]
    default: [code, environment, packages, image, dataset, runtime, archive, run, shell, cache]
  store_root:
    description: As C(launch_cluster.store_root). V(~) and variables are the cluster's.
    type: str
    default: ~/.rankzero/store
  state_root:
    description: As C(launch_cluster.state_root). V(~) and variables are the cluster's.
    type: str
    default: ~/.rankzero/state
notes:
  - A job that was submitted to another cluster and has not begun there is not seen. Give each cluster a O(state_root)
    of its own.
seealso:
  - module: rankzero.slurm.code_snapshot
  - module: rankzero.slurm.image
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.job_info
"""

EXAMPLES = r"""
- name: Show what a month without use would remove
  rankzero.slurm.store_prune:
    older_than: 30
    store_root: /scratch/ml/rankzero
    state_root: /project/ml/rankzero
  check_mode: true
  diff: true

- name: Remove code and environments that were not used for a week, and keep all results
  rankzero.slurm.store_prune:
    older_than: 7
    kinds: [code, environment]

- name: As an administrator, keep each user within 2 TiB, by what was unused for two weeks
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
  description: What went, or would go in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: As in O(kinds).
      type: str
    path:
      description: Where it was.
      type: str
    bytes:
      description: Bytes of its files.
      type: int
    reason:
      description: Why it went.
      type: str
    owner:
      description: Whose it was, where there are O(owners).
      type: str
  sample:
    - kind: code
      path: /scratch/ml/rankzero/code/4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
      bytes: 48211
      reason: not used for 41 days
bytes:
  description: Bytes of all that went.
  returned: success
  type: int
kept:
  description: What stays, each with the reason.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Where it is.
      type: str
    reason:
      description: Who needs it, or when it was used.
      type: str
    owner:
      description: Whose it is, where there are O(owners).
      type: str
swept:
  description: What killed tasks had left without a name, and is deleted now.
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
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.preflight import size_bytes


def logic(module: AnsibleModule) -> dict[str, Any]:
    asked = module.params
    try:
        most = None if asked["max_size"] is None else size_bytes(asked["max_size"])
    except ValueError:
        raise RankzeroError(f"max_size: {asked['max_size']!r} is not a size; give one such as 500G or 2T.") from None

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
        return {**result, "notes": slurm.notes}

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
