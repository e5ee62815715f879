"""Picture sets for an image workload, by name."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.data.base import DataSet
from workloads.data.cifar import CIFAR10, CIFAR100, open_cifar
from workloads.data.digits import open_digits
from workloads.data.food101 import open_food101
from workloads.data.imagefolder import open_image_folder
from workloads.data.synthetic import synthetic_pictures

NEEDS_ROOT: Mapping[str, bool] = {
    "digits": False,
    "synthetic": False,
    "cifar10": True,
    "cifar100": True,
    "food101": True,
    "imagefolder": True,
}
"""Names of the data sets, and whether each reads files below ``root``."""


def open_images(
    data: str, root: str, image_size: int, synthetic: tuple[int, int], seed: int
) -> DataSet:
    """Open a picture set with three channels.

    Args:
        data: one of ``NEEDS_ROOT``.
        root: folder of the files, for the sets that need one.
        image_size: side in pixels, 32 or more.
        synthetic: samples and classes of the synthetic set.
        seed: seed of the synthetic set and of the digits' split.

    Raises:
        DataError: files are missing or malformed.
    """
    if data == "digits":
        return open_digits(image_size, 3, seed)
    if data == "cifar10":
        return open_cifar(CIFAR10, root, image_size)
    if data == "cifar100":
        return open_cifar(CIFAR100, root, image_size)
    if data == "food101":
        return open_food101(root, image_size)
    if data == "imagefolder":
        return open_image_folder(root, image_size)
    return synthetic_pictures(synthetic[0], synthetic[1], image_size, seed)
