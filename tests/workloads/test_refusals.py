"""Options and files that cannot be are refused with place, fact and way out."""

import pickle

import numpy as np
import pytest

from tests.workloads.test_real_loaders import write_cifar, write_image_folder, write_sst2
from workloads.data import digits
from workloads.data.base import DataError
from workloads.language import BERT
from workloads.memory import main
from workloads.toy import Toy
from workloads.translation import Transformer
from workloads.vision import VGG16, ResNet50

FOUR = [ResNet50, VGG16, BERT, Transformer]


@pytest.mark.parametrize("kind", FOUR)
def test_unknown_size_lists_the_known(kind):
    known = "tiny, small, paper" + (", edl" if kind is Transformer else "")
    with pytest.raises(ValueError, match=rf"^unknown size 'huge'; known: {known}$"):
        kind(size="huge")


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (ResNet50, "cifar10, cifar100, digits, food101, imagefolder, synthetic"),
        (BERT, "glue_sst2, synthetic"),
        (Transformer, "synthetic"),
        (Toy, "digits"),
    ],
)
def test_unknown_data_lists_the_known(kind, known):
    with pytest.raises(ValueError, match=f"unknown data 'mnist'; known: {known}$"):
        kind(data="mnist")


def test_all_problems_are_told_at_once():
    with pytest.raises(ValueError, match="unknown size") as caught:
        VGG16(size="big", data="cifar10", learning_rate=-1, warmup_steps=-2, evaluation_samples=0)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    for line, word in zip(
        lines, ["size", "root", "learning_rate", "warmup_steps", "evaluation_samples"], strict=True
    ):
        assert word in line


def test_data_with_files_needs_a_root():
    with pytest.raises(ValueError, match="data 'imagefolder' reads files, but root is not set"):
        ResNet50(data="imagefolder")


def test_root_without_files_is_refused():
    with pytest.raises(ValueError, match=r"reads no files; remove root, or choose .*cifar10"):
        ResNet50(data="digits", root="somewhere")
    with pytest.raises(ValueError, match=r"reads no files; .*none here"):
        Transformer(root="somewhere")


def test_toy_needs_a_hidden_unit():
    with pytest.raises(ValueError, match="hidden is 0; it must be at least 1"):
        Toy(hidden=0)


def test_missing_cifar_files_are_all_named(tmp_path):
    write_cifar(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-bin" / "data_batch_2.bin").unlink()
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    with pytest.raises(DataError) as caught:
        ResNet50(data="cifar10", root=str(tmp_path))
    assert len(caught.value.problems) == 2
    for problem, name in zip(
        caught.value.problems, ["data_batch_2.bin", "test_batch.bin"], strict=True
    ):
        assert f"cifar-10-batches-bin/{name}: not found; " in problem
        assert "https://www.cs.toronto.edu/~kriz/cifar.html" in problem


def test_malformed_cifar_files(tmp_path):
    write_cifar(tmp_path / "cifar")
    with (tmp_path / "cifar" / "data_batch_1.bin").open("ab") as file:
        file.write(b"more")
    records = np.fromfile(tmp_path / "cifar" / "data_batch_4.bin", dtype=np.uint8)
    records[3073] = 77
    records.tofile(tmp_path / "cifar" / "data_batch_4.bin")
    (tmp_path / "cifar" / "test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        VGG16(data="cifar10", root=str(tmp_path / "cifar"))
    first, second, third = caught.value.problems
    assert "data_batch_1.bin: 12296 bytes is not a whole number of 3073-byte records" in first
    assert "data_batch_4.bin: label 77 is outside 0..9" in second
    assert "test_batch.bin: 0 bytes" in third


def test_image_folder_without_its_parts(tmp_path):
    with pytest.raises(DataError) as caught:
        ResNet50(data="imagefolder", root=str(tmp_path / "nowhere"))
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        str(tmp_path / "nowhere" / "train"),
        str(tmp_path / "nowhere" / "val"),
    ]
    assert all("train/CLASS/PICTURE" in problem for problem in caught.value.problems)


def test_image_folder_with_a_stranger_among_its_classes(tmp_path):
    write_image_folder(tmp_path)
    (tmp_path / "val" / "horse").mkdir()
    for path in (tmp_path / "train").glob("*/*.png"):
        path.unlink()
    with pytest.raises(DataError) as caught:
        ResNet50(data="imagefolder", root=str(tmp_path))
    stranger, empty = caught.value.problems
    assert "class 'horse' is not among the 2 classes of" in stranger
    assert str(tmp_path / "train") in empty
    assert "no picture" in empty


def test_broken_picture_is_named_when_it_is_read(tmp_path):
    write_image_folder(tmp_path)
    (tmp_path / "train" / "cat" / "1.png").write_bytes(b"this is no picture")
    workload = ResNet50(data="imagefolder", root=str(tmp_path))
    workload.samples([0, 2])
    with pytest.raises(DataError, match=r"cat/1\.png: cannot be read as a picture .* replace or"):
        workload.samples([0, 1])


def test_sst2_problems_of_both_files(tmp_path):
    write_sst2(tmp_path / "SST-2")
    (tmp_path / "SST-2" / "dev.tsv").unlink()
    with (tmp_path / "SST-2" / "train.tsv").open("a") as file:
        file.write("no label here\n\t1\nunsure\t2\n" + "x\n" * 20)
    with pytest.raises(DataError) as caught:
        BERT(data="glue_sst2", root=str(tmp_path))
    problems = caught.value.problems
    assert "train.tsv:6: 'no label here' is not a sentence, a TAB and 0 or 1" in problems[0]
    assert "train.tsv:7: " in problems[1]
    assert "train.tsv:8: " in problems[2]
    assert "and 13 more lines like these" in problems[10]
    assert "dev.tsv: not found; unpack SST-2.zip" in problems[11]
    assert len(problems) == 12


@pytest.mark.parametrize("text", ["", "label\tsentence\n1\tfine\n", "sentence\tlabel\n"])
def test_sst2_header_and_emptiness(tmp_path, text):
    write_sst2(tmp_path)
    (tmp_path / "train.tsv").write_text(text)
    with pytest.raises(DataError, match=r"train\.tsv.*(header|no sentence).*unpack SST-2\.zip"):
        BERT(data="glue_sst2", root=str(tmp_path))


def test_digits_that_are_not_where_they_should_be(tmp_path, monkeypatch):
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "sklearn", raising=False)
    with pytest.raises(DataError, match=r"digits\.csv\.gz: .* install scikit-learn"):
        digits.digits_path()


def test_data_errors_survive_the_way_between_processes():
    error = pickle.loads(pickle.dumps(DataError(["one", "two"])))
    assert error.problems == ["one", "two"]
    assert str(error) == "one\ntwo"


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["workloads.nowhere.Toy"], "there is no module 'workloads.nowhere'"),
        (["workloads.toy.Game"], "Game"),
        (["workloads.toy.Toy", "size=huge"], "known: tiny"),
        (["workloads.toy.Toy", "size"], "NAME=VALUE"),
        (["workloads.toy.Toy", "hidden=0"], "hidden is 0"),
        (["workloads.vision.VGG16", "data=cifar10", "root=nowhere"], "data_batch_1.bin"),
    ],
)
def test_memory_command_refuses_without_a_traceback(argv, fact, capsys):
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert fact in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
