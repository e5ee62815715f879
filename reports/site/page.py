"""Writer of a static page: every drawing, the facts of every run, and the commands to repeat
them."""

from __future__ import annotations

import base64
import html
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from string import Template

from harness.answer.answer import answer
from harness.answer.block import Block
from harness.comparison import as_recorded, assumptions
from harness.files.bounded_file import parse_json, read_text
from harness.files.gz_text import text_path
from harness.results import verification_levels as levels
from harness.results.archive import shown
from harness.results.store import CONFIG, MANIFEST
from reports.drawing import style, table_files
from reports.drawing.figure import Drawing, Table
from reports.drawing.files import FORMATS, save_all
from reports.figures import FIGURES
from reports.perfetto.files import perfetto_path
from reports.runs.selection import ReportRun, SelectionError
from reports.site import about

INDEX, TABLES_INDEX = "figures.json", "tables.json"
"""Files that list every figure with its files and runs, and every table with its files."""
_REMOVED = frozenset({*FORMATS, *table_files.FORMATS})
"""Suffixes of files of an earlier report that may be removed."""
_MOST_LEADING = 2
"""Most figures of a page that are shown unfolded, below the answer."""
_TEMPLATES = Path(__file__).with_name("templates")


def write(
    out: Path,
    title: str,
    command: str,
    runs: Sequence[ReportRun],
    drawings: Sequence[tuple[str, Drawing]],
    formats: Sequence[str] = FORMATS,
    home: str = "",
    claims: str = "",
    description: str = "",
    note: str = "",
) -> list[Path]:
    """Write figures, tables and ``index.html`` below ``out``, and return the files written.

    Args:
        out: folder; files of the same names are overwritten.
        title: title of the page.
        command: command that makes the report.
        runs: runs that the page shows.
        drawings: each drawing with the name of its figure, in order.
        formats: file formats of the figures; the page itself embeds SVG if it is among them.
        home: link to the report that this page is a part of; "" if none.
        claims: section in HTML about the claims that the study tests.
        description: text on what the page compares.
        note: text on figures and runs that the page does not show.
    """
    by_id = {run.run_id: run for run in runs}
    out.mkdir(parents=True, exist_ok=True)
    _remove_earlier(out)
    written, entries, sections, tables, table_entries = [], [], [], [], []
    saved = save_all(out / "figures", [drawing for _, drawing in drawings], formats)
    leading = _leading(drawings)
    for (group, drawing), files in zip(drawings, saved, strict=True):
        picture = ""
        if files:
            written += files
            names = [str(file.relative_to(out)) for file in files]
            shown = next((name for name in names if name.endswith(".png")), names[0])
            entry = {"file": shown, "files": names, "figure": group}
            entries.append(entry | {"run_ids": [*drawing.run_ids]})
            picture = _picture(drawing, files) + downloads("Figure", files, out)
        table_links = ""
        if drawing.table is not None:
            tables.append(f"## {drawing.title}\n\n{drawing.table.to_markdown()}\n")
            own = table_files.save(out / table_files.FOLDER, drawing.name, drawing.table)
            written += own
            table_entries.append({"files": [str(file.relative_to(out)) for file in own]})
            table_links = downloads("Table", own, out)
        shown_runs = [by_id[run_id] for run_id in drawing.run_ids if run_id in by_id]
        section = _section(drawing, picture, table_links, shown_runs)
        sections.append(section if drawing in leading else _folded(drawing, section))
    told_first = [each for (_, d), each in zip(drawings, sections, strict=True) if d in leading]
    told_after = [each for (_, d), each in zip(drawings, sections, strict=True) if d not in leading]
    template, *style_sheets = (
        (_TEMPLATES / name).read_text(encoding="utf-8")
        for name in ("study.html", "style.css", "claims.css")
    )
    in_order = [*leading, *(drawing for _, drawing in drawings if drawing not in leading)]
    block = answer([run.stored for run in runs])
    page = Template(template).substitute(
        style="".join(style_sheets),
        home=f'<p><a href="{home}">← the whole report</a></p>' if home else "",
        claims=claims,
        note=f'<p class="missing">{html.escape(note)}</p>' if note else "",
        title=html.escape(title),
        answer=answer_html(block) if block is not None else "",
        told=_told(runs),
        description=f'<p class="lead">{html.escape(description)}</p>' if description else "",
        summary=html.escape(_summary(runs)),
        command=html.escape(command),
        levels=html.escape(levels.MEANING),
        contents="\n".join(_link(drawing) for drawing in in_order),
        first="\n".join(told_first),
        sections="\n".join(told_after),
        mlflow=_in_mlflow(runs),
        runs="\n".join(_facts(run, out) for run in runs),
        num_runs=_counted_runs(runs),
    )
    for name, text in (
        ("index.html", page),
        (
            "tables.md",
            f"# {title}\n\n{_summary(runs)}\n\n{levels.MEANING}\n\n" + "\n".join(tables),
        ),
        (INDEX, json.dumps(entries, indent=1) + "\n"),
        (TABLES_INDEX, json.dumps(table_entries, indent=1) + "\n"),
    ):
        (out / name).write_text(text, encoding="utf-8")
        written.append(out / name)
    return written


def _remove_earlier(out: Path) -> None:
    """Remove the figures and tables of an earlier report that its lists name."""
    for listing in (out / INDEX, out / TABLES_INDEX):
        if listing.is_file():
            for path in _listed(listing):
                path.unlink(missing_ok=True)


def _listed(listing: Path) -> list[Path]:
    """Return the files that a list of figures or tables names; files outside its folder are
    ignored.

    Raises:
        SelectionError: the list is damaged.
    """
    out = listing.parent
    try:
        entries = parse_json(read_text(listing))
        paths = [out / str(name) for entry in entries for name in entry.get("files", ())]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        fact = f"is no list of a report ({error})"
        raise SelectionError(f"{listing}: {fact}; remove it, or give another --out") from error
    # Only files that a report writes may be removed, since the folder may come from elsewhere.
    inside = (path for path in paths if path.parent.resolve().is_relative_to(out.resolve()))
    return [path for path in inside if path.suffix[1:] in _REMOVED]


def downloads(what: str, files: Sequence[Path], page_folder: Path) -> str:
    """Return links in HTML to the files of a figure or table.

    Args:
        what: label of the links, such as ``Figure``.
        files: files of one figure or table, each in another format.
        page_folder: folder of the page with the links.
    """
    links = " ".join(
        f'<a href="{html.escape(file.relative_to(page_folder).as_posix())}" download>'
        f"{file.suffix[1:].upper()}</a>"
        for file in files
    )
    return f'<p class="files">{what}: {links}</p>'


def _picture(drawing: Drawing, files: Sequence[Path]) -> str:
    vector = next((file for file in files if file.suffix == ".svg"), files[0])
    kind = "svg+xml" if vector.suffix == ".svg" else vector.suffix[1:]
    data = base64.b64encode(vector.read_bytes()).decode()
    alt = html.escape(f"{drawing.title}. {drawing.caption}", quote=True)
    return f'<div class="card"><img alt="{alt}" src="data:image/{kind};base64,{data}"></div>'


def answer_html(block: Block) -> str:
    """Return an answer block in HTML: its sentences, its table, and how the table was made."""
    sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in block.sentences)
    table = Table(block.header, block.rows).to_html() if block.rows else ""
    note = f'<p class="small">{html.escape(block.note)}</p>' if block.note else ""
    return f'<div class="answer">{sentences}</div>{table}{note}'


def _leading(drawings: Sequence[tuple[str, Drawing]]) -> list[Drawing]:
    """Return the one or two drawings that carry the answer: of the first figures that do."""
    able = [
        (group, drawing)
        for group, drawing in drawings
        if FIGURES[group].carries_answer and drawing.figure is not None
    ]
    firsts = dict(reversed(able))
    of_each = [drawing for _, drawing in able if drawing in firsts.values()]
    return [*of_each, *(drawing for _, drawing in able if drawing not in of_each)][:_MOST_LEADING]


def _folded(drawing: Drawing, section: str) -> str:
    """Return a section that is closed until the reader opens it."""
    return f"<details class=fold><summary>{html.escape(drawing.title)}</summary>{section}</details>"


def _counted_runs(runs: Sequence[ReportRun]) -> str:
    return f"{len(runs):,} run{'s' if len(runs) != 1 else ''}"


def _section(drawing: Drawing, picture: str, table_links: str, runs: Sequence[ReportRun]) -> str:
    parts = [f'<section id="{drawing.name}">', f"<h2>{html.escape(drawing.title)}</h2>"]
    if drawing.missing:
        parts.append(f'<p class="missing">Nothing to show: {html.escape(drawing.missing)}</p>')
    parts.append(picture)
    if drawing.caption:
        parts.append(f'<p class="caption">{html.escape(drawing.caption)}</p>')
    if runs:
        parts.append(f'<p class="caption">Scale: {html.escape(about.scale(runs))}.</p>')
    if drawing.table is not None:
        table = drawing.table.to_html() + table_links
        if picture:
            table = f"<details><summary>The numbers</summary>{table}</details>"
        parts.append(table)
    if runs:
        parts.append(_drawn_from(runs))
    return "\n".join([*parts, "</section>"])


def _told(runs: Sequence[ReportRun]) -> str:
    """Return in HTML the assumptions of a page's runs, and outcomes that their traces recorded."""
    stored = [run.stored for run in runs]
    texts = [("told", f"Warning: {text}.") for text in assumptions.lines(stored)]
    texts += [("small", f"{line}.") for line in as_recorded.recorded_lines(stored)]
    return "\n".join(f'<p class="{style}">{html.escape(text)}</p>' for style, text in texts)


def _in_mlflow(runs: Sequence[ReportRun]) -> str:
    """Return in HTML how to find a page's runs in MLflow, by their sweeps."""
    sweeps = dict.fromkeys(str(run.stored.manifest.get("sweep") or "") for run in runs)
    searches = [f"<code>tags.sweep = '{html.escape(sweep)}'</code>" for sweep in sweeps if sweep]
    if not searches:
        return ""
    return (
        '<p class="small">To compare them in MLflow: <code>python -m harness.tracking</code> fills'
        " its store, <code>make ui</code> opens it, and the search"
        f" {' or '.join(searches)} finds them.</p>"
    )


def _drawn_from(runs: Sequence[ReportRun]) -> str:
    """Return in HTML the runs of a figure, each a link to its facts in the page's list."""
    items = "".join(
        f'<li><a href="#{_anchor(run)}">{html.escape(run.run_id)}</a></li>' for run in runs
    )
    count = _counted_runs(runs)
    return f'<details><summary>Drawn from {count}</summary><ul class="runs">{items}</ul></details>'


def _anchor(run: ReportRun) -> str:
    return html.escape(f"run-{run.run_id}")


def _link(drawing: Drawing) -> str:
    empty = ' class="empty"' if drawing.missing else ""
    return f'<li><a href="#{drawing.name}"{empty}>{html.escape(drawing.title)}</a></li>'


def _summary(runs: Sequence[ReportRun]) -> str:
    live = [run for run in runs if run.is_live]
    executed = sum(run.stored.facts.get("steps_executed", 0.0) for run in live)
    credited = sum(run.stored.facts.get("steps_credited", 0.0) for run in live)
    text = f"{len(runs)} runs, {len(live)} of them live"
    if live:
        share = executed / max(executed + credited, 1.0)
        text += (
            f" ({sum(run.is_emulated for run in live)} at emulated pace);"
            f" {executed:,.0f} training steps were really executed, {100 * share:.3g}% of all steps"
        )
    return f"{text}. {style.note(runs).partition('; ')[2].capitalize()}".rstrip(". ") + "."


def _facts(run: ReportRun, out: Path) -> str:
    manifest = run.stored.manifest
    hardware, trace = manifest.get("hardware", {}), manifest.get("trace", {})
    profile = manifest.get("profile", {})
    commit = str(manifest.get("git_commit") or "unknown")[:12]
    facts = {
        "setting": run.setting,
        "system": run.label,
        "engine": run.engine + (" (emulated pace)" if run.is_emulated else ""),
        "seed, repetition": f"{run.trial[0]}, {run.trial[1]}",
        "made": manifest.get("created", "unknown"),
        "code": commit + (" with changes" if manifest.get("git_dirty") else ""),
        "machine": about.machine(hardware)
        + ("" if hardware.get("accelerators") else ", no accelerator"),
        "load at the start": _load(manifest.get("load", {})),
        "packages": ", ".join(f"{k} {v}" for k, v in manifest.get("packages", {}).items()),
        "trace": f"{trace.get('name', '?')}, {trace.get('num_jobs', '?')} jobs,"
        f" {trace.get('licence', 'licence unknown')}, sha256 {str(trace.get('digest'))[:16]}",
        "not recorded in it": ", ".join(run.generated),
        "profile": f"{profile.get('source', profile.get('name', 'unknown'))}"
        + (" (measured here)" if run.profile_measured_here else " (not measured here)"),
        "config hash": str(manifest.get("config_hash", "unknown"))[:16],
        "manifest": shown(text_path(run.stored.path, MANIFEST)),
    }
    rows = "".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(str(value))}</dd>"
        for key, value in facts.items()
        if value
    )
    config = shown(text_path(run.stored.path, CONFIG))
    again = f"python -m harness --from {shlex.quote(str(config))}"
    timeline = perfetto_path(out, run.run_id)
    link = timeline.relative_to(out).as_posix() if timeline else ""
    opened = f'<p>Timeline for <a href="{html.escape(link)}" download>Perfetto</a></p>'
    return (
        f"<details><summary>{html.escape(run.run_id)}</summary>"
        f'<dl id="{_anchor(run)}">{rows}</dl>'
        f"<p>Run it again: <code>{html.escape(again)}</code></p>{opened if link else ''}</details>"
    )


def _load(load: dict[str, float]) -> str:
    return f"{load['load_1min']} (1 min average)" if "load_1min" in load else ""
