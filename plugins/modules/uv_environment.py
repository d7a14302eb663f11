#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: uv_environment
short_description: Build and verify a project's Python environment once for all ranks
version_added: 0.1.0
author: []
description:
  - Builds the environment of a C(pyproject.toml) with uv, in C(store_root/environments/KEY) on the cluster. The key is
    computed from the recipe (the text of C(pyproject.toml) and C(uv.lock), O(extras), O(python), O(torch)). It is known
    before the build, and the same recipe is built only once.
  - The environment contains the project's dependencies, but not the project itself. The program comes with the code
    snapshot.
  - Packages are resolved into a lock and installed with their hashes. Every file is checked against its package's
    RECORD and byte-compiled, and the requested packages are imported once. Then the folder is made read-only and gets
    its name with one rename, so an interrupted build never leaves an incomplete environment.
  - Locks are kept in C(store_root/locks), by recipe, Python, platform and package sources. A project with a C(uv.lock)
    is installed from that file.
  - If the host has no access to a package index (a login node without internet access), the controller resolves and
    downloads the packages for the host's Python and platform. Wheels that the host finds with the same content at the
    controller's paths are used from there; the others are sent.
extends_documentation_fragment:
  - rankzero.slurm.store.trusted
  - rankzero.slurm.store.group_writable
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Returns the same RV(ref), with C(present=false) if the environment would have to be built.
  diff_mode:
    support: full
    details:
      - Lists the packages of a new environment.
options:
  project:
    description:
      - Folder with C(pyproject.toml), and C(uv.lock) if the project has one, on the controller.
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
      - Version of Python, such as V(3.11). Default is the first that C(requires-python) allows, starting with the
        system's own. The interpreter must be at the same path on every node.
    type: str
  torch:
    description:
      - The build of torch. V(auto) takes a suitable torch wheel from a directory in pip's C(find-links) setting, or
        else from the index. Any other value is uv's name of a build, such as V(cpu), V(cu128) or V(rocm6.4). It is
        taken from such a directory as well, or else from the index that uv has for it.
      - Has no effect with a C(uv.lock), which determines the build.
    type: str
    default: auto
  mode:
    description:
      - The form of the environment in the store. V(venv) is a folder, C(environments/KEY), with its interpreter as
        C(bin/python).
      - V(sealed) is one read-only file in that folder, C(environment.sqsh), which a job mounts on each of its nodes. A
        node then opens one file on shared storage instead of thousands per rank.
      - V(cache) and V(wheelhouse) are sets of packages, C(packages/KEY), from which each node of a job builds the
        environment on its own disk, without a network. V(wheelhouse) is a folder of wheels, which uv and pip can use.
        V(cache) is uv's own cache, packed into one file, from which C(uv sync --offline --frozen) installs; an index
        must serve the packages, and wheels in a directory of this host are added to it. Both include uv itself.
        All packages without a wheel for the platform, and all files that cannot be downloaded, are reported at once.
        The finished set is test-installed offline. Each time, every file is read and compared with C(packages.json)
        in the set, and a set with damaged files is made again.
      - V(conda) is a conda environment, C(environments/KEY), made from O(file) with micromamba, mamba or conda
        (from C(PATH), C(MAMBA_EXE) or C(CONDA_EXE)). Every file is compared with its package's record. An archive needs
        no such program.
    type: str
    choices: [venv, sealed, cache, wheelhouse, conda]
    default: venv
  compression:
    description:
      - Compression of a sealed environment. V(lz4) is larger and faster to read.
    type: str
    choices: [zstd, lz4]
    default: zstd
  interpreter:
    description:
      - The Python of a sealed environment. V(copied) puts the interpreter of this host and its standard library into
        the file. V(managed) does so with a Python that uv manages, and downloads it if necessary. V(node) includes
        none; every node must have the same one at the same path, which the job checks.
      - V(auto) uses a managed one that uv has already, or else a copy, or else the nodes' own if a copy would not run.
    type: str
    choices: [auto, managed, copied, node]
    default: auto
  platform:
    description:
      - With O(mode=cache) or O(mode=wheelhouse), machine and C library of the nodes, such as V(x86_64-manylinux_2_28)
        for glibc 2.28 and newer. O(python) is required with it. Default is those of the host of the task.
    type: str
  file:
    description:
      - With O(mode=conda), the source of the environment, in the folder O(project). This is an C(environment.yml), an
        explicit lock with a hash for every package (C(conda list --explicit --md5)), or an archive made with
        conda-pack. An archive that the host does not find at the controller's path is sent.
    type: str
  requirements:
    description:
      - A C(requirements.txt) of pip in the folder O(project), instead of its C(pyproject.toml). Packages, markers,
        hashes, C(-r) and C(-c) are supported. Package sources are those of the settings of pip and uv. Not for
        O(mode=conda).
    type: str
  source:
    description:
      - With O(mode=cache) or O(mode=wheelhouse), path on the host to packages that were copied there, in place of a
        network. This is the folder of a set, a tar file of one, or a folder of wheels for a project with a C(uv.lock).
        Every file is compared with C(packages.json), or with the lock. If one differs, the module fails and names it.
    type: str
  store_root:
    description:
      - Storage that all nodes of the cluster share and that may be purged. V(~) and variables are expanded on the
        cluster.
    type: str
    default: ~/.rankzero/store
  download:
    description:
      - Where packages are resolved and downloaded. V(head) is the host of the task, with the settings that pip and uv
        have there. V(controller) is the machine that runs Ansible, with the settings there. V(auto) is the host if it
        has access to its package sources, or else the controller.
    type: str
    choices: [auto, head, controller]
    default: auto
  build_on_controller:
    description:
      - As C(launch_cluster.build_on_controller). Whether the machine that runs Ansible may build packages that have no
        wheel, if the host cannot. These are source archives, git sources, and folders of the project. A build runs code
        of the package as the user who runs Ansible.
    type: bool
    default: false
  uv:
    description:
      - Path of uv on the host. By default uv is searched on the PATH, in C(~/.local/bin), at the controller's path, and
        in the store. If there is none, it is downloaded into the store once.
    type: str
  key:
    description:
      - With O(state=absent), the key of the environment to remove. The folder on the controller is not read then.
    type: str
  state:
    description:
      - V(present) builds the environment. V(absent) removes it, or the one named by O(key).
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
notes:
  - uv needs at least version 0.7.0.
  - Packages that have no wheel are built from source on the host. If the controller downloads, every package needs a
    wheel, unless O(build_on_controller) lets it build them.
  - Folders that C(uv.lock) names (path sources, members of a workspace) or O(requirements) names (C(-e .)) are sent,
    and installed as copies. Their files are in the key.
  - Jobs that use an environment lose it when it is removed.
seealso:
  - module: rankzero.slurm.store_prune
  - module: rankzero.slurm.code_snapshot
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Build the project's environment, with torch for CPUs
  rankzero.slurm.uv_environment:
    project: "{{ playbook_dir }}"
    torch: cpu
    store_root: /scratch/ml/rankzero
  register: python

- name: Use it
  ansible.builtin.command:
    argv: ["{{ python.ref.path }}/bin/python", -c, import torch]
  changed_when: false

- name: Build it for a login node without internet access
  rankzero.slurm.uv_environment:
    project: "{{ playbook_dir }}"
    extras: [cuda]
    python: "3.11"
    torch: cu128
    download: controller

- name: On a laptop, make a set of packages for the cluster's nodes
  rankzero.slurm.uv_environment:
    project: "{{ playbook_dir }}"
    mode: wheelhouse
    python: "3.11"
    platform: x86_64-manylinux_2_28
    torch: cpu
    store_root: "{{ playbook_dir }}/bundle"
  delegate_to: localhost
  register: bundle

- name: On an air-gapped cluster, import the set
  rankzero.slurm.uv_environment:
    project: "{{ playbook_dir }}"
    mode: wheelhouse
    python: "3.11"
    platform: x86_64-manylinux_2_28
    torch: cpu
    source: /media/usb/{{ bundle.ref.key }}
    store_root: /scratch/ml/rankzero
"""

RETURN = r"""
ref:
  description: Identifies the environment for other modules. The same in check mode.
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
      description: Its path on the cluster; its interpreter is C(bin/python) below.
      type: str
    digest:
      description: Digest of the packages, or of a set's wheels; null if it does not exist.
      type: str
    present:
      description: Whether it exists.
      type: bool
  sample:
    kind: environment
    key: 4b8a051185db81be0a796dce16a4cbc8
    path: /scratch/ml/rankzero/environments/4b8a051185db81be0a796dce16a4cbc8
    digest: b8aa6fd38325e6ca9c3a1ac33b57a38a0e6bb1a62ad2a76ff1cf23a8b17b2a4d
    present: true
environment:
  description: The record of the environment, C(env.json) in its folder.
  returned: when the environment exists
  type: dict
  contains:
    python:
      description: Path, version and C library of the interpreter.
      type: dict
    packages:
      description: Version of each package by name.
      type: dict
    lock:
      description: Key, package sources and sha256 of the lock, C(pylock.toml) in its folder.
      type: dict
    import_warnings:
      description: Modules that this host cannot import because it has no GPU driver, with the reason.
      type: dict
    downloaded_by:
      description: V(head) or V(controller).
      type: str
    seconds:
      description: Duration of the build in seconds.
      type: float
damaged:
  description: Damaged files of an existing set, each with the problem.
  returned: with O(mode=cache) and O(mode=wheelhouse)
  type: list
  elements: str
  sample: ["wheels/numpy-2.3.4-cp311-cp311-manylinux_2_28_x86_64.whl (changed)"]
missing:
  description: Packages without a suitable wheel, or files that cannot be downloaded.
  returned: when a set cannot be made because of them
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

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import REQUEST, UV_ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import ensure_conda
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import ensure_packages
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.package_set import KINDS
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.background import run_or_follow


def logic(module: AnsibleModule) -> dict[str, Any]:
    mode = module.params["mode"]
    ensure = ensure_packages if mode in KINDS else ensure_environment
    # With a key an environment is removed, whatever it was made of.
    if mode == "conda" and not module.params["key"]:
        ensure = ensure_conda
    return run_or_follow("builds the environment", ensure, module.params, check_mode=module.check_mode)


def main() -> None:
    run_module(
        {**UV_ENVIRONMENT, **REQUEST},
        logic,
        publishes=True,
        supports_check_mode=True,
    )


if __name__ == "__main__":
    main()
