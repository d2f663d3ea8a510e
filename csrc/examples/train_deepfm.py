#!/usr/bin/python3
"""DeepFM whose layers are PyTorch's and whose embeddings are psrt's, on a GPU or a CPU.

    psrt serve --token-file token --tables tables.yaml
    PSRT_LIBRARY=/usr/local/lib/libpsrt.so ./train_deepfm.py 127.0.0.1:7700 token train.libsvm test.libsvm

It takes a GPU where PyTorch has one; --device says which, or cpu. The rows of a batch
are pulled into a tensor there, and a hook of autograd pushes their gradient from where
autograd put it. While a batch is computed the servers bring the next one's rows near.

A row is a weight and an embedding. The layers begin as those of psrt train do, so it
is the same training as

    psrt train --data train.libsvm --test test.libsvm --model deepfm --dim 8 --optimizer adagrad
        --lr 0.004 --batch 512 --epochs 2 --no-shuffle --seed 1 --sync bsp --dataset memory

and as accurate: only sums are added in another order.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch

import psrt
from train import Data, auc, read_libsvm

BATCH, EPOCHS, SEED, LR, HIDDEN = 512, 2, 1, 0.004, (64, 32)


def mix(x: np.ndarray) -> np.ndarray:
    """splitmix64: what psrt's layers begin from."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def xavier(rows: int, cols: int, number: int) -> torch.Tensor:
    """The number-th of the dense tensors, as psrt train begins it."""
    stream = mix(np.array([SEED], np.uint64) ^ mix(np.array([number + 1], np.uint64)))
    unit = (mix(stream + np.arange(rows * cols, dtype=np.uint64)) >> np.uint64(11)).astype(np.float64) / (1 << 53)
    return torch.from_numpy(((2 * unit - 1) * np.sqrt(6 / (rows + cols))).astype(np.float32).reshape(rows, cols))


class DeepFM(torch.nn.Module):
    def __init__(self, fields: int, dim: int, clicks: float):
        super().__init__()
        sizes = [fields * dim, *HIDDEN]
        self.layers = torch.nn.ModuleList()
        for i, (before, after) in enumerate(zip(sizes, sizes[1:])):
            layer = torch.nn.Linear(before, after)
            layer.weight.data = xavier(before, after, 2 * i).t().contiguous()
            layer.bias.data.zero_()
            self.layers.append(layer)
        self.out = torch.nn.Parameter(xavier(sizes[-1], 1, 2 * len(HIDDEN)))
        self.bias = torch.nn.Parameter(torch.tensor([np.log(clicks / (1 - clicks))], dtype=torch.float32))

    def forward(self, rows: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """The logits of lines: index[i] and values[i] are line i's features, one a field."""
        part = rows[index] * values.unsqueeze(2)
        first, x = part[:, :, 0].sum(dim=1), part[:, :, 1:]
        pairs = (x.sum(dim=1) ** 2 - (x ** 2).sum(dim=1)).sum(dim=1) / 2
        deep = x.flatten(1)
        for layer in self.layers:
            deep = torch.relu(layer(deep))
        return self.bias + first + pairs + (deep @ self.out).squeeze(1)


class Batch:
    """A batch, and its rows in a tensor on the device."""

    def __init__(self, table: psrt.Table, d: Data, first: int, last: int, device: torch.device, flags: int = 0):
        fields = (d.begin[last] - d.begin[first]) // (last - first)
        low, high = d.begin[first], d.begin[last]
        self.table, shape = table, (last - first, fields)
        self.keys, index = table.plan(d.ids[low:high])  # unique, in the servers' order: nothing is sorted again
        self.index = torch.from_numpy(index.astype(np.int64).reshape(shape)).to(device)
        self.values = torch.from_numpy(d.values[low:high].reshape(shape)).to(device)
        self.label = torch.from_numpy(d.label[first:last]).to(device)
        self.rows = torch.empty(len(self.keys), table.dim, device=device)
        table.pull(self.keys, out=self.rows, flags=flags)  # on a GPU: the copy is on its stream

    def train(self, model: DeepFM, dense: torch.optim.Optimizer) -> None:
        self.rows.requires_grad_()
        table, keys = self.table, self.keys  # not self: it has the rows, which have the hook, and would stay until garbage is looked for

        def push(grad: torch.Tensor) -> None:  # a hook that returns something replaces the gradient
            table.push(keys, grad.contiguous(), on_refused="raise")  # servers update the rows

        self.rows.register_hook(push)
        dense.zero_grad()
        logits = model(self.rows, self.index, self.values)
        torch.nn.functional.binary_cross_entropy_with_logits(logits, self.label).backward()
        dense.step()


def batches(d: Data) -> list[tuple[int, int]]:
    return [(first, min(first + BATCH, len(d.label))) for first in range(0, len(d.label), BATCH)]


def train(table: psrt.Table, model: DeepFM, d: Data, device: torch.device) -> None:
    dense = torch.optim.Adagrad(model.parameters(), lr=LR, eps=1e-8)
    todo = batches(d) * EPOCHS
    for (first, last), (next_first, next_last) in zip(todo, todo[1:] + todo[:1]):
        batch = Batch(table, d, first, last, device)
        table.prefetch(d.ids[d.begin[next_first]:d.begin[next_last]])
        batch.train(model, dense)


def score(table: psrt.Table, model: DeepFM, d: Data, device: torch.device) -> np.ndarray:
    scores = []
    for first, last in batches(d):
        batch = Batch(table, d, first, last, device, psrt.READ_ONLY)
        with torch.no_grad():
            scores.append(torch.sigmoid(model(batch.rows, batch.index, batch.values)).cpu().numpy())
    return np.concatenate(scores)


def main() -> int:
    arguments = argparse.ArgumentParser(description="DeepFM in PyTorch with embeddings in psrt")
    for name, what in (("server", "HOST:PORT"), ("token_file", ""), ("train", "TRAIN.libsvm"), ("test", "TEST.libsvm")):
        arguments.add_argument(name, help=what)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = arguments.parse_args()
    device = torch.device(a.device)
    data, test = read_libsvm(a.train), read_libsvm(a.test)
    torch.set_num_threads(1)  # batches are small: more threads wait for each other
    fields = len(data.ids) // len(data.label)
    if len(data.ids) != fields * len(data.label):
        print(f"train_deepfm.py: {a.train}: lines of other than {fields} features", file=sys.stderr)
        return 2
    with psrt.Client(servers=[a.server], token_file=a.token_file) as client:
        table = client.table("deepfm")
        model = DeepFM(fields, table.dim - 1, float(data.label.mean())).to(device)
        train(table, model, data, device)
        print(f"device {device}")
        for way in client.stats().get("device", []):
            print(f"rows come and go by {way['way']}: {way['name']}")
        print(f"auc {auc(score(table, model, test, device), test.label):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
