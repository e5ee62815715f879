"""Reader of LibriSpeech (Panayotov et al., ICASSP '15): books read aloud, one FLAC file per
utterance.

Decoding them needs the package ``soundfile``, which is an extra of this project (``speech``).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.contracts.workload import Batch
from workloads.data.augmentation import masked_spectrum
from workloads.data.base import DataError, DataSet, checked_ids

LETTERS = " 'ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Alphabet; the letter at index i has number i + 1, and 0 is the blank."""
_TRAIN, _HELD_OUT = "train-clean-100", "dev-clean"
_RATE = 16_000
_WINDOW, _HOP = 320, 160
_MAX_LETTERS = 400
_WAY_OUT = (
    f"unpack {_TRAIN}.tar.gz and {_HELD_OUT}.tar.gz (https://www.openslr.org/12) and set root to"
    " the folder that holds LibriSpeech/"
)
_MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class _Utterance:
    path: Path
    letters: tuple[int, ...]


class _Utterances:
    """FLAC files with their transcripts, decoded on request."""

    def __init__(self, found: Sequence[_Utterance], bins: int, frames: int, sound: Any) -> None:
        self._found = list(found)
        self._bins, self._frames = bins, frames
        self._sound = sound
        self._length = max(len(utterance.letters) for utterance in found)

    def __len__(self) -> int:
        return len(self._found)

    def samples(self, ids: Sequence[int]) -> Batch:
        chosen = [self._found[one] for one in checked_ids(ids, len(self))]
        spectra = torch.zeros(len(chosen), self._bins, self._frames)
        letters = torch.zeros(len(chosen), self._length, dtype=torch.int64)
        num_frames = torch.zeros(len(chosen), dtype=torch.int64)
        for row, utterance in enumerate(chosen):
            spectrum = self._spectrum(utterance.path)
            num_frames[row] = spectrum.shape[1]
            spectra[row, :, : spectrum.shape[1]] = spectrum
            letters[row, : len(utterance.letters)] = torch.tensor(utterance.letters)
        return {
            "spectrum": spectra,
            "num_frames": num_frames,
            "letters": letters,
            "num_letters": torch.tensor([len(utterance.letters) for utterance in chosen]),
        }

    def _spectrum(self, path: Path) -> torch.Tensor:
        """Return the centred logarithm of each bin's amplitude; frames of 20 ms every 10 ms."""
        try:
            wave, rate = self._sound.read(str(path), dtype="float32")
        except (OSError, RuntimeError) as error:
            raise DataError([f"{path}: cannot be decoded ({error}); unpack it again"]) from error
        if rate != _RATE or wave.ndim != 1:
            raise DataError([f"{path}: {rate} Hz and {wave.ndim} channels, not {_RATE} and 1"])
        power = torch.stft(
            torch.from_numpy(wave),
            _WINDOW,
            _HOP,
            window=torch.hann_window(_WINDOW),
            return_complex=True,
        ).abs()
        bins = torch.nn.functional.interpolate(power.T[:, None], self._bins, mode="linear")[:, 0].T
        spectrum = torch.log1p(100.0 * bins[:, : self._frames])
        return spectrum - spectrum.mean()


def open_librispeech(root: str, bins: int, frames: int) -> DataSet:
    """Open ``train-clean-100`` to train with and ``dev-clean`` held out, below ``root``.

    Utterances longer than ``frames`` hundredths of a second are left out, and so are those with
    very long transcripts.

    Args:
        root: folder with ``LibriSpeech/`` or with its parts.
        bins: number of bins of the spectrum.
        frames: longest utterance, in frames of 10 ms.

    Raises:
        DataError: a part is missing or malformed, or soundfile is not installed.
    """
    try:
        sound = importlib.import_module("soundfile")
    except (ImportError, OSError) as error:
        raise DataError(
            [f"librispeech: soundfile cannot be imported ({error}); pip install soundfile"]
        ) from error
    below = Path(root) / "LibriSpeech"
    folder = below if below.is_dir() else Path(root)
    problems: list[str] = []
    parts = [_read(folder / name, frames, sound, problems) for name in (_TRAIN, _HELD_OUT)]
    if len(problems) > _MAX_PROBLEMS:
        left = len(problems) - _MAX_PROBLEMS
        problems = [*problems[:_MAX_PROBLEMS], f"{folder}: and {left} more problems like these"]
    if problems:
        raise DataError(problems)
    train, held_out = (_Utterances(part, bins, frames, sound) for part in parts)
    return DataSet(train, held_out, len(LETTERS), masked_spectrum)


def _read(folder: Path, frames: int, sound: Any, problems: list[str]) -> list[_Utterance]:
    """Return the utterances of one part, in the order of their names."""
    lists = sorted(folder.glob("*/*/*.trans.txt"))
    if not lists:
        problems.append(f"{folder}: no */*/*.trans.txt in it; {_WAY_OUT}")
        return []
    found = []
    for listed in lists:
        lines = listed.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(filter(None, lines), 1):
            name, _, text = line.partition(" ")
            path = listed.parent / f"{name}.flac"
            unknown = sorted(set(text) - set(LETTERS))
            if not text or unknown:
                fact = f"has {''.join(unknown)!r}" if unknown else "is empty"
                problems.append(f"{listed}:{number}: {fact}; {_WAY_OUT}")
            elif not path.is_file():
                problems.append(f"{listed}:{number}: {path} is not there; {_WAY_OUT}")
            elif sound.info(str(path)).frames // _HOP < frames and len(text) <= _MAX_LETTERS:
                found.append(_Utterance(path, tuple(LETTERS.index(sign) + 1 for sign in text)))
    if not found and not problems:
        problems.append(f"{folder}: every utterance is longer than {frames / 100:.0f} s")
    return found
