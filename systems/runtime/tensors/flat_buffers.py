"""A model's buffers in one block of memory, so that one message can carry them."""

from __future__ import annotations

import torch

# Torch's own alignment of tensors on CPUs.
ALIGNMENT_BYTES = 64


class FlatBuffers:
    """Replaces every buffer of a model by a view into ``flat``, a tensor of bytes.

    A module may replace a buffer by a new tensor; ``gather`` copies that back into ``flat``.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Replace the buffers of a model, which must be on its device. The values are kept."""
        buffers = dict(model.named_buffers())  # a buffer with two names is listed once
        starts: dict[int, int] = {}
        num_bytes = 0
        for buffer in buffers.values():
            starts[id(buffer)] = num_bytes
            size = buffer.numel() * buffer.element_size()
            num_bytes += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        device = next((buffer.device for buffer in buffers.values()), torch.device("cpu"))
        self.flat = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
        views: dict[int, torch.Tensor] = {}
        self._places: list[tuple[dict[str, torch.Tensor | None], str, torch.Tensor]] = []
        """Module's buffers, name of one, and its view. Precomputed, since ``gather`` reads it for
        every virtual worker."""
        with torch.no_grad():
            for module in model.modules():
                for name, held in list(module._buffers.items()):
                    if held is None:
                        continue
                    if id(held) not in views:
                        views[id(held)] = self._view(starts[id(held)], held)
                    view = views[id(held)]
                    module._buffers[name] = view
                    self._places.append((module._buffers, name, view))

    def _view(self, start: int, buffer: torch.Tensor) -> torch.Tensor:
        size = buffer.numel() * buffer.element_size()
        # Through ``data`` each view counts its own versions. Otherwise autograd would take a change
        # of one buffer for a change of all.
        view = self.flat[start : start + size].view(buffer.dtype).view(buffer.shape).data
        view.copy_(buffer)
        return view

    @torch.no_grad()
    def gather(self) -> torch.Tensor:
        """Return the memory of all buffers, with their present values."""
        for buffers, name, view in self._places:
            found = buffers[name]
            if found is not view and found is not None:
                view.copy_(found)
                buffers[name] = view
        return self.flat
