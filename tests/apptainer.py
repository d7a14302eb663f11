# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real apptainer: Debian unstable's packages, unpacked beside this system and run in place with their own libraries.

Only where this machine's own apt reaches a Debian archive; a test skips with the reason where it does not.
"""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

from tests.repository import ROOT
from tests.unpacked import Unavailable, run

CACHE = ROOT / ".cache" / "apptainer"
#: apptainer with what it loads, what it runs, and what sets the loader of an unpacked program.
PACKAGES = (
    "apptainer", "libc6", "libseccomp2", "libsqlite3-0", "squashfs-tools", "squashfuse", "libfuse3-4", "zlib1g",
    "liblzo2-2", "liblz4-1", "liblzma5", "libzstd1", "patchelf", "libstdc++6", "libgcc-s1",
)  # fmt: skip
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PROGRAMS = (
    "usr/bin/apptainer", f"{LIBRARIES}/apptainer/bin/starter", "usr/bin/mksquashfs", "usr/bin/unsquashfs",
    "usr/bin/squashfuse_ll",
)  # fmt: skip


def _unstable() -> str:
    """This machine's own source of Debian packages, for unstable."""
    texts = [path.read_text() for path in sorted(Path("/etc/apt").glob("sources.list*/*.sources"))]
    for stanza in re.split(r"\n\s*\n", "\n\n".join(texts)):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
        debian = "deb" in fields.get("Types", "").split() and "debian" in fields.get("Signed-By", "")
        if debian and "security" not in fields.get("Suites", ""):
            return re.sub(r"^Suites:.*$", "Suites: sid", stanza, flags=re.MULTILINE) + "\n"
    raise Unavailable("apt has no source of a Debian archive (deb822) here")


def _packages() -> list[Path]:
    """The packages' files, downloaded once for this checkout."""
    packages = sorted(CACHE.glob("*.deb"))
    if len(packages) == len(PACKAGES):
        return packages
    if platform.machine() != "x86_64" or not shutil.which("apt-get"):
        raise Unavailable("this is not a Debian-like system on x86-64")
    shutil.rmtree(CACHE, ignore_errors=True)
    for folder in ("lists/partial", "archives/partial", "parts"):
        (CACHE / folder).mkdir(parents=True)
    (CACHE / "parts" / "unstable.sources").write_text(_unstable())
    (CACHE / "status").touch()
    settings = {
        "Dir::State::Lists": "lists",
        "Dir::Cache": ".",
        "Dir::Etc::SourceParts": "parts",
        "Dir::State::status": "status",
    }
    lines = [f'{name} "{CACHE / path}";' for name, path in settings.items()]
    (CACHE / "apt.conf").write_text(
        "\n".join([*lines, 'Dir::Etc::SourceList "/dev/null";', 'APT::Sandbox::User "root";'])
    )
    environment = {"APT_CONFIG": str(CACHE / "apt.conf")}
    run(["apt-get", "update"], environment)
    run(["apt-get", "download", *PACKAGES], environment, CACHE)
    return sorted(CACHE.glob("*.deb"))


def install(folder: Path, inside: str) -> str:
    """apptainer below `folder`, which the programs that run it see as `inside`; the folder for their PATH.

    Raises `Unavailable`.
    """
    for package in _packages():
        run(["dpkg-deb", "--extract", str(package), str(folder)])
    libraries = folder / LIBRARIES
    loader = libraries / "ld-linux-x86-64.so.2"
    shutil.copy2(folder / "usr/bin/patchelf", folder / "patchelf")
    for program in PROGRAMS:
        seen = f"{inside}/{LIBRARIES}"
        words = [
            "--set-interpreter",
            f"{seen}/{loader.name}",
            "--force-rpath",
            "--set-rpath",
            seen,
            str(folder / program),
        ]
        run([str(loader), "--library-path", str(libraries), str(folder / "patchelf"), *words])
    # It takes its settings from beside itself, and is of two minds about where that is.
    shutil.copytree(folder / "etc", folder / "usr" / "etc")
    (folder / "usr" / "lib" / "etc").symlink_to("../etc")
    for place in ("usr/lib", "usr"):
        (folder / place / "var/lib/apptainer/mnt/session").mkdir(parents=True)
    return f"{inside}/usr/bin"
