#!/usr/bin/python3
"""A factorization machine in Python with NumPy, through psrt serve.

    PSRT_LIBRARY=/usr/local/lib/libpsrt.so ./train.py 127.0.0.1:7700 token train.libsvm test.libsvm

A row of the table "fm_numpy" is a weight and a vector of 8. While one batch is
computed the next one's rows are on their way. The table "counts" adds up how often
each id was seen and clicked, and is read back in the end.
"""

from __future__ import annotations

import sys
from typing import Iterator, NamedTuple, Tuple

import numpy as np

import psrt

BATCH, EPOCHS = 512, 4


class Data(NamedTuple):
    """Lines of a libsvm file; `line[j]` is the line of feature j."""
    label: np.ndarray
    begin: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    line: np.ndarray


def read_libsvm(path: str) -> Data:
    labels, begin, ids, values, line = [], [0], [], [], []
    with open(path) as f:
        for i, text in enumerate(f):
            label, *features = text.split()
            labels.append(float(label) > 0)
            for feature in features:
                key, _, value = feature.partition(":")
                ids.append(int(key))
                values.append(float(value))
                line.append(i)
            begin.append(len(ids))
    return Data(np.array(labels, np.float32), np.array(begin), np.array(ids, np.uint64),
                np.array(values, np.float32), np.array(line))


def batches(d: Data) -> Iterator[Tuple[int, int]]:
    for first in range(0, len(d.label), BATCH):
        yield first, min(first + BATCH, len(d.label))


def forward(rows: np.ndarray, d: Data, first: int, last: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The probability of a click for every line; and, for the gradients, each
    feature's part and the lines' sums of vectors. rows has a row a feature."""
    low, high = d.begin[first], d.begin[last]
    part = rows * d.values[low:high, None]
    starts = d.begin[first:last] - low
    total = np.add.reduceat(part, starts)
    squares = np.add.reduceat(part[:, 1:] ** 2, starts)
    z = total[:, 0] + ((total[:, 1:] ** 2) - squares).sum(axis=1) / 2
    return 1 / (1 + np.exp(-z)), part, total


def gradients(p: np.ndarray, part: np.ndarray, total: np.ndarray, d: Data, first: int, last: int) -> np.ndarray:
    low, high = d.begin[first], d.begin[last]
    line = d.line[low:high] - first
    dz = ((p - d.label[first:last]) / len(p))[line, None]
    g = total[line] - part  # of the vector's elements; the weight's is 1
    g[:, 0] = 1
    return (dz * d.values[low:high, None] * g).astype(np.float32)


def train(table: psrt.Table, counts: psrt.Table, d: Data, epoch: int) -> None:
    def begin(first: int, last: int) -> psrt.Request:
        return table.pull_async(d.ids[d.begin[first]:d.begin[last]])

    todo = list(batches(d))
    pulling = begin(*todo[0])
    for i, (first, last) in enumerate(todo):
        rows = pulling.wait()
        if i + 1 < len(todo):
            pulling = begin(*todo[i + 1])
        p, part, total = forward(rows, d, first, last)
        low, high = d.begin[first], d.begin[last]
        # An id that is there several times has its gradients added by the library.
        table.push(d.ids[low:high], gradients(p, part, total, d, first, last))
        if epoch == 0:
            clicked = d.label[d.line[low:high]]
            counts.push(d.ids[low:high], np.stack([np.ones_like(clicked), clicked], axis=1))


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """The share of pairs (click, no click) in the right order; ties count half."""
    _, place, times = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    ranks = (last - (times - 1) / 2)[place]
    clicks = label.sum(dtype=np.float64)
    return float((ranks[label > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(label) - clicks)))


def main() -> int:
    if len(sys.argv) != 5:
        print(f"usage: {sys.argv[0]} HOST:PORT TOKEN_FILE TRAIN.libsvm TEST.libsvm", file=sys.stderr)
        return 2
    server, token_file, train_file, test_file = sys.argv[1:]
    data, test = read_libsvm(train_file), read_libsvm(test_file)
    with psrt.Client(servers=[server], token_file=token_file) as client:
        table, counts = client.table("fm_numpy"), client.table("counts")
        for epoch in range(EPOCHS):
            train(table, counts, data, epoch)
        rows = table.pull(test.ids, flags=psrt.READ_ONLY)
        p, _, _ = forward(rows, test, 0, len(test.label))
        ids, times = np.unique(data.ids, return_counts=True)
        seen = counts.pull(ids)
        if not np.array_equal(seen[:, 0], times):
            print("train: the counts at the server are not those of the file", file=sys.stderr)
            return 1
        print(f"seen {int(seen[:, 0].sum())} clicked {int(seen[:, 1].sum())}")
        print(f"auc {auc(p, test.label):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
