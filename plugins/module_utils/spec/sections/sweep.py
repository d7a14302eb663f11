# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section `sweep` of the job spec: one job with many values, and which values those are. Pure; no I/O.

An element of a sweep is the same launch as one whose values are written into the spec by hand. It has an ordinary key,
which does not depend on other elements. A parameter appears as `{name}` in an argument of `command`, in a value of
`env`, or in `checkpoint.dir`; it never reaches a shell. A parameter named `seed`, `gbs` or `mbs` also sets that field.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option

# Limit for the elements of a sweep. It is more than any queue accepts; grids multiply quickly.
MOST_ELEMENTS = 10_000
# Parameters that also set a field of the spec. Values that differ between the tasks of one job array cannot be in an
# #SBATCH line and cannot change the topology.
FIELDS = {"seed": ("seed",), "gbs": ("parallelism", "global_batch"), "mbs": ("parallelism", "micro_batch")}
NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
# {{name}} stands for the text {name}.
_PLACE = re.compile(r"\{\{(" + NAME + r")\}\}|\{(" + NAME + r")\}")

Point = Mapping[str, str]


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, for `random`. `scale`: linear or log. `whole`: integers only."""

    low: float
    high: float
    scale: str = "linear"
    whole: bool = False


def _number(value: object, name: str) -> float:
    # YAML 1.1 reads 1e-5 as text and 0.1 as a number. Both are accepted, because a range loses nothing as a number.
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise t.Invalid(f"{name} must be a number, not {t.shown(value)}")
    return number


def _range(value: Mapping[Any, Any]) -> Range:
    known = ("min", "max", "scale", "whole")
    for name in value:
        if name not in known:
            raise t.Invalid(f"{name}: unknown key{t.suggestion(str(name), known)}; known: {', '.join(known)}")
    low, high = _number(value.get("min"), "min"), _number(value.get("max"), "max")
    scale = t.choice("linear", "log").parse(value.get("scale", "linear"))
    integers = t.BOOLEAN.parse(value.get("whole", False))
    if low > high:
        raise t.Invalid(f"min {low:g} is above max {high:g}")
    if scale == "log" and low <= 0:
        raise t.Invalid(f"min {low:g} must be above 0 with scale log")
    if integers and (low != int(low) or high != int(high)):
        raise t.Invalid(f"min {low:g} and max {high:g} must be whole numbers with whole")
    return Range(low, high, str(scale), bool(integers))


def _values(value: object) -> tuple[str, ...] | Range:
    if isinstance(value, Mapping):
        return _range(value)
    values: tuple[str, ...] = t.listed(t.text(), filled=True).parse(value)
    return values


VALUES = t.Type(
    "list of values, or a range {min, max, scale, whole}",
    _values,
    {
        "type": ["array", "object"],
        "items": dict(t.text().schema),
        "minItems": 1,
        "properties": {
            "min": {"type": ["number", "string"]},
            "max": {"type": ["number", "string"]},
            "scale": {"enum": ["linear", "log"]},
            "whole": dict(t.BOOLEAN.schema),
        },
        "required": ["min", "max"],
        "additionalProperties": False,
    },
)
_NAMED = "a name of letters, digits and _"


@dataclass(frozen=True)
class Sweep:
    """Section `sweep`: the parameters of a sweep, and how its elements are derived from them."""

    # What an unknown key may be meant for.
    UNKNOWN: ClassVar[str] = "; a parameter of the sweep belongs into sweep.parameters"

    method: str = option(
        t.choice("grid", "zip", "list", "random"),
        "`grid`: every combination of `parameters`. `zip`: the first values together, then the second ones, and so "
        "on. `list`: the `points` as written. `random`: `samples` elements, drawn with `seed`.",
        "grid",
        key=False,
        example="random",
    )
    parameters: dict[str, Any] = option(
        t.mapped(NAME, _NAMED, VALUES),
        "Name -> list of values; with `random` also a range. The value replaces `{name}` in `command`, `env` and "
        "`checkpoint.dir`. A parameter named seed, gbs or mbs also sets that field.",
        {},
        key=False,
        example={"lr": ["1e-3", "3e-4"], "width": ["128", "256"]},
    )
    points: tuple[dict[str, str], ...] = option(
        t.listed(t.mapped(NAME, _NAMED, t.text())),
        "With `method: list`: one map of values per element.",
        (),
        key=False,
        example=[{"lr": "1e-3", "width": "128"}],
    )
    samples: int | None = option(
        t.integer(1, MOST_ELEMENTS),
        "With `random`: number of elements. Increasing it keeps the existing elements.",
        key=False,
        short="samples",
        example=20,
    )
    seed: int = option(t.integer(0, 2**32 - 1), "With `random`: seed of the drawn values.", 0, key=False)
    metric: str | None = option(
        t.text(r".+", "a key of the artifact (dots separate levels)"),
        "The number in the artifact by which the elements are compared.",
        key=False,
        example="loss",
    )
    goal: str = option(
        t.choice("min", "max"), "Whether the best element has the smallest or the largest metric.", "min", key=False
    )
    parallel: int | None = option(
        t.integer(1),
        "Maximum number of elements of one submission that run at once.",
        key=False,
        short="parallel",
        also=("array_parallelism", "max_parallel"),
        example=8,
    )


def placeholders(text: str) -> Iterator[str]:
    """Iterate over the names that appear as {name} in a text."""
    return (match[2] for match in _PLACE.finditer(text) if match[2])


def filled(text: str, point: Point) -> str:
    """Return the text of one element. Each {name} is replaced once, so a value may contain any text."""
    return _PLACE.sub(lambda match: f"{{{match[1]}}}" if match[1] else point.get(match[2], match[0]), text)


def points(sweep: Sweep) -> list[dict[str, str]]:
    """Return the values of every element, in a fixed order. A random point depends only on the seed and its number."""
    if sweep.method == "list":
        return [dict(point) for point in sweep.points]
    names = list(sweep.parameters)
    if sweep.method == "random":
        return [
            {name: _drawn(sweep.parameters[name], sweep.seed, name, number) for name in names}
            for number in range(sweep.samples or 0)
        ]
    combine: Callable[..., Any] = itertools.product if sweep.method == "grid" else zip
    return [dict(zip(names, values)) for values in combine(*sweep.parameters.values())]


def _drawn(values: tuple[str, ...] | Range, seed: int, name: str, number: int) -> str:
    """Draw one value. A hash is used instead of a generator, so other parameters or more samples do not change the
    value.
    """
    digest = hashlib.sha256(f"{seed}\0{name}\0{number}".encode()).digest()
    part = int.from_bytes(digest[:8], "big") / 2**64
    if not isinstance(values, Range):
        return values[int(part * len(values))]
    if values.whole:
        if values.scale == "linear":
            return str(int(values.low) + int(part * (int(values.high) - int(values.low) + 1)))
        low, high = math.log(values.low), math.log(values.high + 1)
        return str(min(int(values.high), int(math.exp(low + part * (high - low)))))
    if values.scale == "log":
        low, high = math.log(values.low), math.log(values.high)
        return f"{math.exp(low + part * (high - low)):.6g}"
    return f"{values.low + part * (values.high - values.low):.6g}"


def substituted(data: Parameters, point: Point) -> JsonObject:
    """Return the spec of one element, as it would be written by hand. Input and output are merged layers."""
    result = _program(data, point)
    result.pop("sweep", None)
    if isinstance(data.get("roles"), Mapping):
        result["roles"] = {
            name: _program(role, point) if isinstance(role, Mapping) else role for name, role in data["roles"].items()
        }
    kept = data.get("checkpoint")
    if isinstance(kept, Mapping) and isinstance(kept.get("dir"), str):
        result["checkpoint"] = {**kept, "dir": filled(kept["dir"], point)}
    for name, path in FIELDS.items():
        if name in point:
            target = result
            for part in path[:-1]:
                target[part] = dict(target.get(part) or {})
                target = target[part]
            target[path[-1]] = point[name]
    return result


def _program(data: Parameters, point: Point) -> JsonObject:
    """Return what is said of a program, with its command and variables for one element."""
    result = dict(data)
    if isinstance(data.get("command"), (list, tuple)):
        result["command"] = [filled(word, point) if isinstance(word, str) else word for word in data["command"]]
    if isinstance(data.get("env"), Mapping):
        result["env"] = {
            name: filled(value, point) if isinstance(value, str) else value for name, value in data["env"].items()
        }
    return result


def point_text(point: Point) -> str:
    """Return the values of an element on one line, for people."""
    return ", ".join(f"{name}={t.shown(value)[1:-1] if value else chr(39) * 2}" for name, value in point.items())


def findings(spec: Any, overrides: Mapping[str, str]) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the mistakes, as types.Finding. `spec`: the LaunchSpec; `overrides`: short name -> path."""
    sweep: Sweep | None = spec.sweep
    if sweep is None:
        return
    yield from _shape(sweep)
    yield from _names(spec, sweep, overrides)
    if sweep.metric is not None and (spec.artifact is None or spec.artifact.format != "json"):
        yield (
            ["sweep.metric", "artifact"],
            "sweep.metric: is read from the artifact, so the job needs one of format json (artifact.path)",
        )
    if spec.launcher.inside_job:
        yield (
            ["sweep", "launcher.inside_job"],
            "sweep: is one job array in the queue; it cannot run inside a job (launcher.inside_job)",
        )
    if spec.checkpoint.dir and not spec.checkpoint.fresh and not any(placeholders(spec.checkpoint.dir)):
        yield (
            ["checkpoint.dir", "sweep"],
            (
                f"checkpoint.dir: {spec.checkpoint.dir} would be shared by all elements of the sweep, but "
                f"only one job may use "
                "a checkpoint folder; put parameters into it, as in /scratch/{lr}"
            ),
        )


def _shape(sweep: Sweep) -> Iterator[tuple[Sequence[str], str]]:
    if sweep.method == "list":
        if not sweep.points:
            yield (
                ["sweep.points", "sweep"],
                "sweep.points: is required with sweep.method list: a map of values each",
            )
        if sweep.parameters:
            yield (
                ["sweep.parameters", "sweep.method"],
                "sweep.parameters: has no effect with sweep.method list; use sweep.points, or another method",
            )
        for number, point in enumerate(sweep.points):
            if set(point) != set(sweep.points[0]):
                yield (
                    ["sweep.points"],
                    (
                        f"sweep.points: item {number + 1} has {', '.join(point) or 'nothing'}, the first one "
                        f"{', '.join(sweep.points[0]) or 'nothing'}; all need the same names"
                    ),
                )
                return
        return
    if sweep.points:
        yield (
            ["sweep.points", "sweep.method"],
            f"sweep.points: has no effect with sweep.method {sweep.method}; use sweep.parameters, or method list",
        )
    if not sweep.parameters:
        yield ["sweep.parameters", "sweep"], "sweep.parameters: is required: name -> list of values"
        return
    if sweep.method == "random" and sweep.samples is None:
        yield ["sweep.samples", "sweep.method"], "sweep.samples: is required with sweep.method random: how many"
    if sweep.method == "random":
        return
    if sweep.samples is not None:
        yield (
            ["sweep.samples", "sweep.method"],
            f"sweep.samples: has no effect with sweep.method {sweep.method}; leave it out, or use method random",
        )
    lists = {name: values for name, values in sweep.parameters.items() if not isinstance(values, Range)}
    for name in sweep.parameters:
        if name not in lists:
            yield (
                [f"sweep.parameters.{name}", "sweep.method"],
                f"sweep.parameters.{name}: a range needs sweep.method random; {sweep.method} takes a list of values",
            )
    lengths = {name: len(values) for name, values in lists.items()}
    if sweep.method == "zip" and len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        yield ["sweep.parameters"], f"sweep.parameters: zip needs lists of one length, not {counts}"
    count = math.prod(lengths.values()) if sweep.method == "grid" else 0
    if count > MOST_ELEMENTS:
        yield ["sweep.parameters"], f"sweep.parameters: {count} combinations are above the limit of {MOST_ELEMENTS}"


def _names(spec: Any, sweep: Sweep, overrides: Mapping[str, str]) -> Iterator[tuple[Sequence[str], str]]:
    """Yield findings for parameters that do not reach the program and placeholders that are not parameters."""
    names = list(sweep.parameters) if sweep.method != "list" else list(sweep.points[0] if sweep.points else ())
    places = [("checkpoint.dir", spec.checkpoint.dir or "")]
    for here, program in spec.programs.items():
        places += [(f"{here}command", word) for word in program.command]
        places += [(f"{here}env.{name}", value) for name, value in program.env.items()]
    # The port of a role's process is its own.
    given = ("port",) if spec.roles else ()
    used: set[str] = set()
    for path, text in places:
        for name in placeholders(text):
            used.add(name)
            if names and name not in names and name not in given:
                yield (
                    [path, "sweep.parameters", "sweep.points"],
                    (
                        f"{path}: {{{name}}} is not a parameter of the sweep{t.suggestion(name, names)}; write "
                        f"{{{{{name}}}}} for the text {{{name}}} itself"
                    ),
                )
    for name in names:
        path = f"sweep.parameters.{name}"
        if name in overrides and name not in FIELDS:
            yield (
                [path],
                (
                    f"{path}: is the name of {overrides[name]}, which all tasks of a job array share; make a sweep for "
                    "each of its values, or call the parameter something else"
                ),
            )
        elif spec.shell is not None and name in set(placeholders(spec.shell)) - used:
            yield (
                [path, "shell"],
                (
                    f"shell: {{{name}}} is not replaced in a line for a shell; add {name.upper()}: '{{{name}}}' to env "
                    f'and write "${name.upper()}"'
                ),
            )
        elif name not in used and name not in FIELDS:
            yield (
                [path, "command", "env"],
                f"{path}: reaches no program; write {{{name}}} into command, env or checkpoint.dir",
            )
