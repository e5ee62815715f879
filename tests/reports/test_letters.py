"""Names of whatever letters are drawn: no mathematics, no boxes."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from harness.cli import main as run_harness
from reports.__main__ import main as reports_main
from reports.drawing import letters, style
from reports.drawing.figure import Drawing
from reports.drawing.files import save_all
from reports.trace import main as trace_main

LABEL = "中文 $5_x^{ and $\\undefined{"
"""Mathematics that cannot be parsed, and letters that the figures' own font lacks."""


@pytest.fixture(autouse=True)
def fresh():
    """Nothing told, and nothing known of fonts."""
    letters._is_told.value = False
    letters._others.cache_clear()
    letters._width_elsewhere.cache_clear()
    yield
    letters._others.cache_clear()
    letters._width_elsewhere.cache_clear()


def save_han_font(path):
    """A font with two Chinese letters."""
    pen = TTGlyphPen(None)
    for x, y in ((100, 0), (100, 800), (900, 800), (900, 0)):
        (pen.lineTo if (x, y) != (100, 0) else pen.moveTo)((x, y))
    pen.closePath()
    glyph = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "zhong", "wen"])
    builder.setupCharacterMap({ord("中"): "zhong", ord("文"): "wen"})
    builder.setupGlyf(dict.fromkeys((".notdef", "zhong", "wen"), glyph))
    builder.setupHorizontalMetrics(dict.fromkeys((".notdef", "zhong", "wen"), (1000, 100)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Two Han Letters", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)


@pytest.fixture
def han_font(tmp_path):
    """A font with two Chinese letters, known to matplotlib for one test."""
    path = tmp_path / "han.ttf"
    save_han_font(path)
    listed = list(font_manager.fontManager.ttflist)
    font_manager.fontManager.addfont(path)
    font_manager.fontManager._findfont_cached.cache_clear()
    yield
    font_manager.fontManager.ttflist[:] = listed
    font_manager.fontManager._findfont_cached.cache_clear()


def figure_of(label):
    """A figure with the label in every place where names may be."""
    with mpl.rc_context(style.RC):
        figure = style.new_figure(4)
        left, right = figure.subplots(1, 2)
        left.bar([0, 1], [1, 2], label=label)
        left.set_xticks([0, 1], [label, "plain"])
        left.set_title(label)
        left.set_xlabel(label)
        left.text(0.5, 0.5, label)
        left.legend()
        right.plot([1, 10, 1000], [0.01, 10, 1000])
        right.set_xscale("log")
        right.set_yscale("symlog", linthresh=0.1)
        figure.suptitle(label)
    return figure


def saved(figure, folder):
    """The files of a figure; every warning of matplotlib is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (files,) = save_all(folder, [Drawing("x", "x", figure=figure)], ["png", "pdf", "svg"])
    assert all(path.stat().st_size for path in files)
    FigureCanvasAgg(figure).draw()
    return {text.get_text() for text in figure.findobj(Text) if text.get_text()}


def test_no_font_has_the_letters(tmp_path, capsys):
    if not letters._others(frozenset("中文"))[1]:
        pytest.skip("a font with Chinese letters is installed here")
    texts = saved(figure_of(LABEL), tmp_path)
    drawn = LABEL.replace("中文", "U+4E2DU+6587")
    assert drawn in texts
    assert not any("中" in text for text in texts)
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "warning: no installed font has some letters of the figures: 中 as U+4E2D, 文 as U+6587;"
        " install one (Noto Sans CJK has Chinese, Japanese and Korean)"
    ]
    saved(figure_of(LABEL), tmp_path)
    assert capsys.readouterr().err == ""


def test_an_installed_font_draws_them(tmp_path, capsys, han_font):
    figure = figure_of(LABEL)
    texts = saved(figure, tmp_path)
    assert LABEL in texts
    assert capsys.readouterr().err == ""
    families = {
        tuple(text.get_fontfamily()) for text in figure.findobj(Text) if "中" in text.get_text()
    }
    assert families == {(letters.FAMILY, "Two Han Letters")}


def test_other_texts_are_drawn_as_ever(tmp_path, capsys):
    figure = figure_of("naïve ½ → é Ж")
    saved(figure, tmp_path)
    assert {tuple(text.get_fontfamily()) for text in figure.findobj(Text)} == {(letters.FAMILY,)}
    assert capsys.readouterr().err == ""


def test_dollar_signs_are_no_mathematics(tmp_path):
    texts = saved(figure_of("$alpha$ costs $5 and $\\undefined{"), tmp_path)
    assert "$alpha$ costs $5 and $\\undefined{" in texts


def test_labels_of_logarithmic_axes_are_plain(tmp_path):
    texts = saved(figure_of("a"), tmp_path)
    assert {"10⁰", "10¹", "10²", "10³", "10⁻¹", "0"} <= texts
    assert not any("mathdefault" in text for text in texts)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("job", "job"),
        ("job-123456789-abc", "job-123456789…"),
        ("中" * 20, "中中…"),
        ("a$b$" * 60, "a$b$a$b$a$b$a…"),
    ],
)
def test_names_in_bars_are_as_wide_as_their_letters(text, shown):
    if "中" in text and not letters._others(frozenset("中文"))[1]:
        shown = "中" * 6 + "…"
    assert style.shorten(text, 14) == shown


def test_a_report_on_jobs_of_any_name(tmp_path, capsys):
    ids = ("a$b$c", "$\\undefined{", "中文ジョブ", "x" * 240, "../up/..", "<b>&amp;")
    rows = "".join(f"{10 * at},1,60,{name}\n" for at, name in enumerate(ids))
    folder = tmp_path / "Jörgs Läufe (neu)"
    folder.mkdir()
    (folder / "jobs.csv").write_text("at,gpus,ran,id\n" + rows, encoding="utf-8")
    path = folder / "中文 $5.yaml"
    path.write_text(
        "name: $x$ of 中文\nsource: a test\nlicence: none\nreader:\n"
        "  _target_: harness.trace.columns.ColumnsReader\n  path: jobs.csv\n"
        "  columns: {arrival: at, slots: gpus, duration: ran, job_id: id}\n",
        encoding="utf-8",
    )
    runs, site, figure = folder / "runs", folder / "site", folder / "trace.png"
    words = ["scheduler=fifo", "cluster=cpu4", f"results_dir={runs}", "tracking=none"]
    assert run_harness([f"trace={path}", *words, "progress=false"]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        out = ["--results", str(runs), "--out", str(site), "--formats", "png"]
        assert reports_main([*out, "--figures", "timeline", "jct_distribution"]) == 0
        assert trace_main([str(path), "--cluster", "cpu4", "--out", str(figure)]) == 0
    assert figure.stat().st_size
    assert len(list(site.glob("figures/*.png"))) == 2


FINDS = "from reports.drawing import letters; print(letters._others(frozenset('中')))"


def test_a_font_that_was_installed_after_matplotlib_made_its_list_is_found(tmp_path):
    """The list is kept between processes, so the first process here makes it."""
    folders = {"MPLCONFIGDIR": str(tmp_path / "mpl"), "XDG_DATA_HOME": str(tmp_path / "data")}
    (tmp_path / "data" / "fonts").mkdir(parents=True)

    def found() -> str:
        return subprocess.run(
            [sys.executable, "-c", FINDS],
            cwd=Path(__file__).parents[2],
            env={**os.environ, **folders},
            check=True,
            text=True,
            capture_output=True,
        ).stdout

    assert "Two Han Letters" not in found()
    assert list((tmp_path / "mpl").glob("fontlist*.json"))
    save_han_font(tmp_path / "data" / "fonts" / "han.ttf")
    assert "Two Han Letters" in found()
