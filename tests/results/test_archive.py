"""All runs of a study as one file."""

import gzip
import io
import lzma
import multiprocessing
import shutil
import tarfile

import pytest

from harness import validate
from harness.results.archive import UNPACKED, archive_of, located, pack, shown, unpacked
from harness.results.store import StoreError, iter_runs, run_paths

FILES = {"first/manifest.json": b"{}", "first/jobs.csv.gz": b"\0\1", "second/manifest.json": b"[]"}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "machine" / "study"
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_an_archive_stands_for_the_folder_of_its_study(folder, tmp_path):
    archive = pack(folder)
    assert not folder.exists()
    assert archive == archive_of(folder) == tmp_path / "machine" / "study.tar.xz"
    paths = list(run_paths(tmp_path))
    assert [(path.parent.name, path.name) for path in paths] == [
        ("study", "first"),
        ("study", "second"),
    ]
    assert files(paths[0].parent) == FILES
    assert list(run_paths(archive)) == list(run_paths(folder)) == paths


def test_compressed_texts_are_unpacked_as_texts(folder):
    (folder / "third").mkdir()
    (folder / "third" / "config.yaml.gz").write_bytes(gzip.compress(b"a: 1"))
    (folder / "third" / "jobs.csv.gz").write_bytes(gzip.compress(b"a\n"))
    found = files(unpacked(pack(folder)))
    assert found["third/config.yaml"] == b"a: 1"
    assert gzip.decompress(found["third/jobs.csv.gz"]) == b"a\n"
    assert len(found) == len(FILES) + 2


def test_tables_are_packed_as_texts_and_stored_as_tables(folder):
    """What two runs have in common is then kept once, however each of them was compressed."""
    table = "".join(f"{n},{n * n % 977}\r\n" for n in range(4000)).encode()
    for run in range(8):
        path = folder / f"alike-{run}" / "steps.csv.gz"
        path.parent.mkdir()
        path.write_bytes(gzip.compress(table + b"%d" % run, 1, mtime=0))
    before = files(folder)
    alone = len(before["alike-0/steps.csv.gz"])
    archive = pack(folder)
    assert archive.stat().st_size < 2 * alone
    assert files(unpacked(archive)) == before


def test_archives_of_before_are_read_too(folder):
    """Those have their tables compressed one by one."""
    table = gzip.compress(b"a\n", 9)
    archive = archive_of(folder)
    with tarfile.open(archive, "w:xz") as tar:
        entry = tarfile.TarInfo("study/first/jobs.csv.gz")
        entry.size = len(table)
        tar.addfile(entry, io.BytesIO(table))
    assert files(unpacked(archive)) == {"first/jobs.csv.gz": table}


def test_the_same_runs_make_the_same_bytes(folder):
    content = pack(folder).read_bytes()
    unpacked(archive_of(folder)).rename(folder)
    assert pack(folder).read_bytes() == content


def test_another_archive_is_unpacked_anew_and_the_old_runs_are_gone(folder, tmp_path):
    shutil.copytree(unpacked(pack(folder)), folder)
    (folder / "second" / "manifest.json").write_bytes(b"new")
    after = unpacked(pack(folder))
    assert files(after) == {**FILES, "second/manifest.json": b"new"}
    assert len(list(run_paths(tmp_path))) == 2
    assert [path.name for path in (tmp_path / "machine" / UNPACKED).iterdir()] == [
        after.parent.name
    ]


def test_who_finishes_first_leaves_alone_what_others_are_unpacking(folder, tmp_path):
    archive = pack(folder)
    others = tmp_path / "machine" / UNPACKED / ".partial-0123-1" / "study"
    others.mkdir(parents=True)
    unpacked(archive)
    assert others.is_dir()


def test_half_copied_runs_are_not_packed(folder):
    (folder / ".partial-third").mkdir()
    (folder / ".partial-third" / "manifest.json").write_bytes(b"{}")
    assert files(unpacked(pack(folder))) == FILES


def test_a_folder_that_cannot_be_packed_stays(folder, monkeypatch):
    def full(path, content):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        pack(folder)
    assert files(folder) == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["study"]


def test_a_path_through_an_archive_leads_to_the_file(folder):
    archive = pack(folder)
    path = archive / "first" / "manifest.json"
    assert located(path).read_bytes() == FILES["first/manifest.json"]
    assert shown(located(path)) == path
    assert shown(located(archive / "first")) == archive / "first"
    assert located(folder / "first") == shown(folder / "first") == folder / "first"


def test_many_may_ask_at_once(folder):
    archive = pack(folder)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        (place,) = set(pool.map(unpacked, [archive] * 8))
    assert files(place) == FILES


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_damaged_archive_is_named_with_the_way_out(folder, capsys, damage):
    archive = pack(folder)
    archive.write_bytes(archive.read_bytes()[:-20] if damage is None else damage)
    with pytest.raises(
        StoreError, match=r"study\.tar\.xz: cannot be unpacked .*get the file again"
    ):
        list(iter_runs(archive.parent))


@pytest.mark.parametrize("name", ["../first/file", "study/../file", "/study/first/file", "file"])
def test_nothing_is_written_elsewhere(folder, tmp_path, name):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    archive = archive_of(folder)
    archive.write_bytes(lzma.compress(packed.getvalue()))
    before = files(tmp_path)
    with pytest.raises(StoreError, match="is no file of a run of study"):
        list(iter_runs(archive))
    assert files(tmp_path) == before


def test_validate_says_that_an_archive_is_damaged(folder, capsys):
    archive_of(folder).write_bytes(b"")
    assert validate.main([str(folder.parent)]) == 2
    assert "study.tar.xz: cannot be unpacked" in capsys.readouterr().err
