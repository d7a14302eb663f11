#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: uv_environment
short_description: Build a project's Python environment once, verified, for all ranks
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Builds the environment that a C(pyproject.toml) asks for, with uv, as C(store_root/environments/KEY) on the cluster.
    The key is that of the recipe (the text of C(pyproject.toml) and C(uv.lock), O(extras), O(python), O(torch)), so it
    is known before anything is built, and the same recipe is built once.
  - The environment holds the project's dependencies and not the project itself. The program comes with the code
    snapshot.
  - Packages are resolved into a lock, installed with their hashes, every file is checked against its package's RECORD,
    all is byte-compiled, and what was asked for is imported once. Then the folder gets its name, read-only, by one
    rename. A killed build leaves nothing that a later one would take for an environment.
  - Locks that are made here are kept in C(store_root/locks), by recipe, Python, platform and package sources. A project
    with a C(uv.lock) is installed from that.
  - Where the host reaches no package source (a login node without a route out), the packages are resolved for its
    Python and platform and downloaded on the controller. Wheels that the host sees at the controller's paths, checked
    by content, are used where they are; the others are sent.
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
      - Returns the same RV(ref), with C(present=false) where the environment would have to be built.
  diff_mode:
    support: full
    details:
      - Lists the packages of an environment that was built.
options:
  project:
    description:
      - Folder with C(pyproject.toml), and C(uv.lock) where the project keeps one, on the controller.
    type: str
    default: .
  extras:
    description:
      - Names of optional dependencies to install.
    type: list
    elements: str
    default: []
  python:
    description:
      - Version of Python, such as V(3.11). Without it the first that C(requires-python) allows, the system's own first.
        The interpreter must be at the same path on every node.
    type: str
  torch:
    description:
      - Which build of torch. V(auto) takes a torch wheel that fits from a directory that pip's C(find-links) setting
        names, and otherwise what the index gives. Any other value is a build by uv's name, such as V(cpu), V(cu128) or
        V(rocm6.4). It comes from such a directory too where one holds it, and otherwise from the index that uv knows
        for it.
      - Has no effect with a C(uv.lock), which decides alone.
    type: str
    default: auto
  mode:
    description:
      - How the environment lies in the store. V(venv) is a folder, C(environments/KEY), with its interpreter as
        C(bin/python).
      - V(sealed) is one read-only file in that folder, C(environment.sqsh), which a job mounts on each of its nodes. A
        node then opens one file of the shared storage, where every rank would open thousands.
      - V(cache) and V(wheelhouse) are sets of packages, C(packages/KEY), from which each node of a job makes the
        environment on its own disk. This is M(rankzero.slurm.uv_cache) with that kind, and returns the same.
      - V(conda) is a conda environment, C(environments/KEY), made from O(file) by micromamba, mamba or conda, whichever
        the host has (C(PATH), C(MAMBA_EXE), C(CONDA_EXE)). Every file is compared with its package's record. From an
        archive no such program is needed.
    type: str
    choices: [venv, sealed, cache, wheelhouse, conda]
    default: venv
  compression:
    description:
      - How a sealed environment is compressed. V(lz4) is read faster and is larger.
    type: str
    choices: [zstd, lz4]
    default: zstd
  interpreter:
    description:
      - Where the Python of a sealed environment comes from. V(copied) puts the interpreter of this host and its
        standard library into the file. V(managed) does so with a Python that uv manages, fetched where uv has none
        that fits. V(node) puts none in; every node has to have the same one at the same place, which the job checks.
      - V(auto) takes a managed one that uv has already, else a copy, else the nodes' own where a copy would not run.
    type: str
    choices: [auto, managed, copied, node]
    default: auto
  platform:
    description:
      - With O(mode=cache) or O(mode=wheelhouse), machine and C library of the nodes, as for M(rankzero.slurm.uv_cache).
    type: str
  file:
    description:
      - With O(mode=conda), what the environment is made from, in the folder O(project). That is an C(environment.yml),
        an explicit lock in which every package has its hash (C(conda list --explicit --md5)), or an archive that
        conda-pack has made. An archive that the host does not see at the controller's path is sent.
    type: str
  source:
    description:
      - With O(mode=cache) or O(mode=wheelhouse), a set that was carried to the host, as for M(rankzero.slurm.uv_cache).
    type: str
  store_root:
    description:
      - Storage that is shared by all nodes of the cluster and may be purged. V(~) and variables are the cluster's.
    type: str
    default: ~/.rankzero/store
  download:
    description:
      - Where packages are resolved and downloaded. V(head) is the host of the task, with the settings that pip and uv
        have there. V(controller) is the machine that runs Ansible, with the settings there. V(auto) is the host if it
        reaches its package sources, else the controller.
    type: str
    choices: [auto, head, controller]
    default: auto
  uv:
    description:
      - Path of uv on the host. Without it uv is looked for on the PATH, in C(~/.local/bin), at the controller's path,
        and in the store; where there is none it is fetched into the store once.
    type: str
  key:
    description:
      - With O(state=absent), the key of the environment to remove. The controller's folder is not looked at then.
    type: str
  state:
    description:
      - V(present) builds the environment, V(absent) removes it, or the one that O(key) names.
    type: str
    choices: [present, absent]
    default: present
  _request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - uv needs at least version 0.7.0.
  - Packages that have no wheel are built from source on the host. Where the controller downloads, every package needs
    a wheel.
  - Jobs that use an environment lose it when it is removed.
seealso:
  - module: rankzero.slurm.uv_cache
  - module: rankzero.slurm.code_snapshot
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Build what the project needs, with torch for CPUs
  rankzero.slurm.uv_environment:
    project: "{{ playbook_dir }}"
    torch: cpu
    store_root: /scratch/ml/rankzero
  register: python

- name: Run it
  ansible.builtin.command:
    argv: ["{{ python.ref.path }}/bin/python", -c, import torch]
  changed_when: false

- name: Build it on a login node that has no route out
  rankzero.slurm.uv_environment:
    project: "{{ playbook_dir }}"
    extras: [cuda]
    python: "3.11"
    torch: cu128
    download: controller
"""

RETURN = r"""
ref:
  description: Names the environment for other modules. The same under check mode.
  returned: always
  type: dict
  contains:
    kind:
      description: V(environment); V(packages) for O(mode=cache) and O(mode=wheelhouse).
      type: str
    key:
      description: Key of the recipe.
      type: str
    path:
      description: Where it lies on the cluster; its interpreter is C(bin/python) below.
      type: str
    digest:
      description: Digest of what is installed; null where it is not there.
      type: str
    present:
      description: Whether it is there.
      type: bool
  sample:
    kind: environment
    key: 4b8a051185db81be0a796dce16a4cbc8
    path: /scratch/ml/rankzero/environments/4b8a051185db81be0a796dce16a4cbc8
    digest: b8aa6fd38325e6ca9c3a1ac33b57a38a0e6bb1a62ad2a76ff1cf23a8b17b2a4d
    present: true
environment:
  description: The record that lies in the environment as C(env.json).
  returned: when the environment is there
  type: dict
  contains:
    python:
      description: Path, version and C library of the interpreter.
      type: dict
    packages:
      description: Version of each package by name.
      type: dict
    lock:
      description: Key, package sources and sha256 of the lock, which lies in the environment as C(pylock.toml).
      type: dict
    import_warnings:
      description: Modules that this host cannot import because it has no GPU driver, with the reason.
      type: dict
    downloaded_by:
      description: V(head) or V(controller).
      type: str
    seconds:
      description: How long the build took.
      type: float
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import REQUEST, UV_ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import ensure_conda
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment


def logic(module: AnsibleModule) -> dict[str, Any]:
    ensure = ensure_conda if module.params["mode"] == "conda" else ensure_environment
    return ensure(module.params, module.params["_request"] or {}, check_mode=module.check_mode)


def main() -> None:
    run_module(
        {**UV_ENVIRONMENT, **REQUEST},
        logic,
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
