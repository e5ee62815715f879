"""The real loaders of questions, reviews, ratings, speech, boxes and more pictures, on tiny files
of the same format."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from workloads.data.aclimdb import open_aclimdb
from workloads.data.base import DataError
from workloads.data.cifar import CIFAR100, open_cifar
from workloads.data.food101 import open_food101
from workloads.data.interactions import interaction_set
from workloads.data.librispeech import LETTERS, open_librispeech
from workloads.data.movielens import read_movielens
from workloads.data.squad import open_squad
from workloads.data.voc import CLASSES, open_voc
from workloads.data.words import token
from workloads.detection import YOLOv3
from workloads.gpt2 import GPT2
from workloads.question_answering import BertQA, Electra
from workloads.recommendation import NeuMF
from workloads.residual import ResNet18
from workloads.speech import DeepSpeech2

soundfile = pytest.importorskip("soundfile")


def problems(open_it, *arguments):
    with pytest.raises(DataError) as caught:
        open_it(*arguments)
    return caught.value.problems


def write_cifar100(folder, count=4):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train.bin", "test.bin"):
        records = np.zeros((count, 3074), dtype=np.uint8)
        records[:, 0] = 3  # the group
        records[:, 1] = [99 - k for k in range(count)]
        records[:, 2:] = np.arange(count, dtype=np.uint8)[:, None] * 10
        records.tofile(folder / name)


@pytest.mark.parametrize("folder", ["cifar-100-binary", "."])
def test_cifar100(tmp_path, folder):
    write_cifar100(tmp_path / folder)
    data = open_cifar(CIFAR100, str(tmp_path), 32)
    assert (len(data.train), len(data.held_out), data.num_labels) == (4, 4, 100)
    batch = data.train.samples([0, 3])
    assert batch["label"].tolist() == [99, 96]
    assert (batch["image"] * 62 + 118).round()[:, 2, 31, 31].tolist() == [0, 30]
    (tmp_path / folder / "train.bin").write_bytes(b"x" * 3073)
    assert (
        "3073 bytes is not a whole number of 3074-byte records (2 labels"
        in (problems(open_cifar, CIFAR100, str(tmp_path), 32)[0])
    )


def write_food(root):
    folder = root / "food-101"
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "classes.txt").write_text("apple_pie\nsushi\n")
    for part, names in (("train", ("1", "2")), ("test", ("3",))):
        lines = [f"{kind}/{name}" for kind in ("apple_pie", "sushi") for name in names]
        (folder / "meta" / f"{part}.txt").write_text("\n".join(lines) + "\n")
        for line in lines:
            path = folder / "images" / f"{line}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40, 50), (200, 0, 0) if "pie" in line else (0, 0, 200)).save(path)


def test_food101(tmp_path):
    write_food(tmp_path)
    data = open_food101(str(tmp_path), 32)
    assert (len(data.train), len(data.held_out), data.num_labels) == (4, 2, 2)
    batch = data.train.samples([1, 2])
    assert batch["label"].tolist() == [0, 1]
    assert batch["image"][0, 0].mean() > 1 > batch["image"][1, 0].mean()
    (tmp_path / "food-101" / "images" / "sushi" / "3.jpg").unlink()
    assert "test.txt:2:" in problems(open_food101, str(tmp_path), 32)[0]
    assert "meta/classes.txt: not found" in problems(open_food101, str(tmp_path / "x"), 32)[0]


def write_squad(folder):
    context = "The tower was built in 1889. It is 330 metres tall, says the guide."
    asked = [
        ("How tall is it?", "330 metres"),
        ("When was it built?", "1889"),
        ("Who says so?", "the guide"),
    ]
    content = {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": context,
                        "qas": [
                            {
                                "id": str(number),
                                "question": question,
                                "answers": [{"text": text, "answer_start": context.index(text)}],
                            }
                            for number, (question, text) in enumerate(asked)
                        ],
                    }
                ]
            }
        ]
    }
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize("length", [12, 16, 32])
def test_squad_shows_the_answer_whatever_the_length(tmp_path, length):
    write_squad(tmp_path)
    data = open_squad(str(tmp_path), 5000, length)
    assert (len(data.train), len(data.held_out)) == (3, 3)
    batch = data.train.samples([0, 1, 2])
    answers = [
        row[start : end + 1].tolist()
        for row, start, end in zip(batch["tokens"], batch["start"], batch["end"], strict=True)
    ]
    assert answers == [
        [token(word, 5000) for word in text.split()] for text in ("330 metres", "1889", "the guide")
    ]
    assert batch["tokens"].shape == (3, length)
    assert (batch["segment"].sum(dim=1) > 0).all()
    assert torch.equal(batch["mask"], (batch["tokens"] != 0).long())


def test_squad_bad_files(tmp_path):
    assert "train-v1.1.json: not found" in problems(open_squad, str(tmp_path), 100, 16)[0]
    write_squad(tmp_path)
    path = tmp_path / "train-v1.1.json"
    path.write_text(path.read_text().replace('"answer_start": ', '"answer_start": 9'))
    assert (
        "answer of question '0' is not in its paragraph"
        in (problems(open_squad, str(tmp_path), 100, 16)[0])
    )
    path.write_text("[1]")
    assert "not SQuAD 1.1" in problems(open_squad, str(tmp_path), 100, 16)[0]


def write_reviews(root):
    for part in ("train", "test"):
        for kind in ("pos", "neg"):
            folder = root / "aclImdb" / part / kind
            folder.mkdir(parents=True)
            for number in range(2):
                (folder / f"{number}_8.txt").write_text(f"A {kind} film, " * (1 + 4 * number))


def test_aclimdb(tmp_path):
    write_reviews(tmp_path)
    data = open_aclimdb(str(tmp_path), 1000, 8)
    assert (len(data.train), len(data.held_out)) == (4, 4)
    batch = data.train.samples([2, 3])
    words = [token(word, 1000) for word in ("a", "pos", "film", ",")]
    assert batch["label"][0].tolist() == [*words, 2, 0, 0, 0]
    assert batch["label"][1].tolist() == words * 2
    assert batch["tokens"][0].tolist() == [1, *words, 2, 0, 0]
    assert batch["weight"].sum(dim=1).tolist() == [5.0, 8.0]
    assert len(problems(open_aclimdb, str(tmp_path / "x"), 1000, 8)) == 4


RATINGS = [(5, 10, 1), (5, 11, 3), (5, 12, 2), (9, 11, 5), (9, 13, 4), (7, 10, 1)]


@pytest.mark.parametrize(
    ("name", "separator", "header"),
    [
        ("ml-1m/ratings.dat", "::", ""),
        ("ml-20m/ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
        ("ml-100k/u.data", "\t", ""),
        ("u.data", "\t", ""),
    ],
)
def test_movielens(tmp_path, name, separator, header):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    rows = [separator.join(map(str, (user, item, 4, at))) for user, item, at in RATINGS]
    path.write_text(header + "\n".join(rows) + "\n")
    found = read_movielens(str(tmp_path))
    assert (found.num_users, found.num_items, found.num_rows) == (2, 4, 3)
    assert found.held_out(np.array([0, 1])).tolist() == [1, 1]  # the latest of each: item 11
    users, items = found.rows(np.arange(3))
    assert list(zip(users.tolist(), items.tolist(), strict=True)) == [(0, 0), (0, 2), (1, 3)]
    assert found.met(np.array([0, 1]), np.array([[0, 1, 2], [0, 3, 3]])).tolist() == [
        [True, False, True],
        [False, True, True],
    ]


def test_movielens_bad_files(tmp_path):
    assert "none of ml-1m/ratings.dat" in problems(read_movielens, str(tmp_path))[0]
    (tmp_path / "u.data").write_text("a\tb\tc\td\n")
    assert "not a file of ratings" in problems(read_movielens, str(tmp_path))[0]
    (tmp_path / "u.data").write_text("1\t2\t3\t4\n")
    assert "no user has two ratings" in problems(read_movielens, str(tmp_path))[0]


def test_items_not_met_are_not_met(tmp_path):
    rows = [
        f"{user}\t{item}\t4\t{item}"
        for user in range(6)
        for item in range(20 * user, 20 * user + 30)
    ]
    (tmp_path / "u.data").write_text("\n".join(rows))
    found = read_movielens(str(tmp_path))
    data = interaction_set(found, seed=1)
    ids = range(len(data.train))
    batch = data.train.samples(ids)
    met = found.met(batch["user"].numpy(), batch["item"].numpy()[:, None])[:, 0]
    assert met[batch["label"].numpy() == 1].all()
    assert met[batch["label"].numpy() == 0].mean() < 0.01
    other = data.augmented(batch, 2, np.arange(len(ids)))
    assert other["item"][batch["label"] == 1].equal(batch["item"][batch["label"] == 1])
    anew = other["item"][batch["label"] == 0]
    assert (anew != batch["item"][batch["label"] == 0]).any()
    assert found.met(other["user"].numpy(), other["item"].numpy()[:, None])[:, 0].mean() < 0.22
    ranked = data.held_out.samples(range(6))["item"]
    assert ranked.shape == (6, 100)
    assert (ranked[:, 1:] != ranked[:, :1]).all()


def write_speech(root, seconds=(0.5, 0.25)):
    for part in ("train-clean-100", "dev-clean"):
        folder = root / "LibriSpeech" / part / "1" / "2"
        folder.mkdir(parents=True)
        lines = []
        for number, length in enumerate(seconds):
            wave = np.sin(np.arange(int(16_000 * length)) * (0.1 + 0.2 * number)) * 0.5
            soundfile.write(folder / f"1-2-{number}.flac", wave.astype(np.float32), 16_000)
            lines.append(f"1-2-{number} IT'S {'A' * number}B")
        (folder / "1-2.trans.txt").write_text("\n".join(lines) + "\n")


def test_librispeech(tmp_path):
    write_speech(tmp_path)
    data = open_librispeech(str(tmp_path), bins=16, frames=60)
    assert (len(data.train), len(data.held_out), data.num_labels) == (2, 2, 28)
    batch = data.train.samples([0, 1])
    assert batch["spectrum"].shape == (2, 16, 60)
    assert batch["num_frames"].tolist() == [51, 26]
    assert batch["num_letters"].tolist() == [6, 7]
    said = ["".join(LETTERS[i - 1] for i in row.tolist() if i) for row in batch["letters"]]
    assert said == ["IT'S B", "IT'S AB"]
    low, high = (batch["spectrum"][row, :, :20].mean(dim=1).argmax() for row in (0, 1))
    assert low < high  # the second tone is higher
    assert not batch["spectrum"][1, :, 26:].any()
    assert len(open_librispeech(str(tmp_path), 16, 30).train) == 1


def test_librispeech_bad_files(tmp_path):
    assert len(problems(open_librispeech, str(tmp_path), 16, 60)) == 2
    write_speech(tmp_path)
    listed = tmp_path / "LibriSpeech" / "dev-clean" / "1" / "2" / "1-2.trans.txt"
    listed.write_text("1-2-0 small\n1-2-9 BIG\n")
    first, second = problems(open_librispeech, str(tmp_path), 16, 60)
    assert "1-2.trans.txt:1: has 'alms'" in first
    assert "1-2-9.flac is not there" in second


def thing(name, box, difficult=0):
    left, top, right, bottom = box
    return (
        f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox><xmin>{left}</xmin>"
        f"<ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
    )


def write_voc(root, years=("VOC2007",)):
    for year in years:
        folder = root / "VOCdevkit" / year
        for name in ("ImageSets/Main", "JPEGImages", "Annotations"):
            (folder / name).mkdir(parents=True)
        for part in ("trainval", "test"):
            names = [f"{part}{number}" for number in range(2)]
            (folder / "ImageSets" / "Main" / f"{part}.txt").write_text("\n".join(names) + "\n")
            for name in names:
                Image.new("RGB", (100, 50), (10, 200, 10)).save(
                    folder / "JPEGImages" / f"{name}.jpg"
                )
                things = thing("dog", (10, 10, 30, 30)) + thing("car", (0, 0, 100, 50))
                (folder / "Annotations" / f"{name}.xml").write_text(
                    f"<annotation><size><width>100</width><height>50</height></size>{things}"
                    f"{thing('cat', (1, 1, 9, 9), difficult=1)}</annotation>"
                )


@pytest.mark.parametrize("years", [("VOC2007",), ("VOC2007", "VOC2012")])
def test_voc(tmp_path, years):
    write_voc(tmp_path, years)
    data = open_voc(str(tmp_path), 64)
    assert (len(data.train), len(data.held_out), data.num_labels) == (2 * len(years), 2, 20)
    batch = data.train.samples([0, 1])
    assert batch["image"].shape == (2, 3, 64, 64)
    found = batch["classes"][0]
    assert [CLASSES[kind] for kind in found[:2].tolist()] == ["car", "dog"]
    assert (found[2:] == -1).all()
    assert torch.allclose(batch["boxes"][0, 0], torch.tensor([0.5, 0.5, 1.0, 1.0]))
    assert torch.allclose(batch["boxes"][0, 1], torch.tensor([0.2, 0.4, 0.2, 0.4]))


def test_voc_bad_files(tmp_path):
    assert "trainval.txt: not found" in problems(open_voc, str(tmp_path), 64)[0]
    write_voc(tmp_path)
    folder = tmp_path / "VOCdevkit" / "VOC2007"
    described = folder / "Annotations" / "test0.xml"
    described.write_text(described.read_text().replace("dog", "dragon"))
    (folder / "JPEGImages" / "test1.jpg").unlink()
    first, second = problems(open_voc, str(tmp_path), 64)
    assert "test0.xml: not a description of VOC" in first
    assert "test.txt:2:" in second


def test_workloads_train_on_files(tmp_path):
    write_squad(tmp_path)
    write_reviews(tmp_path)
    write_speech(tmp_path)
    write_voc(tmp_path)
    write_food(tmp_path)
    write_cifar100(tmp_path / "cifar-100-binary")
    rows = [f"{user}\t{item}\t4\t{item}" for user in range(6) for item in range(200)]
    (tmp_path / "u.data").write_text("\n".join(rows))
    root = str(tmp_path)
    for workload in (
        BertQA(data="squad", root=root),
        Electra(data="squad", root=root),
        GPT2(data="aclimdb", root=root),
        NeuMF(data="movielens", root=root),
        DeepSpeech2(data="librispeech", root=root),
        YOLOv3(data="voc", root=root),
        ResNet18(data="food101", root=root),
        ResNet18(data="cifar100", root=root),
    ):
        model = workload.build_model(0)
        loss = workload.loss(model, workload.samples(range(min(4, workload.num_samples))))
        loss.backward()
        assert torch.isfinite(loss), workload.name
        assert all(np.isfinite(value) for value in workload.evaluate(model).values())
