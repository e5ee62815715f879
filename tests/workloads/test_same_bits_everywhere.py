"""The same bits in every process, and only the libraries a workload needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from workloads.data.counter import random_floats, random_integers, random_words
from workloads.data.synthetic import marked_texts, mirrored_sentences, synthetic_pictures

ROOT = Path(__file__).parents[2]
GOLDEN = [
    [18059701009681773015, 2326800485779257495],
    [6354348466441920537, 10718510012347536179],
    [1819794168979943931, 7216546790241023084],
]
PROCESS = """
import hashlib, importlib, json, sys

loaded = {}
for module in sys.argv[1:]:
    importlib.import_module(module)
    names = ("torchvision", "transformers", "sklearn", "workloads.vision")
    loaded[module] = [name for name in names if name in sys.modules]

import torch
from workloads.language import BERT
from workloads.toy import Toy
from workloads.translation import Transformer
from workloads.vision import VGG16, ResNet50

torch.set_num_threads(1)
digests = {}
for kind in (Toy, Transformer, VGG16, ResNet50, BERT):
    workload = kind()
    model = workload.build_model(11)
    optimizer = workload.build_optimizer(model)
    torch.manual_seed(2)
    workload.loss(model, workload.samples([1, 2, 700, 3])).backward()
    workload.update(optimizer, 4, 0)
    digest = hashlib.blake2b()
    for value in model.state_dict().values():
        digest.update(value.numpy().tobytes())
    digests[workload.name] = digest.hexdigest()
print(json.dumps([loaded, digests]))
"""


def fresh(code, *words, **environment):
    """What a fresh interpreter prints."""
    result = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.long
def test_processes_compute_the_same_bits_and_load_what_they_need():
    """Two interpreters answer both, as each loads all libraries for seconds.

    What a module loads shows in what is loaded after it, so the order is from little to much.
    """
    names = ("toy", "translation", "language", "vision")
    rising = [f"workloads.{name}" for name in names]
    loaded, first = json.loads(fresh(PROCESS, *rising, PYTHONHASHSEED="1"))
    assert loaded["workloads.toy"] == []
    assert loaded["workloads.translation"] == []
    assert not {"workloads.vision", "sklearn"} & set(loaded["workloads.language"])
    loaded, second = json.loads(fresh(PROCESS, "workloads.vision", PYTHONHASHSEED="2"))
    assert not {"transformers", "sklearn"} & set(loaded["workloads.vision"])
    assert first == second
    assert len(set(first.values())) == 5


def test_operators_are_declared_once_and_torchvision_works():
    code = """
import workloads.operators as operators
again = operators.declare_missing()
import torch, torchvision
from torchvision.models import vgg11
from torchvision.transforms.functional import hflip
assert again[1] == (), again
assert all(hasattr(torch.ops.torchvision, name) for name in ("nms", "qnms"))
with torch.device("meta"):
    assert vgg11()(torch.empty(2, 3, 64, 64)).shape == (2, 1000)
assert hflip(torch.tensor([[[1, 2]]])).tolist() == [[[2, 1]]]
print("works")
"""
    assert fresh(code).strip() == "works"


def test_random_words_never_change():
    """Digits' split, synthetic sets and so every accuracy depend on these numbers."""
    ids = np.array([0, 1, 10**9])
    assert random_words(0, "stream", ids, 2).tolist() == GOLDEN
    alone = random_words(0, "stream", ids[1:2], 2)
    assert alone.tolist() == GOLDEN[1:2]
    assert random_words(1, "stream", ids, 2).tolist() != GOLDEN
    assert random_words(0, "other", ids, 2).tolist() != GOLDEN


def test_random_numbers_are_uniform():
    ids = np.arange(20_000)
    counts = np.bincount(random_integers(3, "dice", ids, 6, 6).ravel(), minlength=6)
    # 120,000 throws: mean 20,000 a face, standard deviation 129.
    assert np.abs(counts - 20_000).max() < 650
    floats = random_floats(3, "noise", ids, 4)
    assert -1 <= floats.min() < -0.99
    assert 0.99 < floats.max() < 1
    assert abs(float(floats.mean())) < 0.01
    neighbours = np.corrcoef(floats[:-1, 0], floats[1:, 0])[0, 1]
    columns = np.corrcoef(floats[:, 0], floats[:, 1])[0, 1]
    assert max(abs(neighbours), abs(columns)) < 0.03


def test_texts_carry_their_label():
    data = marked_texts(4_000, num_labels=4, vocabulary=100, length=32, seed=5)
    batch = data.train.samples(range(500))
    tokens, labels = batch["tokens"].numpy(), batch["label"].numpy()
    assert (tokens[:, 0] == 1).all()
    assert tokens[:, 1:].min() >= 3
    assert tokens.max() < 100
    markers = np.stack([(tokens == 3 + label).sum(axis=1) for label in range(4)], axis=1)
    assert (markers.argmax(axis=1) == labels).all()
    assert (np.sort(markers, axis=1)[:, -1] > np.sort(markers, axis=1)[:, -2]).all()
    assert np.bincount(labels, minlength=4).min() > 80
    held_out = data.held_out.samples(range(500))["tokens"].numpy()
    assert not (held_out == tokens).all(axis=1).any()


def test_sentences_are_mirrored_and_moved_on():
    data = mirrored_sentences(100, vocabulary=20, length=6, seed=0)
    batch = {key: value.numpy() for key, value in data.train.samples(range(100)).items()}
    source, target, label = batch["source"], batch["target"], batch["label"]
    assert (target[:, 0] == 1).all()
    assert (label[:, -1] == 2).all()
    assert (target[:, 1:] == label[:, :-1]).all()
    for words, translation in zip(source.tolist(), label[:, :-1].tolist(), strict=True):
        assert translation == [3 + (word - 3 + 7) % 17 for word in reversed(words)]


def test_pictures_of_a_class_are_alike():
    data = synthetic_pictures(2_000, num_classes=5, image_size=32, seed=1)
    batch = data.train.samples(range(600))
    images, labels = batch["image"].flatten(1), batch["label"]
    assert batch["image"].shape == (600, 3, 32, 32)
    means = np.stack([images[labels == label].mean(dim=0).numpy() for label in range(5)])
    held_out = data.held_out.samples(range(200))
    distances = ((held_out["image"].flatten(1).numpy()[:, None] - means[None]) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == held_out["label"].numpy()).mean() > 0.95
