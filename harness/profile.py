"""Profiles at the command line: ``python -m harness.profile show|lint|measure``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from harness.profiles import RECORDED, Profile, ProfileError, load_profile
from harness.profiles.document import read_document
from harness.profiles.read import SHIPPED


def open_profile(name: str) -> Profile:
    """A shipped profile by name, or any profile by the path of its YAML file.

    Raises:
        ProfileError: there is no such profile, or it has mistakes.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = SHIPPED / f"{name}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
            raise ProfileError(
                [f"unknown profile {name!r}; known: {known}, or the path of a .yaml"]
            )
    data = read_document(path).data
    if not isinstance(data, dict) or "defaults" not in data:
        return load_profile(path)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(path.resolve().parent), version_base="1.3"):
            return load_profile(compose(path.stem))
    except (HydraException, OmegaConfBaseException) as error:
        reason = str(error).splitlines()[0]
        raise ProfileError([f"{path}: {reason}; correct its defaults list"]) from error


def describe(profile: Profile) -> str:
    """The profile as text: provenance, curves in samples per second, rescale costs."""
    lines = [f"profile {profile.name}", ""]
    for key, value in profile.provenance.items():
        if key == "curves":
            continue
        values = value if isinstance(value, list) else [value]
        lines += [f"  {key:14} {entry}" for entry in values]
    for workload in profile.workloads:
        origin = profile.provenance["curves"][workload]
        lines += ["", f"{workload} on {origin['device']}, samples per second"]
        if workload == RECORDED:
            lines.append("  T(w) = w on w slots, assumed (work in slot-seconds)")
            continue
        family = profile.families[workload]
        columns = sorted(
            {slots for batch in family.batches for slots in family.measured_slots(batch)}
        )
        lines.append("  batch" + "".join(f"{slots:>10}" for slots in columns) + "   best")
        for batch in family.batches:
            curve, measured = family.curve(batch), family.measured_slots(batch)
            cells = (
                f"{curve.samples_per_s(slots):>10.1f}" if slots in measured else f"{'-':>10}"
                for slots in columns
            )
            lines.append(f"  {batch:>5}" + "".join(cells) + f"{curve.best_slots(columns[-1]):>7}")
    lines += ["", "rescale costs, seconds: preparation + pause"]
    for cell in profile.cost_cells:
        phases = ", ".join(f"{phase} {value:.3g}" for phase, value in cell.cost.phases_s.items())
        lines.append(
            f"  {cell.describe()}: {cell.cost.preparation_s:.3g} + {cell.cost.pause_s:.3g}"
            + (f" ({phases})" if phases else "")
        )
    return "\n".join(lines)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.profile",
        description="Show, check or measure throughput and rescale-cost profiles.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="print a profile's provenance, curves and costs")
    show.add_argument("profile", help="name of a shipped profile, or path of a YAML file")
    lint = commands.add_parser("lint", help="check profile files; tells all mistakes at once")
    lint.add_argument("files", nargs="+", metavar="FILE", help="path of a YAML file")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 on a mistake of the user's."""
    options = build_parser().parse_args(argv)
    problems: list[str] = []
    for name in [options.profile] if options.command == "show" else options.files:
        try:
            profile = open_profile(name)
        except ProfileError as error:
            problems += error.problems
            continue
        if options.command == "show":
            print(describe(profile))
        else:
            print(f"{name}: {len(profile.workloads)} workloads, no mistakes")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
