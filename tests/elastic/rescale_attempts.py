"""Attempts to make a change of size cost less, put down beside what each was measured against.

    python -m tests.elastic.rescale_attempts add ATTEMPT VARIANT RESULTS --out FOLDER
    python -m tests.elastic.rescale_attempts show FOLDER

``add`` takes every change that was made in the runs below RESULTS and adds a line for each to
``changes.jsonl``: stopping time, samples lost (net, in steps of the old size) and in which part of
the change; ``machine.json`` describes the machine. The runs of an attempt are made in turns by
``python -m harness study=edl_rescale``: by the code as it is (VARIANT ``as_it_is``), and with
FOLDER's ``patches/ATTEMPT.patch`` applied (VARIANT ``patched``), unless the docs say otherwise.
``show`` prints medians, with 95 % intervals.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from harness.machine.manifest import environment
from harness.metrics.statistics import percentile_interval
from reports.measures.rescales import measure
from reports.runs.selection import select

PROGRAM = "tests.elastic.rescale_attempts"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(required=True)
    adding = actions.add_parser("add", help="put the changes of some runs down")
    adding.add_argument("attempt")
    adding.add_argument("variant")
    adding.add_argument("results", type=Path)
    adding.add_argument("--out", type=Path, required=True, help="folder of changes.jsonl")
    adding.set_defaults(act=add)
    showing = actions.add_parser("show", help="print what is put down")
    showing.add_argument("folder", type=Path)
    showing.set_defaults(act=show)
    options = parser.parse_args(argv)
    read_from = options.folder / "changes.jsonl" if options.act is show else options.results
    if not read_from.exists():
        parser.error(f"{read_from} is not there")
    options.act(options)


def add(options):
    lines = []
    for trial in measure(select([options.results])).trials:
        if trial.window is None:
            continue
        parts = trial.lost_in or {}
        lines.append(
            {
                "attempt": options.attempt,
                "variant": options.variant,
                "system": trial.cell.system,
                "workload": trial.cell.workload,
                "change": trial.cell.change,
                "run": trial.run_id,
                "step_ms": round(trial.window.period_s * 1e3, 3),
                "stopping_time_ms": round(trial.stopping_time_s * 1e3, 3),
                "net_steps": None if trial.net_steps is None else round(trial.net_steps, 4),
                "parts": {part: round(lost, 4) for part, lost in parts.items()},
            }
        )
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "changes.jsonl").open("a") as file:
        file.writelines(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    command = ["python", "-m", PROGRAM, "add", options.attempt, options.variant, "results/runs"]
    (options.out / "machine.json").write_text(json.dumps(environment(command), indent=2) + "\n")
    print(f"{len(lines)} changes added")


def read(folder):
    """The changes by attempt, change and workload, and by variant."""
    found = defaultdict(lambda: defaultdict(list))
    for line in map(json.loads, (folder / "changes.jsonl").read_text().splitlines()):
        variant = f"{line['variant']} {line.get('system', '')}".strip()
        found[line["attempt"], line["change"], line["workload"]][variant].append(line)
    return found


def show(options):
    for (attempt, change, workload), variants in sorted(read(options.folder).items()):
        print(f"{attempt}: {change}, {workload}")
        for variant, lines in sorted(variants.items()):
            told = [f"{len(lines)} changes", f"step {fmean(x['step_ms'] for x in lines):.1f} ms"]
            for name in ("stopping_time_ms", "net_steps"):
                values = [line[name] for line in lines if line[name] is not None]
                if values:
                    found = percentile_interval(values)
                    limits = "" if found.low is None else f" ({found.low:.2f} to {found.high:.2f})"
                    told.append(f"{name} {found.value:.2f}{limits}")
            parts = defaultdict(list)
            for line in lines:
                for part, lost in line["parts"].items():
                    parts[part].append(lost)
            told += [f"{part} {fmean(lost):.2f}" for part, lost in parts.items()]
            print(f"  {variant}: {', '.join(told)}")


if __name__ == "__main__":
    main()
