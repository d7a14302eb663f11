#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hub_cache
short_description: Put a model, tokenizer or dataset where the hub's libraries look for it
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Stages the files of a repository of the Hugging Face hub on the cluster, in the layout of the hub's own cache below
    C(HF_HOME). A job on nodes without a network then loads it by its usual name, as with
    C(AutoTokenizer.from_pretrained("org/name")).
  - The files come from the hub, with a pinned revision, or from a folder or an archive.
  - What is staged is written down with the sha256 of each file. A later run looks at every file, and brings again
    what is missing or damaged. It asks no network where nothing is wrong.
  - What a store in O(stores) has in its folder C(huggingface) is copied from there, and the hub is not asked. Each
    file is compared with its sha256.
  - Nothing is found by its name before all of it is there. A download that was cut off goes on with the files
    that are missing.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Asks no hub. RV(ref.digest) is null where only the hub could tell it.
  diff_mode:
    support: full
    details:
      - Lists the files, each with its content's sha256 and size.
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
      - Branch, tag or commit. A branch stands for the commit that it was when it was staged, until O(update) is true.
    type: str
    default: main
  path:
    description:
      - C(HF_HOME) of the jobs, on storage that all nodes see. With C(launch_cluster.caches) that is its folder
        C(huggingface). V(~) and variables are the cluster's.
    type: path
    default: ~/.cache/huggingface
  src:
    description:
      - Folder or archive (tar, zip) with the files, on the controller. Without it they come from the hub.
    type: str
  remote_src:
    description:
      - Whether O(src) is a folder on the host of the task.
    type: bool
    default: false
  include:
    description:
      - Take only files whose names fit one of these patterns, such as V(*.json). All where there is none.
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Leave out files whose names fit one of these patterns.
    type: list
    elements: str
    default: []
  require:
    description:
      - Names of files without which it is of no use. Of V(tokenizer.json|tokenizer.model) one will do.
      - A file that is missing is an error now, and not when the job loads it.
    type: list
    elements: str
    default: []
  download:
    description:
      - Who asks the hub. V(head) is the host of the task, V(controller) the machine that runs Ansible.
    type: str
    choices: [head, controller]
    default: head
  python:
    description:
      - A Python with C(huggingface_hub), on the machine that downloads. Without it C(python3) on the host, and
        Ansible's own on the controller.
    type: str
  token_file:
    description:
      - File with the hub's token, on the machine that downloads. Without it the hub's library looks itself, in
        C(HF_TOKEN) and where its login has left one.
    type: str
  verify:
    description:
      - Whether the content of every file is read again. Without it those are read whose time or size has changed.
    type: bool
    default: false
  update:
    description:
      - Whether the hub is asked what O(revision) stands for now. O(stores) are not looked at then.
    type: bool
    default: false
  state:
    description:
      - V(present) stages it. V(absent) removes the files of this revision, except those that another one has, too.
    type: str
    choices: [present, absent]
    default: present
  _request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - Set C(offline=true) in C(launch_cluster) where the nodes have no network. Otherwise a library looks for what is new
    first, and waits minutes for an answer.
seealso:
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: A tokenizer from the hub, by the login node
  rankzero.slurm.hub_cache:
    repo: org/small-model
    revision: 0123456789abcdef0123456789abcdef01234567
    path: /project/ml/caches/huggingface
    include: ["*.json", "*.model", "*.txt"]
    require: [config.json, tokenizer.json|tokenizer.model]
    python: /project/ml/hub/bin/python

- name: The same on a cluster without a route out, by the controller
  rankzero.slurm.hub_cache:
    repo: org/small-model
    path: /project/ml/caches/huggingface
    download: controller
    token_file: ~/.config/hub-token

- name: A tokenizer of our own, by a name that jobs load
  rankzero.slurm.hub_cache:
    repo: our-lab/tokenizer
    src: "{{ playbook_dir }}/tokenizer"
    path: /project/ml/caches/huggingface
    require: [config.json, tokenizer.json]
"""

RETURN = r"""
ref:
  description: Names the snapshot for other modules. The same under check mode, as far as it can be known.
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
      description: Folder of the snapshot; that of the repository while its commit is not known.
      type: str
    digest:
      description: Digest of names and contents; null while that is not known.
      type: str
    present:
      description: Whether it is there, and whole.
      type: bool
  sample:
    kind: hub
    key: 3f0c0c2f0a6f7e0b0f8d3b6b4f5f6a7a8b9cadbecfd0e1f2031425364758697a
    path: /project/ml/caches/huggingface/hub/models--org--small-model/snapshots/0123456789abcdef0123456789abcdef01234567
    digest: 9b74c9897bac770ffc029102a200c5de1b7f6d8e9fa0b1c2d3e4f5061728394a
    present: true
snapshot:
  description: What is staged.
  returned: when it is known
  type: dict
  contains:
    repo:
      description: Name of the repository.
      type: str
    revision:
      description: The revision that was asked for.
      type: str
    commit:
      description: The commit; for files that are no commit of the hub, the first 40 digits of their digest.
      type: str
    source:
      description: V(hub), or the folder or archive; C(HF_HOME) in the store where it comes from one of O(stores).
      type: str
    bytes:
      description: Bytes of all files.
      type: int
    files:
      description: Names of the files.
      type: list
      elements: str
repaired:
  description: Files that were brought again, each with what was wrong.
  returned: when something was wrong
  type: dict
  sample: {tokenizer.json: has another content}
sent:
  description: Bytes that the controller has sent.
  returned: when it has sent something
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import HUB_CACHE, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.ensure import ensure_cache


def logic(module: AnsibleModule) -> dict[str, Any]:
    return ensure_cache(module.params, module.params["_request"] or {}, check_mode=module.check_mode)


def main() -> None:
    run_module(
        {**HUB_CACHE, "path": {"type": "path", "default": "~/.cache/huggingface"}, **REQUEST},
        logic,
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
