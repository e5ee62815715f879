"""The real loaders, on tiny files of the same format."""

import gzip

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from workloads.data.cifar import CIFAR10, open_cifar
from workloads.data.digits import digits_path, open_digits
from workloads.data.glue import open_sst2
from workloads.data.imagefolder import open_image_folder
from workloads.language import BERT
from workloads.vision import ResNet50


def write_cifar(folder, per_file=4):
    """Five training files and a test file; pixel values tell file and record apart."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    for number, name in enumerate(names):
        records = np.full((per_file, 3073), 10 * number, dtype=np.uint8)
        records[:, 0] = [(number + k) % 10 for k in range(per_file)]
        records[:, 1:] += np.arange(per_file, dtype=np.uint8)[:, None]
        records[:, 1] = 255  # the first red pixel
        records.tofile(folder / name)


def write_image_folder(root):
    for part, count in (("train", 3), ("val", 1)):
        for name, colour in (("cat", (255, 0, 0)), ("dog", (0, 0, 255))):
            (root / part / name).mkdir(parents=True)
            for number in range(count):
                picture = Image.new("RGB", (50 + number, 40), colour)
                picture.save(root / part / name / f"{number}.png")
    (root / "train" / "cat" / "notes.txt").write_text("not a picture")


def write_sst2(folder):
    folder.mkdir(parents=True, exist_ok=True)
    train = [("a fine film", 1), ("A dull , dull film", 0), ("fine", 1), ("dull " * 40, 0)]
    for name, rows in (("train.tsv", train), ("dev.tsv", train[:2])):
        lines = ["sentence\tlabel"] + [f"{sentence} \t{label}" for sentence, label in rows]
        (folder / name).write_text("\n".join(lines) + "\n")


def test_digits_are_scikit_learns():
    with gzip.open(digits_path(), "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    ours, theirs = rows[:, :-1], load_digits().data
    assert np.array_equal(ours, theirs)
    assert np.array_equal(rows[:, -1], load_digits().target)
    data = open_digits(image_size=8, channels=1, seed=0)
    assert (len(data.train), len(data.held_out), data.num_labels) == (1437, 360, 10)
    values = torch.cat(
        [part.samples(range(len(part)))["image"] for part in (data.train, data.held_out)]
    )
    grey = np.sort((values.reshape(1797, 64).double() * 6.017 + 4.884).numpy().round(), axis=None)
    assert np.array_equal(grey, np.sort(theirs, axis=None))
    assert abs(float(values.mean())) < 0.01
    assert float(values.std()) == pytest.approx(1, abs=0.01)


def test_digits_split_is_disjoint_and_follows_its_seed():
    def rows(part):
        return {
            tuple(image.flatten().tolist()) for image in part.samples(range(len(part)))["image"]
        }

    first, again, other = (open_digits(8, 1, seed) for seed in (0, 0, 1))
    assert not rows(first.train) & rows(first.held_out)
    assert len(rows(first.train) | rows(first.held_out)) == 1797
    assert rows(first.held_out) == rows(again.held_out)
    assert rows(first.held_out) != rows(other.held_out)
    labels = first.held_out.samples(range(360))["label"]
    assert torch.bincount(labels, minlength=10).min() > 15


def test_digits_grow_smoothly_to_32_and_in_blocks_beyond():
    small, large = (
        open_digits(32, 3, 0).train.samples([4]),
        open_digits(64, 3, 0).train.samples([4]),
    )
    assert small["image"].shape == (1, 3, 32, 32)
    assert torch.equal(small["image"][:, 0], small["image"][:, 2])
    assert torch.equal(large["image"][..., ::2, ::2], small["image"])
    assert torch.equal(large["image"][..., 1::2, 1::2], small["image"])


@pytest.mark.parametrize("folder", ["cifar-10-batches-bin", "."])
def test_cifar10_binary_version(tmp_path, folder):
    write_cifar(tmp_path / "root" / folder)
    data = open_cifar(CIFAR10, str(tmp_path / "root"), image_size=32)
    assert (len(data.train), len(data.held_out), data.num_labels) == (20, 4, 10)
    batch = data.train.samples([0, 4, 19])
    assert batch["label"].tolist() == [0, 1, 7]
    assert batch["image"].shape == (3, 3, 32, 32)
    bytes_ = (batch["image"] * 62 + 118).round()
    assert bytes_[:, 0, 0, 0].tolist() == [255, 255, 255]
    assert bytes_[:, 1, 5, 5].tolist() == [0, 10, 43]
    assert data.held_out.samples([3])["label"].tolist() == [8]
    assert (
        open_cifar(CIFAR10, str(tmp_path / "root"), 64).train.samples([0])["image"].shape[-1] == 64
    )


def test_image_folder(tmp_path):
    write_image_folder(tmp_path)
    data = open_image_folder(str(tmp_path), image_size=32)
    assert (len(data.train), len(data.held_out), data.num_labels) == (6, 2, 2)
    batch = data.train.samples([0, 3, 5])
    assert batch["label"].tolist() == [0, 1, 1]
    assert batch["image"].shape == (3, 3, 32, 32)
    red, blue = (255 - 118) / 62, (0 - 118) / 62
    assert torch.allclose(batch["image"][0, :, 3, 3], torch.tensor([red, blue, blue]))
    assert torch.allclose(batch["image"][2, :, 3, 3], torch.tensor([blue, blue, red]))


def test_image_folder_keeps_the_middle_and_the_proportions(tmp_path):
    write_image_folder(tmp_path)
    picture = Image.new("RGB", (64, 32), (0, 0, 0))
    picture.paste((255, 255, 255), (16, 0, 48, 32))
    picture.save(tmp_path / "val" / "cat" / "0.png")
    image = open_image_folder(str(tmp_path), 32).held_out.samples([0])["image"]
    assert torch.equal(image, torch.full_like(image, (255 - 118) / 62))


def test_sst2(tmp_path):
    write_sst2(tmp_path / "SST-2")
    data = open_sst2(str(tmp_path), vocabulary=1000, length=8)
    assert (len(data.train), len(data.held_out), data.num_labels) == (4, 2, 2)
    batch = data.train.samples([0, 1, 2, 3])
    tokens = batch["tokens"]
    assert batch["label"].tolist() == [1, 0, 1, 0]
    assert batch["mask"].sum(dim=1).tolist() == [4, 6, 2, 8]
    assert tokens[:, 0].tolist() == [1, 1, 1, 1]
    a, fine, film = tokens[0, 1:4].tolist()
    assert tokens[2].tolist() == [1, fine, 0, 0, 0, 0, 0, 0]
    assert tokens[1, 1] == a  # letters of either case are one word
    assert tokens[1, 2] == tokens[1, 4] == tokens[3, 1]
    assert tokens[1, 5] == film
    assert 3 <= int(tokens[tokens > 1].min()) <= int(tokens.max()) < 1000


def test_padding_does_not_change_a_text():
    workload = BERT(size="tiny")
    model = workload.build_model(0).eval()
    tokens = workload.samples([0])["tokens"]
    padded = torch.nn.functional.pad(tokens, (0, 9))
    with torch.no_grad():
        plain = model(input_ids=tokens, return_dict=False)[0]
        masked = model(input_ids=padded, attention_mask=(padded != 0).long(), return_dict=False)[0]
    assert torch.allclose(plain, masked, atol=1e-5)


def test_workloads_train_on_files(tmp_path):
    write_image_folder(tmp_path / "pictures")
    write_sst2(tmp_path / "texts")
    write_cifar(tmp_path / "cifar")
    for workload, outputs in (
        (ResNet50(data="imagefolder", root=str(tmp_path / "pictures")), 2),
        (ResNet50(data="cifar10", root=str(tmp_path / "cifar")), 10),
        (BERT(data="glue_sst2", root=str(tmp_path / "texts")), 2),
    ):
        model = workload.build_model(0)
        assert list(model.parameters())[-1].shape == (outputs,)
        loss = workload.loss(model, workload.samples(range(workload.num_samples)))
        loss.backward()
        assert torch.isfinite(loss)
        assert 0 <= workload.evaluate(model)["accuracy"] <= 1
