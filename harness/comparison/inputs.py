"""Inputs of stored runs: which runs had the same trace and the same profile.

A configuration names its trace and its profile. The files behind them may change between runs, and
then the runs have different inputs. Manifests have digests of the profile's numbers and of the
trace's jobs, which may differ from seed to seed. They also have a digest of the files from which
the trace was read. Older manifests lack it; their runs are distinguished by their jobs.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from harness.comparison.present_files import PresentFiles
from harness.configuration.identity import is_named_by_path, own_paths, without_own_paths
from harness.profiles.profile import STATED
from harness.results.store import StoredRun

_DIGITS = 8
"""Digits of a digest that messages show to distinguish two contents."""


@dataclass(frozen=True)
class Made:
    """Short digests of a run's inputs, equal for runs on the same contents."""

    trace: str
    profile: str


@dataclass(frozen=True)
class Outdated:
    """Run on other contents of its files than the current ones."""

    run: StoredRun
    what: str
    """Input that was edited, with its files if they are the user's own."""


@dataclass(frozen=True)
class _Source:
    """Inputs of a run, as its configuration names them and its manifest describes them.

    Texts are canonical JSON without the run's own seed.
    """

    trace: str
    trace_named: str
    """Same as ``trace``, with the paths of the user's own files."""
    given: str
    """Everything that determines the jobs of a seed, except the trace's files."""
    given_named: str
    """Same as ``given``, with the paths of the user's own files."""
    profile: str
    profile_named: str
    seed: Any
    jobs: str
    """Digest of the jobs."""
    files: str | None
    """Digest of the files behind the jobs; None: not on record."""
    contents: str
    """Digest of the profile."""


def made_of(runs: Sequence[StoredRun]) -> list[Made]:
    """Return the contents of every run, as far as these runs distinguish contents."""
    sources = _sources(runs)
    return [
        Made(trace[:_DIGITS], source.contents[:_DIGITS])
        for source, trace in zip(sources, _traces(sources), strict=True)
    ]


def outdated(runs: Sequence[StoredRun]) -> list[Outdated]:
    """Return the runs on other contents of their trace or profile than the current ones.

    The current contents are those of the files now, if a run has them; otherwise those of the
    latest run. Only runs that name the same files with the same options are compared. They must
    also belong to the same sweep, because another study may have been made on purpose with other
    files.
    """
    present = PresentFiles()
    by_sweep: dict[str, list[StoredRun]] = defaultdict(list)
    for run in runs:
        by_sweep[str(run.manifest.get("sweep") or "")].append(run)
    return [each for own in by_sweep.values() for each in _outdated(own, present)]


def _outdated(runs: Sequence[StoredRun], present: PresentFiles) -> list[Outdated]:
    """Return the outdated runs of one sweep."""
    sources = _sources(runs)
    traces = _traces(sources)
    made = [(str(run.manifest.get("created", "")), str(run.path)) for run in runs]

    def has_present_trace(number: int) -> bool:
        source, config = sources[number], runs[number].config.get("trace")
        return source.files is not None and source.files == present.trace(
            source.trace_named, config
        )

    def has_present_profile(number: int) -> bool:
        source, config = sources[number], runs[number].config.get("profile")
        digests = present.profile(source.profile_named, config)
        return digests is not None and source.contents == _contents(*digests)

    def older(
        kind: Callable[[_Source], Any], versions: Sequence[str], is_present: Callable[[int], bool]
    ) -> set[int]:
        """Return the runs of each kind whose version is not the current one of that kind."""
        members: dict[Any, list[int]] = defaultdict(list)
        for number, source in enumerate(sources):
            if (key := kind(source)) is not None:
                members[key].append(number)
        found = set()
        for own in members.values():
            if len({versions[number] for number in own}) > 1:
                last = max(own, key=lambda n: (is_present(n), made[n], n))
                found |= {number for number in own if versions[number] != versions[last]}
        return found

    contents = [source.contents for source in sources]
    profiles = older(lambda source: source.profile_named, contents, has_present_profile)
    found = older(lambda source: source.files and source.trace_named, traces, has_present_trace)
    # Without recorded files, one seed with other jobs now makes all runs of its version outdated.
    replaced = older(lambda source: (source.given_named, source.seed), traces, has_present_trace)
    spoken = {(sources[number].given_named, traces[number]) for number in replaced}
    found |= {n for n, each in enumerate(sources) if (each.given_named, traces[n]) in spoken}
    return [
        Outdated(run, _said(run, "trace" if number in found else "profile"))
        for number, run in enumerate(runs)
        if number in found | profiles
    ]


def inputs_digest(run: StoredRun) -> str | None:
    """Return a short digest of a run's trace and profile files, equal for every seed.

    None: the manifest does not say from which files the trace was read.
    """
    (source,) = _sources([run])
    if source.files is None:
        return None
    return hashlib.sha256(f"{source.files} {source.contents}".encode()).hexdigest()[:_DIGITS]


def contents_labels(runs: Sequence[StoredRun]) -> list[dict[str, str]]:
    """Return labels that distinguish the contents of runs with the same options.

    The keys are ``trace`` and ``profile``, each present if its contents differ. The user's own
    files are labelled by the shortest ends of their paths that differ. Other files, and edited
    ones, are labelled by digits of a digest.
    """
    sources = _sources(runs)
    labels: list[dict[str, str]] = [{} for _ in runs]
    for what, alike, versions in (
        ("trace", [source.trace for source in sources], _traces(sources)),
        ("profile", [each.profile for each in sources], [each.contents for each in sources]),
    ):
        members: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(alike):
            members[text].append(number)
        for own in members.values():
            if len({versions[number] for number in own}) > 1:
                paths = [own_paths(runs[number].config.get(what)) for number in own]
                texts = _told_apart([versions[number] for number in own], paths)
                for number, text in zip(own, texts, strict=True):
                    labels[number][what] = text
    return labels


def _told_apart(versions: Sequence[str], paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a label for each version: ends of its paths if they identify it, else digits."""
    longest = max((len(PurePath(path).parts) for own in paths for path in own), default=0)
    for length in range(1, longest + 1):
        ends = [" ".join("/".join(PurePath(p).parts[-length:]) for p in own) for own in paths]
        pairs = set(zip(versions, ends, strict=True))
        if len(pairs) == len(set(versions)) == len(set(ends)):
            return [f"file {end}" for end in ends]
    return [f"contents {version[:_DIGITS]}" for version in versions]


def _sources(runs: Iterable[StoredRun]) -> list[_Source]:
    spelled: dict[tuple[int, Any, bool], str] = {}

    def text(value: Any, seed: Any, *, named: bool) -> str:
        """Return canonical JSON, computed once for each value object that runs share
        (``read_alike``)."""
        key = (id(value), seed, named)
        if key not in spelled:
            kept = without_seed(value if named else without_own_paths(value), seed)
            spelled[key] = json.dumps(kept, sort_keys=True, default=str)
        return spelled[key]

    found = []
    for run in runs:
        config, seed = run.config, run.config.get("seed")
        trace, profile = config.get("trace"), config.get("profile")
        trace_facts = run.manifest.get("trace") or {}
        options = [text(value, seed, named=False) for value in (trace, profile)]
        named = [text(value, seed, named=True) for value in (trace, profile)]
        pool = (config.get("workload") or {}).get("pool") or {}
        contents = _profile_contents(run)
        rest = [text(config.get("cluster"), seed, named=True), *sorted(map(str, pool)), contents]
        files = trace_facts.get("files_digest")
        found.append(
            _Source(
                trace=options[0],
                trace_named=named[0],
                given="\n".join([*options, *rest]),
                given_named="\n".join([*named, *rest]),
                profile=options[1],
                profile_named=named[1],
                seed=seed,
                jobs=str(trace_facts.get("digest")),
                files=str(files) if files else None,
                contents=contents,
            )
        )
    return found


def _profile_contents(run: StoredRun) -> str:
    """Return a digest of the profile: its numbers, and its statements unless the configuration has
    them as options."""
    facts = run.manifest.get("profile") or {}
    numbers = str(facts.get("digest"))
    stated = facts.get(STATED) if is_named_by_path(run.config.get("profile")) else None
    return _contents(numbers, stated)


def _contents(numbers: str, stated: Any) -> str:
    return hashlib.sha256(f"{numbers} {stated}".encode()).hexdigest() if stated else numbers


def _traces(sources: Sequence[_Source]) -> list[str]:
    """Return a digest for each run that identifies its trace, the same for every seed."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, source in enumerate(sources):
        groups[source.trace].append(number)
    versions = [source.jobs for source in sources]
    for own in groups.values():
        if len({versions[number] for number in own}) > 1:
            for number, version in zip(own, _versions([sources[n] for n in own]), strict=True):
                versions[number] = version
    return versions


def _versions(sources: Sequence[_Source]) -> list[str]:
    """Return such digests for runs whose trace has the same options.

    Runs have the same trace if their files or their jobs are the same. Files that are not on record
    count as the same, unless a seed has two sets of jobs with everything else given.
    """
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        while parents.setdefault(key, key) != key:
            key = parents[key]
        return key

    def join(one: str, other: str) -> None:
        first, second = sorted((root(one), root(other)))
        parents[second] = first

    for source in sources:
        if source.files:
            join(source.jobs, f"files {source.files}")
    recorded = {root(source.jobs) for source in sources if source.files}
    unrecorded = [source for source in sources if root(source.jobs) not in recorded]
    unclear = _in_conflict(unrecorded)
    sure = [source for source in unrecorded if source.given not in unclear]
    for source in sure:
        join(source.jobs, sure[0].jobs)
    others = [source for source in sources if source.files]
    if sure and len(recorded) == 1 and not _in_conflict([*sure, *others]):
        join(sure[0].jobs, *recorded)
    # If the code that draws has changed, the files are the same but the jobs of a seed differ.
    by_root: dict[str, list[_Source]] = defaultdict(list)
    for source in sources:
        by_root[root(source.jobs)].append(source)
    broken = {key for key, own in by_root.items() if _in_conflict(own)}
    least = {key: min(source.jobs for source in own) for key, own in by_root.items()}
    keys = [(source.jobs, root(source.jobs)) for source in sources]
    return [jobs if key in broken else least[key] for jobs, key in keys]


def _in_conflict(sources: Iterable[_Source]) -> set[str]:
    """Return the inputs, among those given, for which one seed has two sets of jobs."""
    jobs: dict[tuple[str, Any], str] = {}
    return {s.given for s in sources if jobs.setdefault((s.given, s.seed), s.jobs) != s.jobs}


def input_name(run: StoredRun, what: str) -> str:
    """Return the name of a run's trace or profile in messages."""
    choices = run.manifest.get("choices") or run.config.get("choices") or {}
    return f"{what} {choices.get(what, '?')}"


def _said(run: StoredRun, what: str) -> str:
    """Return the name of an input, with the names of its files if they are the user's own."""
    names = ", ".join(PurePath(path).name for path in own_paths(run.config.get(what)))
    return f"{input_name(run, what)}{f' ({names})' if names else ''}"


def without_seed(value: Any, seed: Any) -> Any:
    """Return options without the seeds that equal the run's own, since such a seed only makes
    another trial of the same setting."""
    if isinstance(value, Mapping):
        return {
            key: without_seed(inner, seed)
            for key, inner in value.items()
            if not (key == "seed" and inner == seed)
        }
    return [without_seed(each, seed) for each in value] if isinstance(value, list) else value
