#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: code_snapshot
short_description: Publish a read-only copy of a program's files on the cluster
version_added: 0.1.0
author: []
description:
  - Takes the files of a folder on the controller and publishes them, read-only, as C(store_root/code/DIGEST) on the
    cluster. The digest covers names, contents, execute bits and link targets, so the same tree is sent only once,
    regardless of its times, owner and location.
  - In a git work tree it takes the tracked files, including uncommitted changes, and new files that git does not
    ignore. Elsewhere it takes all files. Files made by tools and runs (C(__pycache__), C(.venv), C(/runs/) and the
    like) are excluded unless git tracks them. A subfolder of a repository is a snapshot of that subfolder alone;
    submodules are taken as they are checked out. Job files and inventories are taken too, which M(rankzero.slurm.job)
    leaves out of its snapshots.
  - Of a tree larger than a megabyte, only files that this user's newest snapshot in the store does not contain are
    sent. The others are hard links to it, or copies if the file system has no hard links.
  - The tree is packed on the controller and unpacked on the cluster. Its digest is checked there before it gets its
    final name, so an interrupted run never leaves an incomplete snapshot.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.group_writable
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Returns the same RV(ref), with C(present=false) if the tree would have to be sent.
  diff_mode:
    support: full
    details:
      - Lists the files of the snapshot that is added or removed.
options:
  src:
    description:
      - Folder with the program on the controller. Relative paths are relative to the working directory.
    type: str
    default: .
  exclude:
    description:
      - Patterns of files to exclude from the snapshot, as in C(.gitignore) but without V(!). A pattern with a
        slash is relative to O(src); one without matches at any depth.
    type: list
    elements: str
    default: []
  dirty:
    description:
      - V(refuse) fails if the tree differs from its commit, and names the files that differ.
    type: str
    choices: [allow, refuse]
    default: allow
  key:
    description:
      - With O(state=absent), the key of the snapshot to remove. The folder on the controller is not read then.
    type: str
  store_root:
    description:
      - Storage that all nodes of the cluster share and that may be purged. V(~) and variables are expanded on the
        cluster.
    type: str
    default: ~/.rankzero/store
  state:
    description:
      - V(present) publishes the tree as it is now. V(absent) removes the snapshot of the tree as it is now, or the
        one named by O(key).
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - Links are kept as they are. A link that points outside the tree points to that path on the cluster.
  - Jobs that run from a snapshot lose their files when it is removed.
seealso:
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.job
  - module: rankzero.slurm.store_prune
"""

EXAMPLES = r"""
- name: Put the program on the cluster
  rankzero.slurm.code_snapshot:
    src: "{{ playbook_dir }}"
    exclude:
      - /inventory/
      - "*.ipynb"
    store_root: /scratch/ml/rankzero
  register: code

- name: Refuse uncommitted changes
  rankzero.slurm.code_snapshot:
    src: "{{ playbook_dir }}"
    dirty: refuse

- name: Remove it again
  rankzero.slurm.code_snapshot:
    key: "{{ code.ref.key }}"
    store_root: /scratch/ml/rankzero
    state: absent

- name: Show its path
  ansible.builtin.debug:
    msg: "{{ code.ref.path }}, from commit {{ code.code.commit }}{{ ' with changes' if code.code.dirty }}"
"""

RETURN = r"""
ref:
  description: Identifies the snapshot for other modules. The same in check mode.
  returned: always
  type: dict
  contains:
    kind:
      description: Always V(code).
      type: str
    key:
      description: Digest of the tree.
      type: str
    path:
      description: Its path on the cluster.
      type: str
    digest:
      description: Digest of the tree, the same as the key.
      type: str
    present:
      description: Whether it exists.
      type: bool
  sample:
    kind: code
    key: 4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
    path: /scratch/ml/rankzero/code/4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
    digest: 4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
    present: true
sent:
  description: Size of the archive that was sent, in bytes.
  returned: when something was sent
  type: int
code:
  description: The files on the controller.
  returned: without O(key)
  type: dict
  contains:
    src:
      description: Absolute path of the folder.
      type: str
    digest:
      description: Digest of the tree.
      type: str
    files:
      description: Number of files.
      type: int
    bytes:
      description: Bytes of all files.
      type: int
    commit:
      description: The commit that is checked out; null outside git.
      type: str
    branch:
      description: The branch; null outside git and on a detached head.
      type: str
    dirty:
      description: Whether the tree differs from the commit.
      type: bool
    changed:
      description: The paths that differ.
      type: list
      elements: str
    diff_digest:
      description: Digest of the uncommitted changes; null if there are none.
      type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import CODE_SNAPSHOT, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import root_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot import ensure_snapshot, lacking, newest_base
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot_request import SnapshotRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry


def logic(module: AnsibleModule) -> dict[str, Any]:
    """The action plugin of the same name says which tree it is, and brings the archive when it is asked to."""
    request = SnapshotRequest.of(module.params["x_request"] or {})
    store_root = module.params["store_root"]
    if request.base and not request.archive:
        return {"changed": False, "lacking": lacking(store_root, request.base, request.tree)}
    result = ensure_snapshot(
        module.params,
        module.params["key"] or request.digest,
        request.archive,
        base=request.base,
        kept=[Entry(path, kind, sha256, 0) for kind, sha256, path in request.tree],
        absent=module.params["state"] == "absent",
        check_mode=module.check_mode,
    )
    if request.large and not result["ref"]["present"]:
        result["base"] = newest_base(root_of(store_root))
    return result


def main() -> None:
    run_module(
        {**CODE_SNAPSHOT, **REQUEST},
        logic,
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
