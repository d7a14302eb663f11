#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dataset
short_description: Stage a complete and verified dataset for jobs
version_added: 0.1.0
author: []
description:
  - Stages the files of a dataset in the store of a cluster, from the controller, a path of the cluster, a web server,
    another host by rsync, the Hugging Face hub, or an object store.
  - An interrupted run, even by C(kill -9), continues where it stopped. A file that changed at its source in the
    meantime is transferred from its beginning, and the result says so.
  - The sha256 of each staged file is recorded. A later run checks every file and transfers only missing or damaged
    ones. It needs no network if nothing is wrong.
  - The dataset appears under its name with one rename, once it is complete. A job never sees a partial dataset, and a
    job that reads the previous version can go on reading it.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.group_writable
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Uses no network. RV(ref.digest) is null if only the source knows it.
  diff_mode:
    support: full
    details:
      - Lists the files, each with its sha256 and size.
options:
  name:
    description:
      - Name of the dataset, and of its link in C(datasets/by-name) of O(store_root).
    type: str
    required: true
  source:
    description:
      - The kind of O(src). V(controller) is a file or folder on the controller, V(cluster) one on the host of the task,
        V(http) a URL, V(rsync) a source of rsync, V(hub) the name of a dataset on the Hugging Face hub, V(object) a
        path of rclone.
    type: str
    choices: [controller, cluster, http, rsync, hub, object]
    default: controller
  src:
    description:
      - The source; required unless O(state=absent). A path; a URL, which ends in V(/) if O(files) or O(checksums)
        are below it; V(host:/path), V(user@host:/path) or V(rsync://host/module/path); V(org/name);
        V(remote:path).
      - A link in a folder is staged as the file it points to. A link that points outside the folder is an error.
    type: str
  files:
    description:
      - With O(source=http), the files below O(src), because a web server does not list them.
    type: list
    elements: str
    default: []
  sha256:
    description:
      - Expected sha256, if O(src) is a single file.
    type: str
  checksums:
    description:
      - A file below O(src) in the format of C(sha256sum), such as V(SHA256SUMS). It lists every file with its
        checksum.
    type: str
  revision:
    description:
      - With O(source=hub), a branch, tag or commit; V(main) by default.
    type: str
  include:
    description:
      - Take only files whose names match one of these patterns, such as V(*.parquet). By default all files.
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Skip files whose names match one of these patterns.
    type: list
    elements: str
    default: []
  store_root:
    description:
      - As C(launch_cluster.store_root). V(~) and variables are expanded on the cluster.
    type: str
    default: ~/.rankzero/store
  dest:
    description:
      - A path that jobs expect. It becomes a link to the dataset, or a copy.
      - If the path exists and was not created by this module, it is not changed, and the module fails.
    type: str
  dest_kind:
    description:
      - Whether O(dest) is a link, or a copy for another file system. A copy gets its name once it is complete.
    type: str
    choices: [link, copy]
    default: link
  pack:
    description:
      - Whether to make a squashfs file as well, which a job mounts once per node (C(data) in the job spec). It needs
        C(mksquashfs), and additional space of up to the same size.
    type: bool
    default: false
  compression:
    description:
      - Compression of a new squashfs file. An existing file is not made again.
    type: str
    choices: [zstd, lz4]
    default: zstd
  parallel:
    description:
      - Number of files transferred in parallel.
    type: int
    default: 4
  python:
    description:
      - With O(source=hub), a Python on the host with C(huggingface_hub). Default is C(python3).
    type: str
  token_file:
    description:
      - File on the host with a token, for O(source=hub) and O(source=http) (sent as C(Bearer)). A login for a web
        server may also be in C(~/.netrc) of the user on the host.
    type: str
  verify:
    description:
      - Whether to read the content of every file again. By default only files whose time or size has changed are
        read.
    type: bool
    default: false
  update:
    description:
      - Whether to check the source for changes. By default the staged version is kept. Files on the controller are
        always checked.
    type: bool
    default: false
  state:
    description:
      - V(present) stages the dataset. V(absent) removes its name, O(dest), and its files unless another name uses
        them.
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - M(rankzero.slurm.store_prune) removes datasets that have not been used for a long time. A run of this module counts
    as a use, and so does a launch whose job spec names the dataset in C(data).
seealso:
  - module: rankzero.slurm.hub_cache
  - module: rankzero.slurm.store_prune
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Stage a folder of the controller
  rankzero.slurm.dataset:
    name: texts
    src: "{{ playbook_dir }}/texts"
    store_root: /scratch/ml/rankzero

- name: Stage files of a web server, and verify their checksums
  rankzero.slurm.dataset:
    name: corpus
    source: http
    src: https://data.example.org/corpus/v2/
    checksums: SHA256SUMS
    include: ["train-*.parquet"]
    store_root: /scratch/ml/rankzero
    dest: /scratch/ml/data/corpus

- name: Stage images as one file that each node mounts
  rankzero.slurm.dataset:
    name: images
    source: rsync
    src: storage.example.org:/export/images
    store_root: /scratch/ml/rankzero
    pack: true
"""

RETURN = r"""
ref:
  description: Identifies the dataset for other modules. The same in check mode, as far as it is known.
  returned: always
  type: dict
  contains:
    kind:
      description: Always V(dataset).
      type: str
    key:
      description: Key of the name and the source.
      type: str
    path:
      description: Where jobs read it; O(dest) if that is given.
      type: str
    digest:
      description: Digest of names and contents; null if not known.
      type: str
    present:
      description: Whether it exists and is complete.
      type: bool
  sample:
    kind: dataset
    key: 3f0c0c2f0a6f7e0b0f8d3b6b4f5f6a7a8b9cadbecfd0e1f2031425364758697a
    path: /scratch/ml/rankzero/datasets/by-name/corpus
    digest: 9b74c9897bac770ffc029102a200c5de1b7f6d8e9fa0b1c2d3e4f5061728394a
    present: true
dataset:
  description: The staged dataset.
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
      description: Folder of its files. Another version has another folder.
      type: str
    bytes:
      description: Total size in bytes.
      type: int
    files:
      description: Number of files.
      type: int
    packed:
      description: The squashfs file; null without O(pack).
      type: str
moved:
  description: Bytes transferred from the source in this run.
  returned: always
  type: int
notes:
  description: Remarks, such as a file that changed at its source.
  returned: always
  type: list
  elements: str
repaired:
  description: Files that were transferred again, each with the reason.
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
    return run(options, module.params["x_request"] or {}, check_mode=module.check_mode)


def main() -> None:
    run_module({**DATASET, **REQUEST}, logic, publishes=True, supports_check_mode=True)


if __name__ == "__main__":
    main()
