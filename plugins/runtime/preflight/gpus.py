# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of this node's GPUs, as nvidia-smi and the kernel's log tell it. GPUs of AMD are not looked at."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import time

from core import children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    # A map of fields for each GPU.
    Rows = list[dict[str, str]]

ASK_SECONDS = 20
KERNEL_LOG = "/dev/kmsg"
KERNEL_LOG_MAX = 1 << 24
RECENT_SECONDS = 6 * 3600
# A context of its own takes some hundred MiB; an idle GPU of a data centre has a few in use.
MEMORY_MIB = 1024
FAIL, WARN = "fail", "warn"

# (field of `nvidia-smi --query-gpu`, when its value is trouble, how bad, in words). A field that the driver does not
# know, or answers with N/A, is not judged. Link generation and clocks fall on an idle GPU and say nothing then; the
# link's width does not, and the three hardware slowdowns are none of idleness, nor of the software's power cap.
GPU_RULES = (
    (
        "ecc.errors.uncorrected.volatile.total",
        lambda now: int(now) > 0,
        FAIL,
        "{0} uncorrected memory errors since boot",
    ),
    ("retired_pages.pending", lambda now: now == "Yes", FAIL, "a memory page waits to be retired: reset the GPU"),
    ("clocks_throttle_reasons.hw_slowdown", lambda now: now == "Active", FAIL, "slowed down by its hardware"),
    ("clocks_throttle_reasons.hw_thermal_slowdown", lambda now: now == "Active", FAIL, "slowed down: too hot"),
    ("clocks_throttle_reasons.hw_power_brake_slowdown", lambda now: now == "Active", FAIL, "slowed down: power brake"),
    ("memory.used", lambda now: int(now) > MEMORY_MIB, FAIL, "{0} MiB in use before the job starts"),
)
# The same of `nvidia-smi --query-remapped-rows`, which older drivers do not have.
ROW_RULES = (
    (
        "remapped_rows.failure",
        lambda now: now not in ("0", "No"),
        FAIL,
        "memory rows could not be remapped: replace it",
    ),
    (
        "remapped_rows.pending",
        lambda now: now not in ("0", "No"),
        WARN,
        "memory rows wait to be remapped: reset the GPU",
    ),
)
# (now, most, how bad, in words): below what GPU and machine can do together.
LINK_RULES = (("pcie.link.width.current", "pcie.link.width.max", FAIL, "PCIe link x{0} of x{1}"),)
# Compared only where the GPU is at work: idle links are slow on purpose.
LOADED_RULES = (("pcie.link.gen.current", "pcie.link.gen.max", WARN, "PCIe generation {0} of {1} under load"),)
FIELDS = (
    "index", "uuid", "name", "utilization.gpu", *(rule[0] for rule in GPU_RULES),
    *(field for rule in LINK_RULES + LOADED_RULES for field in rule[:2]),
)  # fmt: skip
LOADED_PERCENT = 50
# The model in what a site calls its GPUs (h100, a100_80gb) and in what nvidia-smi does (NVIDIA H100 80GB HBM3).
MODEL = re.compile(r"(?<![a-z0-9])(?:g[bh]|[abhklptv])[0-9]{1,4}s?(?![0-9])")
# Drivers from 2023 on call them so.
RENAMED = ("clocks_throttle_reasons.", "clocks_event_reasons.")

# Xid numbers (NVIDIA's list of GPU errors) that are the hardware's. The rest, 13, 31, 43 and 45 above all, are the
# programs'.
XIDS = {
    48: "double bit memory error",
    62: "internal controller halted",
    64: "memory row could not be remapped",
    74: "NVLink error",
    79: "fell off the bus",
    92: "many memory errors",
    95: "uncontained memory error",
    119: "GSP does not answer",
    120: "GSP error",
    140: "unrecovered memory error",
}
XID = re.compile(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<number>\d+)")
# They hold a GPU for everybody, or watch it.
HELPERS = ("nvidia-cuda-mps-server", "nv-hostengine", "dcgm", "dcgm-exporter", "nvidia-persistenced")


class Silent(Exception):
    """nvidia-smi did not answer, or complained."""


def query_nvidia_smi(query: str, fields: Sequence[str]) -> Rows:
    """Rows {field: text} of one question to nvidia-smi. What its version calls otherwise, or does not know, is asked by
    the other name, or left out.
    """
    names = {field: field for field in fields}
    while True:
        command = ["nvidia-smi", f"--query-{query}={','.join(names.values())}", "--format=csv,noheader,nounits"]
        try:
            done = children.run(command, os.environ, ASK_SECONDS)
        except TimeoutError:
            raise Silent(f"nvidia-smi did not answer within {ASK_SECONDS} s") from None
        output = done.stdout.strip()
        unknown = re.search(r'Field "([^"]+)" is not a valid field', output)
        field = next((field for field, name in names.items() if unknown and name == unknown[1]), None)
        if done.returncode != 0 and field:
            renamed = field.replace(*RENAMED)
            if renamed == names[field]:
                del names[field]
            else:
                names[field] = renamed
            continue
        if done.returncode != 0:
            lines = (output or done.stderr).splitlines()
            raise Silent(f"nvidia-smi: {lines[0] if lines else f'exit code {done.returncode}'}")
        rows = csv.reader(output.splitlines(), skipinitialspace=True)
        return [dict(zip(names, row)) for row in rows if len(row) == len(names)]


def ours(rows: Rows) -> Rows:
    """The GPUs that this job got: CUDA_VISIBLE_DEVICES as indices or UUIDs; all that are seen where it is not set."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return rows
    names = [name.strip() for name in listed.split(",") if name.strip()]
    return [row for row in rows if row["index"] in names or any(row["uuid"].startswith(n) for n in names if len(n) > 3)]


def value(row: dict[str, Any], field: str) -> str | None:
    """A field's text, or None where it is not known."""
    text = row.get(field, "")
    return None if not text or text.startswith("[") or text == "N/A" else text


def findings_of(row: dict[str, Any]) -> list[tuple[str, str]]:
    """(how bad, words) for each trouble of one GPU."""
    findings = []
    for field, bad, level, words in GPU_RULES + ROW_RULES:
        now = value(row, field)
        with contextlib.suppress(ValueError):
            if now is not None and bad(now):
                findings.append((level, words.format(now)))
    busy = value(row, "utilization.gpu") or ""
    loaded = busy.isdigit() and int(busy) > LOADED_PERCENT
    for field, best, level, words in LINK_RULES + (LOADED_RULES if loaded else ()):
        now, most = value(row, field), value(row, best)
        if now and most and now.isdigit() and most.isdigit() and int(now) < int(most):
            findings.append((level, words.format(now, most)))
    return findings


def other_models(rows: Rows, asked: str) -> list[tuple[str, str]]:
    """[(how bad, words)] of GPUs that are not of the type asked for. What names no known model is not judged."""
    wanted, findings = MODEL.search(asked.lower()), []
    for row in rows:
        model = MODEL.search((value(row, "name") or "").lower())
        # A V100S is a v100; an L40 is no l40s.
        if wanted and model and model[0] not in (wanted[0], wanted[0] + "s"):
            findings.append((FAIL, f"GPU {row['index']}: {row['name']}, and resources.gpu_type asks for {asked}"))
    return findings


def leftovers(rows: Rows) -> dict[str, list[str]]:
    """{index of the GPU: its processes} that no helper is."""
    index = {row["uuid"]: row["index"] for row in rows}
    processes_of: dict[str, list[str]] = {}
    for process in query_nvidia_smi("compute-apps", ("gpu_uuid", "pid", "process_name")):
        name = os.path.basename(process["process_name"])
        if process["gpu_uuid"] in index and name not in HELPERS:
            processes_of.setdefault(index[process["gpu_uuid"]], []).append(f"{name} ({process['pid']})")
    return processes_of


def xids(now: float | None = None) -> list[str] | None:
    """Recent hardware Xids of the kernel's log, as words; None where the log may not be read.

    A record of /dev/kmsg is `priority,sequence,microseconds since boot,flags;message`, one a read().
    """
    now = time.monotonic() if now is None else now
    try:
        log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    text, size = [], 0
    try:
        while size < KERNEL_LOG_MAX:
            try:
                chunk = os.read(log, 1 << 16)
            except BrokenPipeError:  # overwritten meanwhile; the next one is whole
                continue
            except OSError:  # the end of a log that goes on
                break
            if not chunk:
                break
            size += len(chunk)
            text.append(chunk.decode("utf-8", "replace"))
    finally:
        os.close(log)
    counts: dict[str, int] = {}
    for line in "".join(text).splitlines():
        match = XID.search(line)
        stamp = line.split(";", 1)[0].split(",")
        if match and int(match["number"]) in XIDS and len(stamp) >= 3 and stamp[2].isdigit():
            if now - int(stamp[2]) / 1e6 > RECENT_SECONDS:
                continue
            words = f"Xid {match['number']} ({XIDS[int(match['number'])]}) on {match['device']}"
            counts[words] = counts.get(words, 0) + 1
    return [words + (f", {count} times" if count > 1 else "") for words, count in counts.items()]


def remapped(rows: Rows) -> None:
    """Adds to each GPU's row what is known of its memory rows."""
    try:
        answer = query_nvidia_smi("remapped-rows", ("gpu_uuid", *(rule[0] for rule in ROW_RULES)))
    except Silent:
        return
    known = {row["gpu_uuid"]: row for row in answer}
    for row in rows:
        row.update(known.get(row["uuid"], {}))


def health(asked: str = "") -> tuple[str, list[tuple[str, str]]]:
    """(what the line shows, [(how bad, words)]) of this node's GPUs. `asked`: their type in the job."""
    if shutil.which("nvidia-smi") is None:
        amd = any(shutil.which(name) for name in ("amd-smi", "rocm-smi"))
        return "unknown(AMD)" if amd else "unknown(no_nvidia-smi)", []
    try:
        rows = ours(query_nvidia_smi("gpu", FIELDS))
        remapped(rows)
        findings = [(level, f"GPU {row['index']}: {words}") for row in rows for level, words in findings_of(row)]
        findings += other_models(rows, asked)
        for index, processes in leftovers(rows).items():
            findings.append((WARN, f"GPU {index}: in use by {', '.join(processes[:4])}"))
    except Silent as silence:
        return "silent", [(FAIL, str(silence))]
    log = xids()
    findings += [(FAIL, words) for words in log or []]
    shown = "bad" if any(level == FAIL for level, _words in findings) else "warn" if findings else "ok"
    return shown + ("(no_kernel_log)" if log is None else ""), findings
