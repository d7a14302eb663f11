#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset
short_description: Put a dataset where jobs read it, whole and verified
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Stages the files of a dataset in the store of a cluster, from the controller, a path of the cluster, a web server,
    another host by rsync, the Hugging Face hub, or an object store.
  - A run that was cut off, also by C(kill -9), goes on where it was; a file that was replaced at its source meanwhile
    starts again, and the result says so.
  - What is staged is written down with the sha256 of each file. A later run looks at every file, and brings again only
    what is missing or damaged. It asks no network where nothing is wrong.
  - The name leads to the dataset by one rename, once all of it is there. A job never sees a part of one, and a job that
    reads the one before goes on reading that.
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
      - Asks no network. RV(ref.digest) is null where only the source could tell it.
  diff_mode:
    support: full
    details:
      - Lists the files, each with its content's sha256 and size.
options:
  name:
    description:
      - Name of the dataset. It is found under it in C(datasets/by-name) of O(store_root).
    type: str
    required: true
  source:
    description:
      - What O(src) is. V(controller) is a file or folder of the machine that runs Ansible, V(cluster) one of the host
        of the task, V(http) a URL, V(rsync) a source as rsync knows it, V(hub) the name of a dataset of the Hugging
        Face hub, V(object) a path that rclone knows.
    type: str
    choices: [controller, cluster, http, rsync, hub, object]
    default: controller
  src:
    description:
      - Where it comes from; needed unless O(state=absent). A path; a URL, which ends in V(/) where O(files) or
        O(checksums) are below it; V(host:/path), V(user@host:/path) or V(rsync://host/module/path); V(org/name);
        V(remote:path).
      - A link in a folder is staged as the file that it leads to. One that leads out of the folder is an error.
    type: str
  files:
    description:
      - With O(source=http), the files below O(src), which a web server does not list.
    type: list
    elements: str
    default: []
  sha256:
    description:
      - What the one file of O(src) must be.
    type: str
  checksums:
    description:
      - A file below O(src) as C(sha256sum) writes it, such as V(SHA256SUMS). It names every file, and what each must
        be.
    type: str
  revision:
    description:
      - With O(source=hub), a branch, tag or commit; V(main) where it is not given.
    type: str
  include:
    description:
      - Take only files whose names fit one of these patterns, such as V(*.parquet). All where there is none.
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Leave out files whose names fit one of these patterns.
    type: list
    elements: str
    default: []
  store_root:
    description:
      - As C(launch_cluster.store_root). V(~) and variables are the cluster's.
    type: str
    default: ~/.rankzero/store
  dest:
    description:
      - A path that jobs expect. It becomes a link to the dataset, or a copy.
      - What is there already and was not made by this module is left alone, and is an error.
    type: str
  dest_kind:
    description:
      - Whether O(dest) is a link, or a copy for another file system. A copy gets its name once it is whole.
    type: str
    choices: [link, copy]
    default: link
  pack:
    description:
      - Whether to make one squashfs file of it besides, which a job mounts once a node (C(data) in the job spec). It
        needs C(mksquashfs), and room for as much again.
    type: bool
    default: false
  compression:
    description:
      - How a new squashfs file is compressed. One that is there is not made again.
    type: str
    choices: [zstd, lz4]
    default: zstd
  parallel:
    description:
      - How many files are brought at once.
    type: int
    default: 4
  python:
    description:
      - With O(source=hub), a Python on the host that has C(huggingface_hub). Without it C(python3).
    type: str
  token_file:
    description:
      - File on the host with a token, for O(source=hub) and O(source=http) (sent as C(Bearer)). A login for a web
        server may also stand in C(~/.netrc) of the host's user.
    type: str
  verify:
    description:
      - Whether the content of every file is read again. Without it those are read whose time or size has changed.
    type: bool
    default: false
  update:
    description:
      - Whether the source is asked what it has now. Without it, what was staged stays. The files of the controller are
        always looked at.
    type: bool
    default: false
  state:
    description:
      - V(present) stages it. V(absent) removes its name, O(dest), and what it leads to unless another name has the
        same.
    type: str
    choices: [present, absent]
    default: present
  _request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - M(rankzero.slurm.store_prune) removes datasets that were not used for long. A run of this module counts as a use,
    and so does a launch whose job spec names the dataset in C(data).
seealso:
  - module: rankzero.slurm.hub_cache
  - module: rankzero.slurm.store_prune
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: A folder of the controller
  rankzero.slurm.dataset:
    name: texts
    src: "{{ playbook_dir }}/texts"
    store_root: /scratch/ml/rankzero

- name: Files of a web server, each held against its checksum
  rankzero.slurm.dataset:
    name: corpus
    source: http
    src: https://data.example.org/corpus/v2/
    checksums: SHA256SUMS
    include: ["train-*.parquet"]
    store_root: /scratch/ml/rankzero
    dest: /scratch/ml/data/corpus

- name: Images as one file that each node mounts
  rankzero.slurm.dataset:
    name: images
    source: rsync
    src: storage.example.org:/export/images
    store_root: /scratch/ml/rankzero
    pack: true
"""

RETURN = r"""
ref:
  description: Names the dataset for other modules. The same under check mode, as far as it can be known.
  returned: always
  type: dict
  contains:
    kind:
      description: Always V(dataset).
      type: str
    key:
      description: Key of the name and where it comes from.
      type: str
    path:
      description: Where jobs read it; O(dest) where that is given.
      type: str
    digest:
      description: Digest of names and contents; null while that is not known.
      type: str
    present:
      description: Whether it is there, and whole.
      type: bool
  sample:
    kind: dataset
    key: 3f0c0c2f0a6f7e0b0f8d3b6b4f5f6a7a8b9cadbecfd0e1f2031425364758697a
    path: /scratch/ml/rankzero/datasets/by-name/corpus
    digest: 9b74c9897bac770ffc029102a200c5de1b7f6d8e9fa0b1c2d3e4f5061728394a
    present: true
dataset:
  description: What is staged.
  returned: when it is known
  type: dict
  contains:
    name:
      description: Its name.
      type: str
    source:
      description: Where it came from.
      type: str
    folder:
      description: Where its files lie. Another version of it gets another folder.
      type: str
    bytes:
      description: Bytes of all files.
      type: int
    files:
      description: How many files.
      type: int
    packed:
      description: The squashfs file; null without O(pack).
      type: str
moved:
  description: Bytes that came from the source this time.
  returned: always
  type: int
notes:
  description: What happened on the way, such as a file that changed at its source.
  returned: always
  type: list
  elements: str
repaired:
  description: Files that were brought again, each with what was wrong.
  returned: when something was wrong
  type: dict
  sample: {train/part-0003.parquet: has another content}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module

# Before anything else is imported, which an old Python may not be able to.
# isort: split
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import DATASET, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import run


def logic(module: AnsibleModule) -> dict[str, Any]:
    options = {name: module.params[name] for name in DATASET}
    return run(options, module.params["_request"] or {}, check_mode=module.check_mode)


def main() -> None:
    run_module({**DATASET, **REQUEST}, logic, publishes=True, supports_check_mode=True)


if __name__ == "__main__":
    main()
