"""Handwritten digits of 8x8 pixels; arguments: epochs, and where to save the model."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils import data

from systems.script import api as elastic

EPOCHS, PATH = int(sys.argv[1]), sys.argv[2]

torch.manual_seed(1)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
labels = torch.tensor(labels)
train = data.TensorDataset(images[:1536], labels[:1536])

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(256, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
loader = elastic.batches(train, batch_size=64, epochs=EPOCHS)
model, optimizer = elastic.init(model, optimizer)


def accuracy() -> float:
    """On images that are not trained on."""
    model.eval()
    with torch.no_grad():
        return (model(images[1536:]).argmax(1) == labels[1536:]).float().mean().item()


for _ in loader.epochs():
    for pixels, digits in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pixels), digits)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        elastic.notify_batch_end(loss)
    schedule.step()
    elastic.is_first() and torch.save(model.state_dict(), PATH)

elastic.shutdown() or sys.exit()
print(f"accuracy {accuracy():.4f}")
