# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs that several modules share, and those of the producers (code, data, models, images, packages,
environments).

Each spec is defined once, for the module on the host and for its action plugin on the controller. A module also takes
`x_request`, the data that its action plugin sends.
"""

from __future__ import annotations

from typing import Any

Options = dict[str, dict[str, Any]]
REQUEST: Options = {"x_request": {"type": "dict"}}

TRUSTED_STORES: Options = {
    "stores": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "owners": {"type": "list", "elements": "str", "required": True},
        },
    },
}
STORES: Options = {
    **TRUSTED_STORES,
    "store_group_writable": {"type": "bool", "default": False},
}

ROOTS: Options = {"code_roots": {"type": "list", "elements": "str"}}

CODE_SNAPSHOT: Options = {
    # options of code_snapshot: written by make reference
    "src": {"type": "str", "default": "."},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "dirty": {"type": "str", "choices": ["allow", "refuse"], "default": "allow"},
    "key": {"type": "str", "no_log": False},
    "store_root": {"type": "str", "default": "~/.rankzero/store"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    # end of options
    **STORES,
    **ROOTS,
}
DATASET: Options = {
    # options of dataset: written by make reference
    "name": {"type": "str", "required": True},
    "source": {
        "type": "str",
        "choices": ["controller", "cluster", "http", "rsync", "hub", "object"],
        "default": "controller",
    },
    "src": {"type": "str"},
    "files": {"type": "list", "elements": "str", "default": []},
    "sha256": {"type": "str"},
    "checksums": {"type": "str"},
    "revision": {"type": "str"},
    "include": {"type": "list", "elements": "str", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "store_root": {"type": "str", "default": "~/.rankzero/store"},
    "dest": {"type": "str"},
    "dest_kind": {"type": "str", "choices": ["link", "copy"], "default": "link"},
    "pack": {"type": "bool", "default": False},
    "compression": {"type": "str", "choices": ["zstd", "lz4"], "default": "zstd"},
    "parallel": {"type": "int", "default": 4},
    "python": {"type": "str"},
    "token_file": {"type": "str", "no_log": False},
    "verify": {"type": "bool", "default": False},
    "update": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    # end of options
    **STORES,
    **ROOTS,
}
HUB_CACHE: Options = {
    # options of hub_cache: written by make reference
    "repo": {"type": "str", "required": True},
    "repo_type": {"type": "str", "choices": ["model", "dataset", "space"], "default": "model"},
    "revision": {"type": "str", "default": "main"},
    "path": {"type": "path", "default": "~/.cache/huggingface"},
    "src": {"type": "str"},
    "remote_src": {"type": "bool", "default": False},
    "include": {"type": "list", "elements": "str", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "require": {"type": "list", "elements": "str", "default": []},
    "download": {"type": "str", "choices": ["head", "controller"], "default": "head"},
    "python": {"type": "str"},
    "token_file": {"type": "str", "no_log": False},
    "verify": {"type": "bool", "default": False},
    "update": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    # end of options
    **TRUSTED_STORES,
    **ROOTS,
}
IMAGE: Options = {
    # options of image: written by make reference
    "name": {"type": "str", "default": "image"},
    "containerfile": {"type": "str"},
    "context": {"type": "str"},
    "target": {"type": "str"},
    "build_args": {"type": "dict", "default": {}},
    "secrets": {"type": "dict", "default": {}, "no_log": False},
    "suite": {"type": "str"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "mirror": {"type": "str"},
    "rootfs": {"type": "str"},
    "reference": {"type": "str"},
    "squashfs": {"type": "str"},
    "env": {"type": "dict", "default": {}},
    "compression": {"type": "str", "choices": ["zstd", "lz4", "gzip"], "default": "zstd"},
    "formats": {"type": "list", "elements": "str", "choices": ["sqsh", "sif", "oci"], "default": ["sqsh"]},
    "engine": {"type": "str", "choices": ["auto", "buildah", "podman"], "default": "auto"},
    "work_dir": {"type": "str"},
    "store_root": {"type": "str", "default": "~/.rankzero/store"},
    "key": {"type": "str", "no_log": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    # end of options
    **STORES,
    **ROOTS,
}
UV_ENVIRONMENT: Options = {
    # options of uv_environment: written by make reference
    "project": {"type": "str", "default": "."},
    "extras": {"type": "list", "elements": "str", "default": []},
    "python": {"type": "str"},
    "torch": {"type": "str", "default": "auto"},
    "mode": {"type": "str", "choices": ["venv", "sealed", "cache", "wheelhouse", "conda"], "default": "venv"},
    "compression": {"type": "str", "choices": ["zstd", "lz4"], "default": "zstd"},
    "interpreter": {"type": "str", "choices": ["auto", "managed", "copied", "node"], "default": "auto"},
    "platform": {"type": "str"},
    "file": {"type": "str"},
    "requirements": {"type": "str"},
    "source": {"type": "str"},
    "store_root": {"type": "str", "default": "~/.rankzero/store"},
    "download": {"type": "str", "choices": ["auto", "head", "controller"], "default": "auto"},
    "build_on_controller": {"type": "bool", "default": False},
    "uv": {"type": "str"},
    "key": {"type": "str", "no_log": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    # end of options
    **STORES,
    **ROOTS,
}

# The layers of a job spec, as the action plugins read them.
JOB_ARGUMENTS: Options = {
    "job": {"type": "raw", "required": True},
    "cluster": {"type": "dict", "default": {}},
    "overrides": {"type": "dict", "default": {}},
}
# What an action that launches does if something that the launch needs is not on the cluster.
MISSING_CHOICES = ("build", "fail", "report")
MISSING: Options = {"missing": {"type": "str", "choices": list(MISSING_CHOICES), "default": "build"}}
# The desired state of the launch on the cluster.
LAUNCH_ARGUMENTS: Options = {
    **JOB_ARGUMENTS,
    **MISSING,
    "logs_dest": {"type": "path"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "relaunch": {"type": "str", "choices": ["on_failure", "always", "never"], "default": "on_failure"},
}

# The modules that launch. Their internal options carry what the controller has rendered.
JOB: Options = {
    **LAUNCH_ARGUMENTS,
    "explain": {"type": "bool", "default": False},
    "planned": {"type": "str", "default": ""},
    "first": {"type": "dict", "default": {}},
    **REQUEST,
    "x_runtime": {"type": "dict"},
    "x_code": {"type": "str"},
}
JOB_PIPELINE: Options = {**LAUNCH_ARGUMENTS, **REQUEST, "x_runtime": {"type": "dict"}}
JOB_SWEEP: Options = {
    **LAUNCH_ARGUMENTS,
    "elements": {"type": "list", "elements": "str", "default": []},
    **REQUEST,
    "x_runtime": {"type": "dict"},
    "x_secrets_file": {"type": "path", "no_log": False},
}
JOB_SHELL: Options = {
    **JOB_ARGUMENTS,
    **MISSING,
    "role": {"type": "str"},
    "serve": {"type": "str", "choices": ["jupyter", "code"]},
    "session": {"type": "str", "default": "shell"},
    "open": {"type": "bool", "default": False},
    **REQUEST,
}
JOB_SCRIPT: Options = {
    **JOB_ARGUMENTS,
    "generation": {"type": "int", "default": 1},
    "path": {"type": "path"},
    "x_script": {"type": "str"},
}

COURSE_CLASS: Options = {
    # options of course_class: written by make reference
    "name": {"type": "str", "required": True},
    "students": {"type": "list", "elements": "str", "default": []},
    "root": {"type": "path", "required": True},
    "mode": {"type": "str", "choices": ["projects", "accounts"], "default": "projects"},
    "store": {"type": "path", "default": ""},
    "group": {"type": "str", "default": ""},
    "accounting": {"type": "str", "choices": ["auto", "required", "off"], "default": "auto"},
    "parent": {"type": "str", "default": "root"},
    "limits": {
        "type": "dict",
        "default": {},
        "options": {
            "nodes": {"type": "int"},
            "cpus": {"type": "int"},
            "gpus": {"type": "int"},
            "jobs": {"type": "int"},
            "time": {"type": "str"},
            "cpu_minutes": {"type": "int"},
        },
    },
    "class_limits": {
        "type": "dict",
        "default": {},
        "options": {
            "nodes": {"type": "int"},
            "cpus": {"type": "int"},
            "gpus": {"type": "int"},
            "jobs": {"type": "int"},
            "cpu_minutes": {"type": "int"},
        },
    },
    "exercise": {"type": "str", "default": ""},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    # end of options
}
