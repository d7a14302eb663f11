# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provoke failures on a lab cluster and keep their logs with labels.

usage: python -m benchmarks.diagnosis.provoke --python ENVIRONMENT/bin/python --out FOLDER [--only NAME ...] [--store]

The environment needs torch, transformers and safetensors, and must be outside /tmp, which a lab of profile site hides.
--old-pandas is a folder with a pandas built for numpy 1, --apptainer one with an unpacked apptainer. --store copies the
contents of OUT to the tests (tests/diagnosis/recorded). It takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import lines
from benchmarks.diagnosis.provoke import (
    cases_files,
    cases_healthy,
    cases_packages,
    cases_ranks,
    cases_scheduler,
    cases_second,
    cases_third,
)
from benchmarks.diagnosis.provoke.case import HEALTHY, Case
from benchmarks.diagnosis.provoke.ground import Ground, scrubbed, shortened
from benchmarks.diagnosis.provoke.kept import FOLDER, store

CASES = (
    *cases_scheduler.CASES, *cases_packages.CASES, *cases_ranks.CASES, *cases_files.CASES, *cases_healthy.CASES,
    *cases_second.CASES, *cases_third.CASES,
)  # fmt: skip


#: Source lines of a traceback: they quote the code and are not the error itself.
_FRAME = re.compile(r"    \S|  File ")


def label(case: Case, logs: dict[str, str]) -> dict[str, Any] | None:
    """Find the root line with the case's own expression. None if the failure did not appear as intended."""
    document = {"id": case.name, "family": case.family, "also": list(case.also), "root": None, "alike": []}
    if case.faked:
        document["faked"] = case.faked
    if case.family == HEALTHY:
        return document
    root, alike = re.compile(case.root), re.compile(case.alike or case.root)
    for name, text in logs.items():
        for number, line in enumerate(text.split("\n"), 1):
            place = f"{name}:{number}"
            if _FRAME.match(lines.parse_line(number, line.encode()).text):
                continue
            if document["root"] is None and root.search(line):
                document["root"] = place
            elif root.search(line) or alike.search(line):
                document["alike"].append(place)  # type: ignore[attr-defined]
    return document if document["root"] else None


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="provoke", description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--old-pandas", default="")
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--apptainer", default="")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--parallel", type=int, default=3)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [case for case in CASES if not options.only or case.name in options.only]
    extra = tuple(
        place
        for place in (options.old_pandas, str(Path(options.uv).parent), options.apptainer)
        if place.startswith("/")
    )
    for site in (False, True):
        some = [case for case in wanted if case.site is site]
        if not some:
            continue
        name = "provoke-site" if site else "provoke"
        with Ground(name, options.python, site=site, extra=extra) as ground:

            def provoked(case: Case, ground: Ground = ground) -> str:
                try:
                    logs = ground.provoke(with_tools(case, options))
                except Exception:
                    traceback.print_exc()
                    return f"{case.name}: not provoked"
                return keep(case, logs, options, extra)

            with ThreadPoolExecutor(options.parallel) as pool:
                for message in pool.map(provoked, some):
                    print(message, flush=True)
    if options.store:
        kept = store(options.out, {case.name: batch_of(case) for case in CASES})
        print(f"{kept} cases are kept in {FOLDER}")
    return 0


def batch_of(case: Case) -> int:
    """1, or the number of the later batch of held-out cases."""
    return 2 if case in cases_second.CASES else 3 if case in cases_third.CASES else 1


def with_tools(case: Case, options: argparse.Namespace) -> Case:
    tools = {"OLD_PANDAS": options.old_pandas, "UV": options.uv, "PYTHON_BIN": str(Path(options.python).parent),
             "APPTAINER": f"{options.apptainer}/usr/bin/apptainer"}  # fmt: skip
    used = {key: value for key, value in tools.items() if f"${key}" in case.program + "".join(case.env.values())}
    return dataclasses.replace(case, env={**used, **case.env})


def keep(case: Case, logs: dict[str, str], options: argparse.Namespace, extra: tuple[str, ...]) -> str:
    logs = {name: shortened(scrubbed(text, options.python, extra)) for name, text in logs.items()}
    document = label(case, logs)
    folder = options.out / case.name
    folder.mkdir(exist_ok=True)
    for name, text in logs.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    if document is None:
        (folder / "label.json").unlink(missing_ok=True)
        return f"{case.name}: the root line is not in the log"
    (folder / "label.json").write_text(json.dumps(document), encoding="utf-8")
    return f"{case.name}: {document['root']}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
