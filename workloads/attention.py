"""Network of the Transformer workload: encoder, decoder and one shared table of words."""

from __future__ import annotations

import math

import torch
from torch import nn


def _positions(length: int, width: int) -> torch.Tensor:
    """Return the sinusoids of Vaswani et al. 2017, section 3.5; shape (length, width)."""
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(length).unsqueeze(1) * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)


class TranslationModel(nn.Module):
    """Transformer (Vaswani et al. 2017) around ``torch.nn.Transformer``.

    Source words, target words and the output layer share one table, as in section 3.4 of the paper.
    All sentences of a batch have one length, so padding is not needed.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        max_length: int,
        width: int,
        num_layers: int,
        num_heads: int,
        hidden: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        self.words = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            d_model=width,
            nhead=num_heads,
            num_encoder_layers=num_layers,
            num_decoder_layers=num_layers,
            dim_feedforward=hidden,
            dropout=dropout,
            batch_first=True,
        )
        nn.init.normal_(self.words.weight, std=1 / self.scale)
        self.register_buffer("positions", _positions(max_length, width), persistent=False)
        blocked = nn.Transformer.generate_square_subsequent_mask(max_length)
        self.register_buffer("future", blocked, persistent=False)

    def _embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = self.get_buffer("positions")[: tokens.shape[1]]
        embedded: torch.Tensor = self.dropout(self.words(tokens) * self.scale + positions)
        return embedded

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return scores of the word after each target word; (n, target length, vocabulary)."""
        length = target.shape[1]
        states = self.transformer(
            self._embedded(source),
            self._embedded(target),
            tgt_mask=self.get_buffer("future")[:length, :length],
            tgt_is_causal=True,
        )
        return nn.functional.linear(states, self.words.weight)
