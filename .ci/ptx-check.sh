#!/bin/sh
# Has NVIDIA's own programs read what a card's driver will: ptxas the text that is committed, for
# each kind of card that it knows; and nvcc, where it is given, the source, whose kernels must be
# the same, by name and parameters. Nothing is written. The Python wheel nvidia-cuda-nvcc has both
# programs (nvcc needs the wheels nvidia-nvvm, nvidia-cuda-crt and nvidia-cuda-runtime beside it).
set -eu
cd "$(dirname "$0")/.."
ptxas=${1:-} nvcc=${2:-}
[ -x "$ptxas" ] || { echo "usage: .ci/ptx-check.sh PTXAS [NVCC]: paths of the programs" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The kernels of a text, a line each: the name, and how long its parameters are.
kernels() {
	tr -d '\n' <"$1" | grep -oE '\.entry [a-z_0-9]+\([^)]*\)' | sed -E 's/[[:space:]]+/ /g; s/ ?([a-z_0-9]+)_param_/ /' | sort
}

read_by_ptxas() {
	known=0
	for card in 70 75 80 86 89 90 100 120; do
		"$ptxas" --help | grep -q "'sm_$card'" || continue
		known=$((known + 1))
		"$ptxas" -arch="sm_$card" --warn-on-spills --warning-as-error "$1" -o /dev/null || { echo "ptxas refuses $1 for sm_$card" >&2; exit 1; }
	done
	[ "$known" -gt 0 ] || { echo "$ptxas knows none of the cards that are tried" >&2; exit 1; }
	echo "ptxas takes $2 for $known kinds of card"
}

read_by_ptxas csrc/ptx/rows.ptx "the text that is committed"
[ -n "$nvcc" ] || exit 0
"$nvcc" -arch=sm_80 --fmad=false -O2 -Werror all-warnings -ptx csrc/ptx/rows.cu -o "$work/nvcc.ptx"
want=$(kernels csrc/ptx/rows.ptx)
[ "$want" = "$(kernels "$work/nvcc.ptx")" ] || { echo "nvcc makes other kernels of csrc/ptx/rows.cu than are committed" >&2; exit 1; }
"$ptxas" -arch=sm_80 "$work/nvcc.ptx" -o /dev/null
echo "nvcc makes the same $(echo "$want" | wc -l) kernels of the source"
