#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: code_snapshot
short_description: Put a program's files on the cluster, known by their content
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Takes the files of a folder on the controller and publishes them, read-only, as C(store_root/code/DIGEST) on the
    cluster. The digest is that of names, contents, execute bits and link targets, so the same tree is sent once,
    whatever its times, its owner or its place.
  - Inside a git work tree these are the tracked files as they lie there, with uncommitted changes, and new files that
    git does not ignore. Elsewhere they are all files. Debris of tools and runs (C(__pycache__), C(.venv), C(/runs/)
    and the like) is left out unless git tracks it. A subfolder of a repository is a snapshot of that subfolder alone;
    submodules are taken as they are checked out.
  - Of a tree of more than a megabyte only files travel whose content this user's newest snapshot in the store does not
    hold; the others are hard links to it, or copies where the file system has no links.
  - The tree is packed on the controller and unpacked beside its place on the cluster, its digest is computed there
    again, and it gets its name last. A killed run leaves nothing that a later one would take for a snapshot.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.stores
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Returns the same RV(ref), with C(present=false) where the tree would have to be sent.
  diff_mode:
    support: full
    details:
      - Lists the files of the snapshot that is added or removed.
options:
  src:
    description:
      - Folder with the program on the controller. Relative paths count from the working directory.
    type: str
    default: .
  exclude:
    description:
      - Patterns of files that are no part of the snapshot, as in C(.gitignore) but without V(!). A pattern with a
        slash counts from O(src), one without matches at any depth.
    type: list
    elements: str
    default: []
  dirty:
    description:
      - V(refuse) fails where the tree is not exactly a commit, and names the files that differ.
    type: str
    choices: [allow, refuse]
    default: allow
  key:
    description:
      - With O(state=absent), the key of the snapshot to remove. The controller's folder is not looked at then.
    type: str
  store_root:
    description:
      - Storage that is shared by all nodes of the cluster and may be purged. V(~) and variables are the cluster's.
    type: str
    default: ~/.rankzero/store
  state:
    description:
      - V(present) publishes the tree as it is now, V(absent) removes the snapshot of the tree as it is now, or
        the one that O(key) names.
    type: str
    choices: [present, absent]
    default: present
  _request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - Links are kept as they are. A link to a place outside the tree leads to that place on the cluster.
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

- name: Ship nothing that is not committed
  rankzero.slurm.code_snapshot:
    src: "{{ playbook_dir }}"
    dirty: refuse

- name: Remove it again
  rankzero.slurm.code_snapshot:
    key: "{{ code.ref.key }}"
    store_root: /scratch/ml/rankzero
    state: absent

- name: Say where it lies
  ansible.builtin.debug:
    msg: "{{ code.ref.path }}, from commit {{ code.code.commit }}{{ ' with changes' if code.code.dirty }}"
"""

RETURN = r"""
ref:
  description: Names the snapshot for other modules. The same under check mode.
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
      description: Where it lies on the cluster.
      type: str
    digest:
      description: Digest of the tree; the content is its own key.
      type: str
    present:
      description: Whether it is there.
      type: bool
  sample:
    kind: code
    key: 4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
    path: /scratch/ml/rankzero/code/4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
    digest: 4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730
    present: true
sent:
  description: Bytes of the archive that was sent.
  returned: when something was sent
  type: int
code:
  description: What was looked at on the controller.
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
      description: Digest of the uncommitted state; null where there is none.
      type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import CODE_SNAPSHOT, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import root_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot import ensure_snapshot, lacking, newest_base
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry


def logic(module: AnsibleModule) -> dict[str, Any]:
    """The action plugin of the same name says which tree it is, and brings the archive when it is asked to."""
    request = module.params["_request"] or {}
    store_root, base, tree = module.params["store_root"], request.get("base"), request.get("tree", [])
    if base and "archive" not in request:
        return {"changed": False, "lacking": lacking(store_root, base, tree)}
    result = ensure_snapshot(
        module.params,
        module.params["key"] or request.get("digest", ""),
        request.get("archive"),
        base=base,
        kept=[Entry(path, kind, sha256, 0) for kind, sha256, path in tree],
        absent=module.params["state"] == "absent",
        check_mode=module.check_mode,
    )
    if request.get("large") and not result["ref"]["present"]:
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
