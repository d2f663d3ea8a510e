// Package exampletest builds and runs what lies in csrc/examples: programs that
// use psrt as other trainers do, through psrt.h alone, against psrt serve.
//
//	tables.yaml          the tables of all of them
//	train.c              logistic regression in C
//	train.cpp psrt.hpp   a factorization machine in C++, over a header of handles
//	train.py psrt.py     the same in Python with NumPy, over ctypes
//	train_torch.py       the same with PyTorch's autograd
//	train_deepfm.py      DeepFM with PyTorch's layers, on a GPU where there is one
//	momentum.c           a table rule of one's own (docs/extending.md)
//	test_psrt.py         what psrt.py promises, piece by piece
//
// It owns these tests. It must not know anything of psrt but what is installed:
// psrt.h, psrt_rule.h, libpsrt and the command psrt. (It is not in csrc/examples
// itself, because Go takes C files beside Go files for its own.)
//
// The life of a batch in each trainer: its ids are pulled as rows, the loss's
// derivative is computed, and pushed for the same ids.
package exampletest
