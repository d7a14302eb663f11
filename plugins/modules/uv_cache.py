#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: uv_cache
short_description: Create and verify a set of packages for hosts without a network
version_added: 0.1.0
author: []
description:
  - Collects the dependencies of a C(pyproject.toml) for a given platform and Python in C(store_root/packages/KEY). The
    set is a wheelhouse (the wheels with their hashes) or a cache of uv, and includes uv itself. Hosts without access to
    a package index install from it. The key is computed from the recipe, and known before anything is downloaded.
  - All problems are reported at once, before anything is published or sent. These are packages without a wheel for the
    platform, files that cannot be downloaded, and content that differs from the lock. The finished set is
    test-installed offline and with hashes, and every file is checked against its package's RECORD.
  - C(packages.json) in the set contains the sha256 of every file. An existing set is read and compared. Files that were
    changed, removed or added are reported, also those inside a cache, and the set is made again.
  - The set gets its name with one rename, so an interrupted run never leaves an incomplete set. If two tasks build the
    same set, the second waits for the first and uses its result.
  - If the host has no access to a package index, the set is made on the controller and sent. If the controller has none
    either, copy a set there and name it with O(source).
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.group_writable
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Returns the same RV(ref), with C(present=false) if the set would have to be made. Packages are not resolved
        then.
  diff_mode:
    support: full
    details:
      - Lists damaged files, and the packages of a new set.
options:
  project:
    description:
      - Folder with C(pyproject.toml), and C(uv.lock) if the project has one, on the controller.
    type: str
    default: .
  extras:
    description:
      - Names of optional dependencies to include.
    type: list
    elements: str
    default: []
  python:
    description:
      - Version of Python on the hosts that will install, such as V(3.11). Required with O(platform). Default is the
        one that M(rankzero.slurm.uv_environment) would use on this host.
    type: str
  platform:
    description:
      - Machine and C library of the hosts that will install, such as V(x86_64-manylinux_2_28) for glibc 2.28 and newer.
        Default is those of the host of the task.
    type: str
  torch:
    description:
      - The build of torch, as for M(rankzero.slurm.uv_environment).
    type: str
    default: auto
  kind:
    description:
      - V(wheelhouse) is a folder of wheels, which uv and pip can use.
      - V(cache) is uv's own cache, packed into one file, from which C(uv sync --offline --frozen) installs. An index
        must serve the packages. Wheels in a directory of this host are added beside it.
    type: str
    choices: [cache, wheelhouse]
    default: wheelhouse
  requirements:
    description:
      - A C(requirements.txt) of pip in the folder O(project), instead of its C(pyproject.toml), as for
        M(rankzero.slurm.uv_environment).
    type: str
  source:
    description:
      - Path on the host to packages that were copied there, in place of a network. This is the folder of a set, a tar
        file of one, or a folder of wheels for a project with a C(uv.lock). Every file is compared with
        C(packages.json), or with the lock. If one differs, the module fails and names it.
    type: str
  verify:
    description:
      - Read every file of an existing set and compare it. V(false) only checks that the set exists.
    type: bool
    default: true
  store_root:
    description:
      - Storage that all nodes of the cluster share and that may be purged. V(~) and variables are expanded on the
        host.
    type: str
    default: ~/.rankzero/store
  download:
    description:
      - Where packages are resolved and downloaded, as for M(rankzero.slurm.uv_environment).
    type: str
    choices: [auto, head, controller]
    default: auto
  build_on_controller:
    description:
      - Whether the machine that runs Ansible may build packages, as for M(rankzero.slurm.uv_environment).
    type: bool
    default: false
  uv:
    description:
      - Path of uv on the host. By default uv is searched as for M(rankzero.slurm.uv_environment).
    type: str
  key:
    description:
      - With O(state=absent), the key of the set to remove. The folder on the controller is not read then.
    type: str
  state:
    description:
      - V(present) makes the set and verifies it. V(absent) removes it, or the one named by O(key).
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - A package that has no wheel for the platform is built once from its source, on the host, or on the machine that runs
    Ansible if O(build_on_controller) allows it. Its wheel must fit the platform. Other packages are reported; build
    wheels of them in a directory that pip's C(find-links) names.
  - The set contains the project's dependencies, but not the project itself.
seealso:
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.store_prune
"""

EXAMPLES = r"""
- name: On a laptop, make the set for the cluster's nodes
  rankzero.slurm.uv_cache:
    project: "{{ playbook_dir }}"
    python: "3.11"
    platform: x86_64-manylinux_2_28
    torch: cpu
    store_root: "{{ playbook_dir }}/bundle"
  delegate_to: localhost
  register: bundle

- name: On an air-gapped cluster, import the set
  rankzero.slurm.uv_cache:
    project: "{{ playbook_dir }}"
    python: "3.11"
    platform: x86_64-manylinux_2_28
    torch: cpu
    source: /media/usb/{{ bundle.ref.key }}
    store_root: /scratch/ml/rankzero

- name: On a login node with a network, make a cache of uv for offline nodes
  rankzero.slurm.uv_cache:
    project: "{{ playbook_dir }}"
    kind: cache
    store_root: /scratch/ml/rankzero
"""

RETURN = r"""
ref:
  description: Identifies the set for other modules. The same in check mode.
  returned: always
  type: dict
  contains:
    kind:
      description: Always V(packages).
      type: str
    key:
      description: Key of the recipe.
      type: str
    path:
      description: Its path on the host.
      type: str
    digest:
      description: Digest of names, versions and hashes of all wheels; null if it does not exist.
      type: str
    present:
      description: Whether it exists.
      type: bool
  sample:
    kind: packages
    key: 4b8a051185db81be0a796dce16a4cbc8
    path: /scratch/ml/rankzero/packages/4b8a051185db81be0a796dce16a4cbc8
    digest: b8aa6fd38325e6ca9c3a1ac33b57a38a0e6bb1a62ad2a76ff1cf23a8b17b2a4d
    present: true
damaged:
  description: Damaged files of an existing set, each with the problem.
  returned: always
  type: list
  elements: str
  sample: ["wheels/numpy-2.3.4-cp311-cp311-manylinux_2_28_x86_64.whl (changed)"]
missing:
  description: Packages without a suitable wheel, or files that cannot be downloaded.
  returned: when the set cannot be made because of them
  type: list
  elements: str
packages:
  description: The record of the set, C(packages.json) in its folder.
  returned: when the set exists
  type: dict
  contains:
    packages:
      description: Version of each package by name.
      type: dict
    platform:
      description: Machine and glibc of the target hosts.
      type: dict
    python:
      description: Version of Python of the target hosts, and the interpreter that was queried on the host.
      type: dict
    files:
      description: Every file with its size and sha256.
      type: dict
"""

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import REQUEST, UV_CACHE
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import ensure_packages
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.background import run_or_follow


def main() -> None:
    run_module(
        {**UV_CACHE, **REQUEST},
        lambda module: run_or_follow("makes the set", ensure_packages, module.params, check_mode=module.check_mode),
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
