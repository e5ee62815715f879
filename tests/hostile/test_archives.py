"""Archives that lead elsewhere, or stand for more than a disk or a memory holds."""

import io
import lzma
import tarfile

import pytest

from harness.results import archive
from harness.results.archive import UNPACKED, ArchiveError, archive_of, is_archive, pack, unpacked


@pytest.fixture
def packed(tmp_path):
    """Writes an archive of these entries and bytes, and gives its path."""

    def write(*entries, tail=b""):
        content = io.BytesIO()
        for entry, data in entries:
            content.write(entry.tobuf(tarfile.GNU_FORMAT))
            content.write(data + bytes(-len(data) % 512))
        path = tmp_path / "results" / "study.tar.xz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lzma.compress(content.getvalue() + bytes(1024)) + tail)
        return path

    return write


def entry(name="study/run/manifest.json", size=0, kind=tarfile.REGTYPE, link=""):
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = size, kind, link
    return found


def refused(path, fact):
    with pytest.raises(ArchiveError, match=fact):
        unpacked(path)
    assert [each for each in path.parent.rglob("*") if each.is_file()] == [path]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(packed, kind):
    refused(packed((entry(kind=kind, link="/etc/passwd"), b"")), "is no file of a run")


def test_a_sparse_file_of_a_terabyte_is_refused(packed):
    sparse = entry(kind=tarfile.GNUTYPE_SPARSE)
    buffer = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    buffer[483:495] = b"\x80" + (1 << 40).to_bytes(11, "big")  # the size that it says it has
    buffer[148:156] = b"        "
    buffer[148:156] = f"{sum(buffer):06o}\0 ".encode()
    path = packed()
    path.write_bytes(lzma.compress(bytes(buffer) + bytes(1024)))
    refused(path, "is no file of a run")


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_an_announced_size_is_judged_before_memory_is_taken(packed, kind):
    refused(packed((entry(size=1 << 40, kind=kind), b"")), "is to hold 1,099,511,627,776 bytes")


def test_an_archive_that_unpacks_to_more_than_its_bound_is_refused(packed, monkeypatch):
    monkeypatch.setattr(archive, "_MOST_UNPACKED_BYTES", 1 << 20)
    refused(packed((entry(size=2 << 20), bytes(2 << 20))), "more than 1,048,576 bytes")


def test_more_files_than_any_study_has_are_refused(packed, monkeypatch):
    monkeypatch.setattr(archive, "_MOST_FILES", 3)
    entries = [(entry(f"study/run/f{number}"), b"") for number in range(4)]
    refused(packed(*entries), "than any study")


def test_a_dictionary_of_gigabytes_is_refused(packed):
    path = packed()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    path.write_bytes(lzma.compress(bytes(1024), filters=filters))
    refused(path, "[Mm]emory")


def test_what_is_cut_off_is_found(packed):
    path = packed((entry(size=3), b"{} "))
    path.write_bytes(path.read_bytes()[:-8])
    refused(path, "ends in the middle")


def test_nothing_is_unpacked_through_a_link(packed, tmp_path):
    """Old copies are removed from the place, too: through a link those of another project."""
    path = packed((entry(), b""))
    other = tmp_path / "home" / "project" / "study"
    other.mkdir(parents=True)
    (path.parent / UNPACKED).symlink_to(tmp_path / "home")
    with pytest.raises(ArchiveError, match="is a link; remove it"):
        unpacked(path)
    assert [each.name for each in (tmp_path / "home").iterdir()] == ["project"]
    assert other.is_dir()


def test_only_unpacked_copies_are_removed(packed):
    path = packed((entry(), b""))
    other = path.parent / UNPACKED / "notes" / "study"
    other.mkdir(parents=True)
    unpacked(path)
    assert other.is_dir()


def test_a_name_of_dots_is_no_study(tmp_path):
    path = tmp_path / "...tar.xz"
    path.write_bytes(b"")
    assert not is_archive(path)


def test_a_study_may_be_called_like_a_pattern(tmp_path):
    folder = tmp_path / "study[1]"
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "manifest.json").write_text("{}")
    pack(folder)
    assert (unpacked(archive_of(folder)) / "run" / "manifest.json").read_text() == "{}"
