#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hub_cache
short_description: Stage a model, tokenizer or dataset in the cache of the Hugging Face libraries
version_added: 0.1.0
author: []
description:
  - Stages the files of a Hugging Face hub repository on the cluster, in the layout of the hub's own cache below
    C(HF_HOME). A job on nodes without a network then loads it by its usual name, as with
    C(AutoTokenizer.from_pretrained("org/name")).
  - The files come from the hub, with a pinned revision, or from a folder or an archive.
  - The sha256 of each staged file is recorded. A later run checks every file and transfers only missing or damaged
    ones. It needs no network if nothing is wrong.
  - Files that a store in O(stores) has in its folder C(huggingface) are copied from there, without asking the hub. Each
    copy is compared with its sha256.
  - A repository appears under its name only once it is complete. An interrupted download continues with the missing
    files.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Does not contact the hub. RV(ref.digest) is null if only the hub knows it.
  diff_mode:
    support: full
    details:
      - Lists the files, each with its sha256 and size.
options:
  repo:
    description:
      - Name of the repository, such as V(org/name).
    type: str
    required: true
  repo_type:
    description:
      - Kind of the repository.
    type: str
    choices: [model, dataset, space]
    default: model
  revision:
    description:
      - Branch, tag or commit. A branch remains at the commit that was staged until O(update) is true.
    type: str
    default: main
  path:
    description:
      - C(HF_HOME) of the jobs, on storage that all nodes share. With C(launch_cluster.caches) that is its folder
        C(huggingface). V(~) and variables are expanded on the cluster.
    type: path
    default: ~/.cache/huggingface
  src:
    description:
      - Folder or archive (tar, zip) with the files, on the controller. By default the files come from the hub.
    type: str
  remote_src:
    description:
      - Whether O(src) is a folder on the managed host, not the controller.
    type: bool
    default: false
  include:
    description:
      - Take only files whose names match one of these patterns, such as V(*.json). By default all files.
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Skip files whose names match one of these patterns.
    type: list
    elements: str
    default: []
  require:
    description:
      - Names of required files. V(tokenizer.json|tokenizer.model) requires one of the two.
      - If one is missing, this module fails, instead of the job when it loads the files.
    type: list
    elements: str
    default: []
  download:
    description:
      - Where to download from the hub. V(head) is the host of the task, V(controller) the machine that runs Ansible.
    type: str
    choices: [head, controller]
    default: head
  python:
    description:
      - A Python with C(huggingface_hub), on the machine that downloads. Default is C(python3) on the host, and
        Ansible's own Python on the controller.
    type: str
  token_file:
    description:
      - File with the hub's token, on the machine that downloads. By default the hub's library uses
        C(HF_TOKEN) or its own login.
    type: str
  verify:
    description:
      - Whether to read the content of every file again. By default only files whose time or size has changed are
        read.
    type: bool
    default: false
  update:
    description:
      - Whether to ask the hub for the current commit of O(revision). O(stores) are not used then.
    type: bool
    default: false
  state:
    description:
      - V(present) stages it. V(absent) removes the files of this revision, except those that another revision uses.
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - Set C(offline=true) in C(launch_cluster) if the nodes have no network. Otherwise a library first checks for a newer
    version, and waits minutes for an answer.
seealso:
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Download a tokenizer from the hub on the login node
  rankzero.slurm.hub_cache:
    repo: org/small-model
    revision: 0123456789abcdef0123456789abcdef01234567
    path: /project/ml/caches/huggingface
    include: ["*.json", "*.model", "*.txt"]
    require: [config.json, tokenizer.json|tokenizer.model]
    python: /project/ml/hub/bin/python

- name: Download it on the controller, for a cluster without internet access
  rankzero.slurm.hub_cache:
    repo: org/small-model
    path: /project/ml/caches/huggingface
    download: controller
    token_file: ~/.config/hub-token

- name: Stage a tokenizer of our own
  rankzero.slurm.hub_cache:
    repo: our-lab/tokenizer
    src: "{{ playbook_dir }}/tokenizer"
    path: /project/ml/caches/huggingface
    require: [config.json, tokenizer.json]
"""

RETURN = r"""
ref:
  description: Identifies the snapshot for other modules. The same in check mode, as far as it is known.
  returned: always
  type: dict
  contains:
    kind:
      description: Always V(hub).
      type: str
    key:
      description: Key of repository and revision.
      type: str
    path:
      description: Folder of the snapshot; that of the repository if its commit is not known.
      type: str
    digest:
      description: Digest of names and contents; null if not known.
      type: str
    present:
      description: Whether it exists and is complete.
      type: bool
  sample:
    kind: hub
    key: 3f0c0c2f0a6f7e0b0f8d3b6b4f5f6a7a8b9cadbecfd0e1f2031425364758697a
    path: /project/ml/caches/huggingface/hub/models--org--small-model/snapshots/0123456789abcdef0123456789abcdef01234567
    digest: 9b74c9897bac770ffc029102a200c5de1b7f6d8e9fa0b1c2d3e4f5061728394a
    present: true
snapshot:
  description: The staged snapshot.
  returned: when it is known
  type: dict
  contains:
    repo:
      description: Name of the repository.
      type: str
    revision:
      description: The requested revision.
      type: str
    commit:
      description: The commit; for files that are not a commit of the hub, the first 40 digits of their digest.
      type: str
    source:
      description: V(hub), or the folder or archive; C(HF_HOME) in the store if it comes from one of O(stores).
      type: str
    bytes:
      description: Total size in bytes.
      type: int
    files:
      description: Names of the files.
      type: list
      elements: str
repaired:
  description: Files that were transferred again, each with the reason.
  returned: when something was wrong
  type: dict
  sample: {tokenizer.json: has another content}
sent:
  description: Bytes sent by the controller.
  returned: when something was sent
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import HUB_CACHE, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.ensure import ensure_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.background import run_or_follow


def logic(module: AnsibleModule) -> dict[str, Any]:
    return run_or_follow("fetches the repository", ensure_cache, module.params, check_mode=module.check_mode)


def main() -> None:
    run_module(
        {**HUB_CACHE, **REQUEST},
        logic,
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
