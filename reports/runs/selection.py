"""Selection and naming of the stored runs that a report shows, from their records alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from harness.command_names import spelt
from harness.comparison.inputs import Outdated, contents_labels, outdated
from harness.configuration.benchmark_version import VersionError, one_version
from harness.configuration.compose import option_files
from harness.configuration.identity import portable
from harness.errors import StoredDataError
from harness.files.bounded_file import parse_json, read_text
from harness.machine.manifest import hardware_slug
from harness.results import verification_levels as levels
from harness.results.records import ChangeRecord, GrantRecord, JobRecord, OutageRecord
from harness.results.store import StoredRun, iter_runs

_SYSTEM = ("scheduler", "backend", "placement", "launcher")
_SETTING = ("trace", "workload", "cluster", "profile", "scaling")
_LABEL_LENGTH = 28


_Labelled = tuple[str, Mapping[str, str]]
"""A run's study and its options."""


class SelectionError(StoredDataError):
    """Selection that cannot be reported; the text says where the fault is and what to do."""


@dataclass(frozen=True)
class ReportRun:
    """A stored run under the names that the figures use."""

    stored: StoredRun
    setting: str
    """Trace, cluster and other inputs; runs of different settings are never compared."""
    system: str
    """Scheduler and backend, with the options that tell them from others of these names."""
    engine: str
    also_in: tuple[str, ...] = ()
    """Other studies that have the same point: a point is run once and copied to each."""
    also_on: tuple[str, ...] = ()
    """Other machines that trained the same point in runs that are not shown."""
    left_out: tuple[Outdated, ...] = ()
    """Runs of the selection on earlier contents of their trace or profile; they are not shown."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.stored.run_id

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the run, as stored."""
        return self.stored.metrics

    @property
    def label(self) -> str:
        """Shown name of the system: its name with the verification level of its scheduler."""
        return levels.with_level(self.system, levels.of_run(self.stored))

    @property
    def study(self) -> str:
        """The study, or sweep, that made the run; "" if none did."""
        return sweep_of(self.stored)

    @property
    def trial(self) -> tuple[int, int]:
        """Seed and repetition."""
        manifest = self.stored.manifest
        return int(manifest.get("seed") or 0), int(manifest.get("repetition") or 0)

    @property
    def backend(self) -> str:
        """Name of the chosen backend."""
        return _choices(self.stored).get("backend", "?")

    @property
    def generated(self) -> tuple[str, ...]:
        """Parts of the trace that were generated, not recorded: fields of jobs, or ``events``."""
        return tuple(self.stored.manifest.get("trace", {}).get("generated", ()))

    @property
    def is_live(self) -> bool:
        """Return whether real worker processes trained, so that steps were executed."""
        return _trained(self.stored)

    @property
    def is_drawable(self) -> bool:
        """Return whether the run has all tables of jobs and slots that figures are drawn from."""
        return not {"jobs", "grants", "changes", "outages"} & set(self.stored.left_out)

    @property
    def is_emulated(self) -> bool:
        """Return whether the run is live with every step padded to a profile's curve."""
        return self.is_live and self.stored.config.get("engine", {}).get("pace") == "profile"

    @property
    def dilation(self) -> float:
        """Wall-clock seconds per second of the engine's clock."""
        return self.stored.facts.get("dilation", 1.0)

    @property
    def num_slots(self) -> int:
        """Slots of the cluster; a device that jobs may share counts as one slot."""
        facts = self.stored.facts
        return int(facts.get("num_devices", facts.get("num_slots", 0)))

    @property
    def profile_measured_here(self) -> bool:
        """Return whether the profile was measured on the machine of the run."""
        return bool(self.stored.manifest.get("profile", {}).get("measured_here"))

    @cached_property
    def jobs(self) -> list[JobRecord]:
        """Records of the run's jobs."""
        return self.stored.rows("jobs")

    @cached_property
    def grants(self) -> list[GrantRecord]:
        """Records of which job held which slots when."""
        return self.stored.rows("grants")

    @cached_property
    def changes(self) -> list[ChangeRecord]:
        """Records of changes: starts, rescales, suspensions and others."""
        return self.stored.rows("changes")

    @cached_property
    def outages(self) -> list[OutageRecord]:
        """Records of which slot was down when."""
        return self.stored.rows("outages")

    @cached_property
    def workloads(self) -> dict[str, str]:
        """Workload of every job, by job id."""
        return {job.job_id: job.workload for job in self.jobs}


def select(directories: Sequence[Path], study: str | None = None) -> list[ReportRun]:
    """Return the finished runs at or below the directories, named; of one study if one is given.

    A study's runs are those that it made and those in a folder of its name. Runs that the
    ``points.json`` of a sweep of its name lists are its runs too: a run that a sweep finds finished
    keeps its first label. Of several runs of a point the first found is taken: folders in the order
    given, then by path. Runs on earlier contents of an edited trace or profile are left out.

    Raises:
        SelectionError: there is no run, or runs are of different versions of the benchmark.
        StoreError: this version cannot read a run.
    """
    found: dict[str, StoredRun] = {}
    folders: dict[str, set[str]] = {}
    elsewhere: dict[str, set[str]] = {}
    for directory in directories:
        for run in iter_runs(directory):
            first = found.setdefault(run.run_id, run)
            if run is not first and _machine(run) != _machine(first) and _trained(run):
                elsewhere.setdefault(run.run_id, set()).add(_machine(run))
            folders.setdefault(run.run_id, set()).update(run.path.parts)
    listed = _listed(directories, study) if study else set()
    runs = [
        run
        for run in found.values()
        if study is None
        or run.manifest.get("sweep") == study
        or study in folders[run.run_id]
        or run.run_id in listed
    ]
    if not runs:
        places = ", ".join(map(str, directories))
        words = [f"study={study}"] if study else ["scheduler=fifo", "trace=five_jobs"]
        raise SelectionError(
            f"no finished run{f' of study {study}' if study else ''} in {places};"
            f" make one: {spelt('harness', *words)}"
        )
    try:
        one_version([run.manifest for run in runs], ", ".join(map(str, directories)))
    except VersionError as error:
        raise SelectionError(str(error)) from error
    studies = option_files("study").keys()
    left_out = tuple(outdated(runs))
    old = {each.run.run_id for each in left_out}
    return [
        replace(
            run,
            also_in=tuple(sorted((folders[run.run_id] & studies) - {run.study})),
            also_on=tuple(sorted(elsewhere.get(run.run_id, ()))),
            left_out=left_out,
        )
        for run in name(run for run in runs if run.run_id not in old)
    ]


def name(runs: Iterable[StoredRun]) -> list[ReportRun]:
    """Name runs so that two have the same names only if they differ in their trial alone.

    Options in which studies differ, but runs of one study do not, are replaced by the study's name
    if there are several of a kind.
    """
    members = list(runs)
    contents = contents_labels(members)
    flat = [(run, _told_apart_by(run)) for run in members]
    alike: dict[tuple[str, ...], _Alike] = {}
    for run, values in flat:
        for base in (_base(run), _base(run, "engine")):
            alike.setdefault(base, _Alike()).runs.append((sweep_of(run), values))
    profiles: dict[tuple[str, ...], set[str]] = {}
    for run, _ in flat:
        profiles.setdefault(_base(run, "profile"), set()).add(_choices(run).get("profile", "?"))
    named = []
    for (run, values), own in zip(flat, contents, strict=True):
        beside, beside_on_engine = alike[_base(run, "engine")], alike[_base(run)]
        choices = _choices(run)
        system = [f"{choices.get('scheduler', '?')} / {choices.get('backend', '?')}"]
        setting = [f"{choices.get('trace', '?')} on {choices.get('cluster', '?')}"]
        setting.append(f"{choices.get('workload', '?')} workloads")
        if len(profiles[_base(run, "profile")]) > 1:
            setting.append(f"profile {choices.get('profile', '?')}")
        # All systems on the same contents share a setting, so each of them has this in its name.
        setting += [f"{what} {text}" for what, text in own.items()]
        engine = [choices.get("engine", "?")]
        system += _differences(values, beside, _SYSTEM)
        setting += _differences(values, beside, _SETTING)
        engine += _differences(values, beside_on_engine, ("engine",))
        named.append(ReportRun(run, ", ".join(setting), ", ".join(system), ", ".join(engine)))
    named = _without_untrained(named)
    return sorted(named, key=lambda r: (r.setting, not r.is_live, r.engine, r.system, r.trial))


def _without_untrained(named: Sequence[ReportRun]) -> list[ReportRun]:
    """Return the runs without the pool of workloads in the names of settings that nothing trained.

    Settings that only their pools tell apart keep them.
    """
    pools = {r.setting: f", {_choices(r.stored).get('workload', '?')} workloads" for r in named}
    trained = {run.setting for run in named if run.is_live}
    short = {setting: setting.replace(pool, "", 1) for setting, pool in pools.items()}
    taken = Counter([*short.values(), *trained])
    return [
        run
        if run.setting in trained or taken[short[run.setting]] > 1
        else replace(run, setting=short[run.setting])
        for run in named
    ]


def groups(runs: Sequence[ReportRun], *names: str) -> dict[tuple[str, ...], list[ReportRun]]:
    """Return runs by the given attributes, such as ``setting``, in the order of the runs."""
    found: dict[tuple[str, ...], list[ReportRun]] = {}
    for run in runs:
        found.setdefault(tuple(str(getattr(run, key)) for key in names), []).append(run)
    return found


def labels(runs: Iterable[ReportRun]) -> dict[str, str]:
    """Return the shown name of each system; it has two verification levels if its runs do."""
    found: dict[str, set[str]] = {}
    for run in runs:
        found.setdefault(run.system, set()).add(levels.of_run(run.stored))
    return {
        system: levels.with_level(system, " or ".join(sorted(own))) for system, own in found.items()
    }


def _choices(run: StoredRun) -> Mapping[str, str]:
    return run.manifest.get("choices") or run.config.get("choices") or {}


def options(run: StoredRun) -> dict[str, str]:
    """Return a run's chosen option of each group, and the options' values by key, as texts."""
    return {**_texts(run), **_choices(run)}


def _base(run: StoredRun, *without: str) -> tuple[str, ...]:
    """Return the chosen options of all groups except ``tracking`` and those named."""
    left_out = {"tracking", *without}
    choices = sorted(_choices(run).items())
    return tuple(f"{key}={value}" for key, value in choices if key not in left_out)


def _trained(run: StoredRun) -> bool:
    return run.facts.get("steps_executed", 0.0) > 0


def _machine(run: StoredRun) -> str:
    hardware = run.manifest.get("hardware")
    return hardware_slug(hardware) if hardware else "an unknown machine"


def sweep_of(run: StoredRun) -> str:
    """Return the label of the study, or sweep, that made a run; "" if none did."""
    return str(run.manifest.get("sweep") or "")


class _Alike:
    """Runs with the same chosen options, and the keys that vary among them, found once for all."""

    def __init__(self) -> None:
        self.runs: list[_Labelled] = []

    @cached_property
    def varying(self) -> list[str]:
        """Keys of the options in which any two runs differ."""
        return _varying([values for _, values in self.runs])

    @cached_property
    def vary_within(self) -> set[str]:
        """Keys in which two runs of one study differ; all varying keys if a run has no study."""
        studies: dict[str, list[Mapping[str, str]]] = {}
        for study, values in self.runs:
            studies.setdefault(study, []).append(values)
        if not all(studies):
            return set(self.varying)
        return {key for configs in studies.values() for key in _varying(configs)}


def _differences(values: Mapping[str, str], beside: _Alike, in_groups: Sequence[str]) -> list[str]:
    """Return what tells a run from those in ``beside``, in these groups of options."""
    keys = [key for key in beside.varying if key.split(".")[0] in in_groups]
    of_study = [key for key in keys if key not in beside.vary_within]
    texts = []
    if len(of_study) > 1:
        own = [values.get(key) for key in of_study]
        same = {study for study, each in beside.runs if [each.get(k) for k in of_study] == own}
        texts = [f"study {' and '.join(sorted(same))}"]
        keys = [key for key in keys if key not in of_study]
    return texts + [f"{key.rsplit('.', 1)[-1]}={_short(values.get(key, 'unset'))}" for key in keys]


def _short(text: str) -> str:
    """Return a value as a label shows it: a long one is cut, with a digest of its full text."""
    if len(text) <= _LABEL_LENGTH:
        return text
    rest = hashlib.blake2b(text.encode(), digest_size=2).hexdigest()
    # The beginning of a list of tables, such as a script, says nothing.
    head = "" if text.startswith(("[{", "{")) else text[: _LABEL_LENGTH - len(rest) - 2] + "…"
    return f"{head}#{rest}"


def _told_apart_by(run: StoredRun) -> dict[str, str]:
    """Return a run's options without seeds of parts that equal the run's own (another trial)."""
    own = str(run.config.get("seed"))
    return {k: text for k, text in _texts(run).items() if not (k.endswith(".seed") and text == own)}


_TEXTS: WeakKeyDictionary[StoredRun, Mapping[str, str]] = WeakKeyDictionary()
"""Cache by run: pages, figures and verdicts ask for the options of each run many times."""


def _texts(run: StoredRun) -> Mapping[str, str]:
    found = _TEXTS.get(run)
    if found is None:
        found = {key: str(value) for key, value in flat_options(portable(run.config)).items()}
        _TEXTS[run] = found
    return found


def flat_options(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return options by dotted name, of the groups that can tell runs apart.

    Options of parts in lists, such as the transforms of a trace, are included.
    """
    if isinstance(value, Mapping):
        items = [(str(name), inner) for name, inner in value.items()]
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        items = [(str(index), inner) for index, inner in enumerate(value)]
    else:
        return {prefix: value}
    return {
        key: found
        for name, inner in items
        if prefix or name in (*_SYSTEM, *_SETTING, "engine")
        for key, found in flat_options(inner, f"{prefix}.{name}" if prefix else name).items()
    }


def _varying(configs: Sequence[Mapping[str, str]]) -> list[str]:
    keys = sorted({key for config in configs for key in config})
    return [key for key in keys if len({config.get(key) for config in configs}) > 1]


def _listed(directories: Sequence[Path], study: str) -> set[str]:
    listed = set()
    for directory in directories:
        for path in (
            directory.parent / "sweeps" / study / "points.json",
            directory / study / "points.json",
        ):
            if path.is_file():
                try:
                    points = parse_json(read_text(path))["points"]
                    listed |= {point["run_id"] for point in points}
                except (OSError, ValueError, KeyError, TypeError) as error:
                    raise SelectionError(f"{path}: damaged ({error}); remove it") from error
    return listed
