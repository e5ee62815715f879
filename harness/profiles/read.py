"""Reader of profiles: one YAML file and the CSV tables it names, with all checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from harness.profiles.cost_cells import read_cost_cells
from harness.profiles.costs import CostCell
from harness.profiles.curves import Family
from harness.profiles.devices import add_devices, read_devices
from harness.profiles.document import Document, key_problems, read_document
from harness.profiles.errors import ProfileError
from harness.profiles.extend import DEFAULTS, extended
from harness.profiles.noise import read_noise
from harness.profiles.profile import RECORDED, STATED, Profile
from harness.profiles.shown import Shown, read_shown
from harness.profiles.spread import check_spread
from harness.profiles.table import UNITS, Cells, read_csv, read_table

SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "profile"
"""Folder of the shipped profiles; relative paths of a composed configuration start here."""

PROVENANCE = ("hardware", "versions", "source", "licence", "trials", "spread", "rescale_costs")
"""Keys of the provenance that every profile must state, besides ``measured_here``."""

_KEYS = (
    "name",
    "path",
    "costs",
    "devices",
    "provenance",
    "throughput",
    "rescale_costs",
    "shown",
    "noise_scale",
)
_TABLE_KEYS = ("file", "unit", "samples_per_s", "spread")
_ACROSS = "across_hosts"
_CURVE_KEYS = (*_TABLE_KEYS, _ACROSS, "device", "source", "licence", "remark")


def load_profile(config: Mapping[str, Any] | DictConfig | str | Path) -> Profile:
    """Return the profile of a composed configuration node, or of a YAML file.

    ``path`` in a node names a YAML file to read instead. A file with a ``defaults`` list extends
    the profiles that it names. Relative paths start from the folder of the YAML file that contains
    them; those of a node start from ``configs/profile``.

    Raises:
        ProfileError: all mistakes at once, each with its place and the way out.
    """
    if isinstance(config, str | Path):
        document, folder = read_document(Path(config)), Path(config).resolve().parent
        if isinstance(document.data, Mapping) and DEFAULTS in document.data:
            document = Document(str(config), extended(Path(config), SHIPPED))
    else:
        data = OmegaConf.to_container(config) if isinstance(config, DictConfig) else dict(config)
        document, folder = Document("profile", data), SHIPPED
        path = cast("dict[str, Any]", data).get("path")
        if path is not None:
            return load_profile(folder / str(path))
    problems = list(document.problems)
    if unordered := key_problems(document):
        raise ProfileError([*problems, *unordered])
    if not isinstance(document.data, Mapping):
        raise ProfileError(
            problems
            or [f"{document.place()}: is empty; docs/reference/configuration.md has the format"]
        )
    profile = _read(document, document.data, folder, problems)
    if problems:
        raise ProfileError(problems)
    return profile


def _read(
    document: Document, data: Mapping[str, Any], folder: Path, problems: list[str]
) -> Profile:
    if document.problems and not data:
        return Profile("", {}, "", {}, [])
    _check_keys(document, data, (), _KEYS, problems)
    name = data.get("name")
    if not isinstance(name, str) or not name:
        problems.append(f"{document.place('name')}: is {name!r}; give the profile a name")
    provenance = _read_provenance(document, data.get("provenance"), problems)
    tables, origins = _read_throughput(document, data.get("throughput"), folder, problems)
    cells = read_cost_cells(document, data.get("rescale_costs"), [*tables, RECORDED], problems)
    if data.get("costs") is not None:
        cells = _read_other_costs(document, folder / str(data["costs"]), provenance, problems)
    families = {workload: Family(table) for workload, table in tables.items() if table}
    across = _read_across(document, data.get("throughput"), folder, problems)
    for workload in across.keys() & families.keys():
        families[workload].across = Family(across[workload])
    families[RECORDED] = Family.linear()
    origins[RECORDED] = {"device": "none", "source": "assumed: T(w) = w, work in slot-seconds"}
    others = read_devices(document, data.get("devices"), folder, load_profile, problems)
    add_devices(families, others)
    shown = read_shown(document, data.get("shown"), problems)
    noise = read_noise(document, data.get("noise_scale"), tables, problems)
    digests = {name: one.digest for name, one in others.items()}
    digest = _digest(tables, across, cells, digests, shown, noise)
    provenance |= {"digest": digest, "curves": origins}
    if shown is not None:
        provenance["shown"] = asdict(shown)
    if noise:
        provenance["noise_scale"] = noise
    if others:
        provenance["devices"] = {name: dict(one.provenance) for name, one in others.items()}
    if stated := _stated_digest(provenance, cells):
        provenance[STATED] = stated
    device_types = tuple(sorted(others))
    return Profile(str(name), provenance, digest, families, cells, device_types, shown, noise)


def _check_keys(
    document: Document,
    data: Mapping[Any, Any],
    keys: tuple[str, ...],
    known: Sequence[str],
    problems: list[str],
) -> None:
    problems.extend(
        f"{document.place(*keys, key)}: unknown key {key!r}; known: {', '.join(known)}"
        for key in data
        if key not in known
    )


def _read_provenance(document: Document, value: object, problems: list[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        problems.append(
            f"{document.place('provenance')}: is missing; say {', '.join(PROVENANCE)} and"
            " measured_here ('not stated' is an answer)"
        )
        return {}
    problems.extend(
        f"{document.place('provenance')}: {key} is missing; say where the numbers come from"
        " ('not stated' is an answer)"
        for key in PROVENANCE
        if value.get(key) in (None, "")
    )
    if not isinstance(value.get("measured_here"), bool):
        problems.append(
            f"{document.place('provenance', 'measured_here')}: is"
            f" {value.get('measured_here')!r}; use true or false"
        )
    return dict(value)


def _read_throughput(
    document: Document, value: object, folder: Path, problems: list[str]
) -> tuple[dict[str, Cells], dict[str, Any]]:
    """Return the tables by workload, and their stated origin."""
    if not isinstance(value, Mapping):
        problems.append(
            f"{document.place('throughput')}: is missing; give workload → file or samples_per_s"
            f" ({{}} for the workload {RECORDED!r} alone)"
        )
        return {}, {}
    tables: dict[str, Cells] = {}
    origins: dict[str, Any] = {}
    for workload, entry in value.items():
        keys = ("throughput", str(workload))
        if workload == RECORDED:
            problems.append(
                f"{document.place(*keys)}: {RECORDED!r} is built in (T(w) = w); use another name"
            )
            continue
        if not isinstance(entry, Mapping):
            problems.append(
                f"{document.place(*keys)}: is not a mapping; give file or samples_per_s"
            )
            continue
        _check_keys(document, entry, keys, _CURVE_KEYS, problems)
        if not entry.get("device"):
            problems.append(
                f"{document.place(*keys)}: device is missing; name the device that was measured"
            )
        origins[str(workload)] = {
            key: entry[key]
            for key in entry
            if key not in ("file", "samples_per_s", "unit", _ACROSS)
        }
        if "spread" in entry:
            check_spread(document, (*keys, "spread"), entry["spread"], problems)
        tables[str(workload)] = _read_curve(document, keys, entry, folder, problems)
    return tables, origins


def _read_across(
    document: Document, value: object, folder: Path, problems: list[str]
) -> dict[str, Cells]:
    """Return the tables for slots on several hosts, by workload; others have no entry."""
    tables: dict[str, Cells] = {}
    for workload, entry in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(entry, Mapping) or _ACROSS not in entry:
            continue
        keys = ("throughput", str(workload), _ACROSS)
        if not isinstance(entry[_ACROSS], Mapping):
            problems.append(
                f"{document.place(*keys)}: is not a mapping; give file or samples_per_s"
            )
            continue
        _check_keys(document, entry[_ACROSS], keys, _TABLE_KEYS, problems)
        if table := _read_curve(document, keys, entry[_ACROSS], folder, problems):
            tables[str(workload)] = table
    return tables


def _read_curve(
    document: Document,
    keys: tuple[str, ...],
    entry: Mapping[str, Any],
    folder: Path,
    problems: list[str],
) -> Cells:
    if ("file" in entry) == ("samples_per_s" in entry):
        problems.append(
            f"{document.place(*keys)}: give either file or samples_per_s, not both or neither"
        )
        return {}
    if "samples_per_s" in entry:
        return read_table(document, (*keys, "samples_per_s"), entry["samples_per_s"], problems)
    unit = entry.get("unit")
    if unit not in UNITS:
        problems.append(
            f"{document.place(*keys, 'unit')}: unit is {unit!r}; known: {', '.join(UNITS)}"
        )
        return {}
    return read_csv(folder / str(entry["file"]), unit, problems)


def _read_other_costs(
    document: Document, path: Path, provenance: dict[str, Any], problems: list[str]
) -> list[CostCell]:
    """Return the rescale costs of another profile file, which replace this profile's own."""
    other = read_document(path)
    if other.problems or not isinstance(other.data, Mapping) or "rescale_costs" not in other.data:
        place = document.place("costs")
        problems.extend(f"{place}: {problem}" for problem in other.problems)
        problems.append(f"{place}: {path} has no rescale_costs; name a profile that has")
        return []
    theirs = other.data.get("provenance")
    remark = theirs.get("rescale_costs") if isinstance(theirs, Mapping) else None
    provenance["rescale_costs"] = f"from {path.name}: {remark or 'not stated'}"
    return read_cost_cells(other, other.data["rescale_costs"], None, problems)


def _digest(
    tables: Mapping[str, Cells],
    across: Mapping[str, Cells],
    cells: Sequence[CostCell],
    devices: Mapping[str, str],
    shown: Shown | None,
    noise: Mapping[str, float],
) -> str:
    """Return the SHA-256 of all numbers, in one canonical spelling."""
    spelled: dict[str, Any] = {
        "throughput": _spelled(tables),
        "rescale_costs": sorted(
            [
                cell.describe(),
                cell.cost.preparation_s,
                cell.cost.pause_s,
                sorted(cell.cost.phases_s.items()),
            ]
            for cell in cells
        ),
    }
    if across:
        spelled["across_hosts"] = _spelled(across)
    if devices:
        spelled["devices"] = devices
    if shown is not None:
        spelled["shown"] = asdict(shown)
    if noise:
        spelled["noise_scale"] = noise
    text = json.dumps(spelled, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _stated_digest(provenance: Mapping[str, Any], cells: Sequence[CostCell]) -> str:
    """Return the SHA-256 of the stated inputs that ``_digest`` leaves out; "" if none is stated.

    These inputs are the variation between trials, and the backend under which speeds were measured.
    For shipped profiles the configuration of a run contains them. For a profile given by path it
    does not.
    """
    spreads = {
        workload: curve["spread"]
        for workload, curve in provenance["curves"].items()
        if "spread" in curve
    }
    costs = sorted([cell.describe(), cell.cost.deviation] for cell in cells if cell.cost.deviation)
    spelled: dict[str, Any] = {}
    if spreads or costs:
        spelled |= {"trials": provenance.get("trials"), "spreads": spreads, "costs": costs}
    if "speeds_under" in provenance:
        spelled["speeds_under"] = provenance["speeds_under"]
    if not spelled:
        return ""
    text = json.dumps(spelled, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _spelled(tables: Mapping[str, Cells]) -> dict[str, Any]:
    return {
        workload: [[batch, sorted(row.items())] for batch, row in sorted(table.items())]
        for workload, table in tables.items()
    }
