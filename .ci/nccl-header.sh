#!/bin/sh
# Holds csrc/nccl against NCCL's own header, in the folder given: its Python wheel has it in
# nvidia/nccl/include. No CUDA is needed.
set -eu
cd "$(dirname "$0")/.."
[ -r "${1:-}/nccl.h" ] || { echo "usage: .ci/nccl-header.sh FOLDER, which has nccl.h" >&2; exit 2; }
empty=$(mktemp -d)
trap 'rm -r "$empty"' EXIT
touch "$empty/cuda_runtime.h" "$empty/cuda_fp16.h" "$empty/cuda_bf16.h"
"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I"$empty" -I"$1" -Icsrc/nccl csrc/nccl/testdata/header.c
echo "csrc/nccl agrees with $1/nccl.h: NCCL $(sed -n 's/^#define NCCL_M[A-Z]*OR //p;s/^#define NCCL_PATCH //p' "$1/nccl.h" | paste -sd.)"
