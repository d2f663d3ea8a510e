#!/bin/sh
# Holds csrc/cuda against CUDA's own header, in the folder given: the Python wheel
# nvidia-cuda-runtime has it in nvidia/cu13/include. Nothing else of CUDA is needed.
set -eu
cd "$(dirname "$0")/.."
[ -r "${1:-}/cuda.h" ] || { echo "usage: .ci/cuda-header.sh FOLDER, which has cuda.h" >&2; exit 2; }
# cuda.h has a folder of its own before ours, which has another of that name.
"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -Wno-deprecated-declarations -fsyntax-only -isystem "$1" -iquote csrc/cuda csrc/cuda/testdata/header.c
echo "csrc/cuda agrees with $1/cuda.h: CUDA $(sed -n 's/^#define CUDA_VERSION *//p' "$1/cuda.h")"
