#!/usr/bin/python3
"""The machine of train.py with PyTorch: autograd computes the gradients.

    PSRT_LIBRARY=/usr/local/lib/libpsrt.so ./train_torch.py 127.0.0.1:7700 token train.libsvm test.libsvm

The rows of a batch are a tensor that requires a gradient; psrt pulls straight into
its memory, and pushes its .grad from where autograd put it.
"""

from __future__ import annotations

import sys

import torch

import psrt
from train import EPOCHS, Data, auc, batches, read_libsvm


def logits(rows: torch.Tensor, index: torch.Tensor, d: Data, first: int, last: int) -> torch.Tensor:
    low, high = d.begin[first], d.begin[last]
    part = rows[index.long()] * torch.from_numpy(d.values[low:high]).unsqueeze(1)
    line = torch.from_numpy(d.line[low:high] - first)
    n = last - first
    total = torch.zeros(n, rows.shape[1]).index_add(0, line, part)
    squares = torch.zeros(n, rows.shape[1] - 1).index_add(0, line, part[:, 1:] ** 2)
    return total[:, 0] + (total[:, 1:] ** 2 - squares).sum(dim=1) / 2


def main() -> int:
    if len(sys.argv) != 5:
        print(f"usage: {sys.argv[0]} HOST:PORT TOKEN_FILE TRAIN.libsvm TEST.libsvm", file=sys.stderr)
        return 2
    server, token_file, train_file, test_file = sys.argv[1:]
    data, test = read_libsvm(train_file), read_libsvm(test_file)
    torch.set_num_threads(1)  # batches are small: more threads wait for each other
    loss = torch.nn.BCEWithLogitsLoss()
    with psrt.Client(servers=[server], token_file=token_file) as client:
        table = client.table("fm_torch")
        for _ in range(EPOCHS):
            for first, last in batches(data):
                keys, index = table.plan(data.ids[data.begin[first]:data.begin[last]])
                rows = torch.empty(len(keys), table.dim)
                table.pull(keys, out=rows)
                rows.requires_grad_()
                label = torch.from_numpy(data.label[first:last])
                loss(logits(rows, torch.from_numpy(index), data, first, last), label).backward()
                table.push(keys, rows.grad)
        keys, index = table.plan(test.ids)
        rows = torch.empty(len(keys), table.dim)
        table.pull(keys, out=rows, flags=psrt.READ_ONLY)
        score = torch.sigmoid(logits(rows, torch.from_numpy(index), test, 0, len(test.label)))
        print(f"auc {auc(score.numpy(), test.label):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
