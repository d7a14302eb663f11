#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: uv_cache
short_description: Make and verify a set of packages for hosts without a network
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Gathers all that a C(pyproject.toml) asks for, for a named platform and Python, as C(store_root/packages/KEY). It is
    a wheelhouse (the wheels with their hashes) or a cache of uv, and holds uv itself. Hosts that reach no package
    source install from it. The key is that of the recipe, known before anything is fetched.
  - What is missing is said before anything is published or sent, all of it at once. That is packages without a wheel
    for the platform, files that cannot be had, and content that differs from the lock. The finished set is installed
    once from itself, offline and with hashes, and every file is checked against its package's RECORD.
  - C(packages.json) in the set holds the sha256 of every file. A set that is there already is read and compared. A file
    that was edited, removed or added is named, inside a cache by its own name, and the set is made anew.
  - The set gets its name by one rename. A killed builder leaves nothing that could be taken for one. Of two builders
    the second waits and finds it made.
  - Where the host reaches no package source the set is made on the controller for that host, and sent. Where the
    controller has none either, carry a set there and name it with O(source).
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
      - Returns the same RV(ref), with C(present=false) where the set would have to be made. Packages are not resolved
        then.
  diff_mode:
    support: full
    details:
      - Lists what was damaged before, and the packages of a set that was made.
options:
  project:
    description:
      - Folder with C(pyproject.toml), and C(uv.lock) where the project keeps one, on the controller.
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
      - Version of Python on the hosts that will install, such as V(3.11). Required with O(platform). Without it, the
        one that M(rankzero.slurm.uv_environment) would take on this host.
    type: str
  platform:
    description:
      - Machine and C library of the hosts that will install, such as V(x86_64-manylinux_2_28) for glibc 2.28 and newer.
        Without it, those of the host of the task.
    type: str
  torch:
    description:
      - Which build of torch, as for M(rankzero.slurm.uv_environment).
    type: str
    default: auto
  kind:
    description:
      - V(wheelhouse) is a folder of wheels, which uv and pip can use.
      - V(cache) is uv's own cache, packed into one file, from which C(uv sync --offline --frozen) installs. An index
        must serve the packages. Wheels that lie in a directory of this host travel beside it.
    type: str
    choices: [cache, wheelhouse]
    default: wheelhouse
  source:
    description:
      - Path on the host of what was carried there, in place of any network. That is the folder of a set, a tar file of
        one, or a folder of wheels for a project with a C(uv.lock). Every file is compared with C(packages.json), or
        with the lock; one that differs is refused by name.
    type: str
  verify:
    description:
      - Read every file of a set that is there, and compare. With V(false) only its presence counts.
    type: bool
    default: true
  store_root:
    description:
      - Storage that is shared by all nodes of the cluster and may be purged. V(~) and variables are the host's.
    type: str
    default: ~/.rankzero/store
  download:
    description:
      - Where packages are resolved and downloaded, as for M(rankzero.slurm.uv_environment).
    type: str
    choices: [auto, head, controller]
    default: auto
  uv:
    description:
      - Path of uv on the host. Without it uv is looked for, as for M(rankzero.slurm.uv_environment).
    type: str
  key:
    description:
      - With O(state=absent), the key of the set to remove. The controller's folder is not looked at then.
    type: str
  state:
    description:
      - V(present) makes the set and verifies it, V(absent) removes it, or the one that O(key) names.
    type: str
    choices: [present, absent]
    default: present
  _request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - Every package needs a wheel that fits the platform. What exists as source only is named; build a wheel of it into a
    directory that pip's C(find-links) names.
  - The set holds the project's dependencies and not the project itself.
seealso:
  - module: rankzero.slurm.uv_environment
  - module: rankzero.slurm.store_prune
"""

EXAMPLES = r"""
- name: On a laptop, make what the cluster's nodes need
  rankzero.slurm.uv_cache:
    project: "{{ playbook_dir }}"
    python: "3.11"
    platform: x86_64-manylinux_2_28
    torch: cpu
    store_root: "{{ playbook_dir }}/bundle"
  delegate_to: localhost
  register: bundle

- name: On an air-gapped cluster, take what was carried in
  rankzero.slurm.uv_cache:
    project: "{{ playbook_dir }}"
    python: "3.11"
    platform: x86_64-manylinux_2_28
    torch: cpu
    source: /media/usb/{{ bundle.ref.key }}
    store_root: /scratch/ml/rankzero

- name: Fill uv's cache for offline nodes on a login node that has a network
  rankzero.slurm.uv_cache:
    project: "{{ playbook_dir }}"
    kind: cache
    store_root: /scratch/ml/rankzero
"""

RETURN = r"""
ref:
  description: Names the set for other modules. The same under check mode.
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
      description: Where it lies on the host.
      type: str
    digest:
      description: Digest of names, versions and hashes of all wheels; null where it is not there.
      type: str
    present:
      description: Whether it is there.
      type: bool
  sample:
    kind: packages
    key: 4b8a051185db81be0a796dce16a4cbc8
    path: /scratch/ml/rankzero/packages/4b8a051185db81be0a796dce16a4cbc8
    digest: b8aa6fd38325e6ca9c3a1ac33b57a38a0e6bb1a62ad2a76ff1cf23a8b17b2a4d
    present: true
damaged:
  description: Files of a set that was there and not what it had been, each with what is wrong.
  returned: always
  type: list
  elements: str
  sample: ["wheels/numpy-2.3.4-cp311-cp311-manylinux_2_28_x86_64.whl (changed)"]
missing:
  description: Packages without a wheel that fits, or files that cannot be had.
  returned: when the set cannot be made because of them
  type: list
  elements: str
packages:
  description: The record that lies in the set as C(packages.json).
  returned: when the set is there
  type: dict
  contains:
    packages:
      description: Version of each package by name.
      type: dict
    platform:
      description: Machine and glibc that it is for.
      type: dict
    python:
      description: Version of Python that it is for, and the interpreter of the host that was asked.
      type: dict
    files:
      description: Every file with its size and sha256.
      type: dict
"""

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import REQUEST, UV_CACHE
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import ensure_packages


def main() -> None:
    run_module(
        {**UV_CACHE, **REQUEST},
        lambda module: ensure_packages(module.params, module.params["_request"] or {}, check_mode=module.check_mode),
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
