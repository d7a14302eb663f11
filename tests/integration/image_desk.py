# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller and a host in one folder, on which tests build images with the module `image`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests import images
from tests.repository import BIN, ROOT

COMPILE = 'python3 -m compileall -q "$(python3 -c "import json, os; print(os.path.dirname(json.__file__))")"'


class Desk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.context = folder / "images"
        self.context.mkdir(parents=True)
        (self.context / "hello.txt").write_text("hello\n")
        (folder / "token").write_text("s3cret-token-value\n")
        images.root_folder(folder / "root")
        self.write('RUN token=$(cat /run/secrets/token); echo "$WHO ${#token}" > /made', "RUN " + COMPILE)

    def write(self, *lines: str) -> None:
        run = [line.replace("RUN ", "RUN --mount=type=secret,id=token ") for line in lines]
        text = ["FROM base", "ARG WHO=nobody", "ENV GREETING=hello", "COPY hello.txt /hello.txt", *run, ""]
        (self.context / "Containerfile").write_text("\n".join(text))

    def options(self, **more: Any) -> dict[str, Any]:
        return {
            "name": "tested",
            "containerfile": str(self.context),
            "rootfs": str(self.folder / "root"),
            "build_args": {"WHO": "me"},
            "secrets": {"token": str(self.folder / "token")},
            "store_root": str(self.folder / "store"),
            **more,
        }

    def image(self, *words: str, user: int = 0, **options: Any) -> tuple[int, dict[str, Any], str]:
        """(exit code, result, all that Ansible said) of one task; as an ordinary user with `user`."""
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"rankzero.slurm.image": options}]}]
        path = self.folder / f"play-{user}.yml"
        path.write_text(json.dumps(play))
        record = self.folder / f"record-{user}"
        record.unlink(missing_ok=True)
        command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", str(path), *words]
        command += ["-e", "ansible_python_interpreter=/usr/bin/python3"]
        shell = self.folder / "as-user"
        if user:
            # The range of numbers is there for this process alone.
            shell.write_text(
                f"#!/bin/bash\nexec unshare --mount --propagation=private bash -c 'mount --bind {self.folder}/range "
                f"/etc/subuid && mount --bind {self.folder}/range /etc/subgid && exec setpriv --reuid={user} "
                f'--regid={user} --clear-groups env HOME={self.folder}/home /bin/sh "$@"\' sh "$@"\n'
            )
            shell.chmod(0o755)
            (self.folder / "range").write_text("nobody:200000:65536\n")
            (self.folder / "home").mkdir(exist_ok=True)
            os.chown(self.folder / "home", user, user)
            command += ["-e", json.dumps({"ansible_shell_executable": str(shell)})]
            command += ["-e", f"ansible_remote_tmp={self.folder}/home/tmp"]
        settings = {
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests" / "cluster" / "callback_plugins"),
            "RANKZERO_TEST_RECORD": str(record),
            "ANSIBLE_PIPELINING": "1",
        }
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
        lines = record.read_text().splitlines() if record.exists() else []
        return done.returncode, json.loads(lines[-1])["result"] if lines else {}, done.stdout + done.stderr

    def read(self, image: str, path: str) -> str:
        done = subprocess.run(["unsquashfs", "-cat", image, path], capture_output=True, text=True, check=True)
        return done.stdout
