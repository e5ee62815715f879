"""Deep Speech 2: a speech recogniser of convolutions and recurrent layers, trained with CTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from harness.contracts.workload import Batch
from workloads.data.base import DataSet
from workloads.data.speech import NEEDS_ROOT, open_speech
from workloads.sized_workload import SizedWorkload
from workloads.training import Recipe, evaluating, held_out_batches

_BLANK = 0
_TIME_STRIDE = 2


@dataclass(frozen=True, slots=True)
class SpeechSize:
    """One size of the network."""

    channels: int
    """Channels of the convolutions."""
    num_layers: int
    """Number of recurrent layers, each in both directions."""
    width: int
    """Width of a recurrent layer in each direction."""
    bins: int
    letters: int
    """Letters of a synthetic utterance."""
    num_samples: int
    """Samples of the synthetic set."""
    frames: int
    """Longest utterance from files, in frames of 10 ms."""
    recipe: Recipe


class _Recurrent(nn.Module):
    """BatchNorm over all frames, then a GRU in both directions whose outputs are added."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(inputs)
        self.gru = nn.GRU(inputs, width, batch_first=True, bidirectional=True)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Return (n, frames, width) for (n, frames, inputs)."""
        normed = self.norm(frames.transpose(1, 2)).transpose(1, 2)
        both, _ = self.gru(normed)
        forwards, backwards = both.chunk(2, dim=2)
        added: torch.Tensor = forwards + backwards
        return added


class _DeepSpeech(nn.Module):
    """Two convolutions over time and frequency, recurrent layers, and an output of letters."""

    def __init__(self, plan: SpeechSize, num_letters: int) -> None:
        super().__init__()
        channels = plan.channels
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, channels, (11, 11), stride=(2, _TIME_STRIDE), padding=(5, 5), bias=False),
            nn.BatchNorm2d(channels),
            nn.Hardtanh(0.0, 20.0),
            nn.Conv2d(channels, channels, (11, 11), stride=(2, 1), padding=(5, 5), bias=False),
            nn.BatchNorm2d(channels),
            nn.Hardtanh(0.0, 20.0),
        )
        inputs = channels * -(-plan.bins // 4)
        sizes = [inputs] + [plan.width] * plan.num_layers
        self.layers = nn.ModuleList(
            _Recurrent(before, plan.width) for before in sizes[: plan.num_layers]
        )
        self.letters = nn.Linear(plan.width, num_letters + 1)

    def forward(self, spectrum: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of every letter; (n, frames / 2, letters and blank)."""
        frames = self.convolutions(spectrum[:, None]).flatten(1, 2).transpose(1, 2)
        for layer in self.layers:
            frames = layer(frames)
        return torch.log_softmax(self.letters(frames), dim=2)


class DeepSpeech2(SizedWorkload[SpeechSize]):
    """Speech to letters with CTC: Amodei et al., ICML '16, without a language model.

    Size ``paper`` has its two-dimensional convolutions with 32 channels and seven recurrent layers
    of 800. Differs: plain GRU layers, each with BatchNorm before it; 11 x 11 kernels.
    """

    name = "deepspeech2"
    data_sets = NEEDS_ROOT
    sizes: Mapping[str, SpeechSize] = {
        "tiny": SpeechSize(8, 2, 96, 16, 6, 16_384, 400, Recipe(2e-3, warmup_steps=20)),
        "small": SpeechSize(16, 3, 256, 64, 16, 65_536, 800, Recipe(5e-4, warmup_steps=50)),
        "paper": SpeechSize(32, 7, 800, 161, 100, 28_539, 1_700, Recipe(3e-4, warmup_steps=500)),
    }

    def _open(self, data: str, root: str, seed: int) -> DataSet:
        """Return a data set of ``spectrum``, ``num_frames``, ``letters`` and ``num_letters``.

        ``spectrum`` has the shape (n, bins, frames), ``letters`` (n, length); the numbers have (n).
        """
        plan = self._plan
        return open_speech(data, root, plan.bins, plan.letters, plan.num_samples, plan.frames, seed)

    def _build(self) -> torch.nn.Module:
        return _DeepSpeech(self._plan, self._data.num_labels)

    def build_optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """Return Adam.

        The paper's SGD with Nesterov's momentum and clipped gradients trains only if no utterance
        is much harder than the others.
        """
        return torch.optim.Adam(model.parameters(), lr=self._recipe.learning_rate)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean over the utterances of the CTC loss per letter, nats."""
        return _losses(model(batch["spectrum"]), batch).mean()

    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the share of letters that are wrong, missing or added, and the loss, held out.

        The likeliest letter of every frame is taken (no beam, no language model).
        """
        wrong, num_letters, loss, total = 0, 0, 0.0, 0
        with evaluating(model):
            for batch in held_out_batches(model, self._data.held_out, self._evaluation_samples):
                chances = model(batch["spectrum"])
                loss += float(_losses(chances, batch).sum())
                for row, best in enumerate(chances.argmax(dim=2)):
                    heard = _collapsed(best[: int(_lengths(batch)[row])])
                    said = batch["letters"][row, : int(batch["num_letters"][row])].tolist()
                    wrong += _distance(heard, said)
                    num_letters += len(said)
                total += len(chances)
        return {
            "letter_error_rate": wrong / num_letters,
            "loss": loss / total,
            "evaluated_samples": float(total),
        }


def _lengths(batch: Batch) -> torch.Tensor:
    """Return the number of the network's output frames for each utterance."""
    return (batch["num_frames"] + _TIME_STRIDE - 1) // _TIME_STRIDE


def _losses(chances: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return the CTC loss per letter of each utterance (Graves et al., ICML '06)."""
    each = torch.nn.functional.ctc_loss(
        chances.transpose(0, 1),
        batch["letters"],
        _lengths(batch),
        batch["num_letters"],
        blank=_BLANK,
        reduction="none",
        zero_infinity=True,
    )
    return each / batch["num_letters"]


def _collapsed(best: torch.Tensor) -> list[int]:
    """Return the letters of a CTC path, with repetitions merged and blanks removed."""
    found = torch.unique_consecutive(best)
    letters: list[int] = found[found != _BLANK].tolist()
    return letters


def _distance(heard: Sequence[int], said: Sequence[int]) -> int:
    """Return the least number of letters to change, add and leave out (Levenshtein)."""
    row = list(range(len(said) + 1))
    for number, letter in enumerate(heard, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(said, 1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (letter != other)),
            )
    return row[-1]
