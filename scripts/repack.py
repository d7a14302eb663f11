# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack a tarball of ansible-galaxy again: no link of a page leads nowhere, and the same files give the same bytes.

    repack.py TARBALL RESULT

Time stamps are SOURCE_DATE_EPOCH, the order is that of the names.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from typing import Any

from addresses import with_addresses

MANIFEST, FILES = "MANIFEST.json", "FILES.json"
#: Markdown, and the list of all pages, which is Markdown as well.
PAGES = (".md", "llms.txt")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def document(value: Any) -> bytes:
    return json.dumps(value, indent=True).encode()


def contents(tarball: str) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Name -> member and content, empty for a folder, in the order of the names."""
    with tarfile.open(tarball) as archive:
        held = {member.name: (member, read(archive, member)) for member in archive}
    return dict(sorted(held.items()))


def read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member) if member.isfile() else None
    return stream.read() if stream else b""


def linked(held: dict[str, tuple[tarfile.TarInfo, bytes]]) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """The same with pages whose links lead somewhere, and with the checksums of what is now there."""
    new = {
        name: (member, with_addresses(name, content.decode(), held).encode() if name.endswith(PAGES) else content)
        for name, (member, content) in held.items()
    }
    files = json.loads(held[FILES][1])
    files["files"].sort(key=lambda entry: entry["name"])
    for entry in files["files"]:
        if entry["ftype"] == "file":
            entry["chksum_sha256"] = digest(new[entry["name"]][1])
    new[FILES] = (held[FILES][0], document(files))
    manifest = json.loads(held[MANIFEST][1])
    manifest["file_manifest_file"]["chksum_sha256"] = digest(new[FILES][1])
    new[MANIFEST] = (held[MANIFEST][0], document(manifest))
    return new


def pack(held: dict[str, tuple[tarfile.TarInfo, bytes]], result: str, moment: int) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in held.values():
            member.size, member.mtime, member.pax_headers = len(content), moment, {}
            archive.addfile(member, io.BytesIO(content))
    with open(result, "wb") as target:
        target.write(gzip.compress(stream.getvalue(), mtime=moment))


if __name__ == "__main__":
    pack(linked(contents(sys.argv[1])), sys.argv[2], int(os.environ["SOURCE_DATE_EPOCH"]))
