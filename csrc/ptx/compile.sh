#!/bin/sh
# Compiles CUDA C to the PTX text that is committed, without CUDA: clang of one
# version only, as another gives other text for the same source, and make check
# compares. No operation is contracted: a*b+c has the bits that it has on a CPU.
#
#   compile.sh SOURCE TEXT
set -eu
version=14

for clang in "clang-$version" clang; do
	command -v "$clang" >/dev/null && "$clang" --version | grep -q "version $version\." && break
	clang=
done
if [ -z "$clang" ]; then
	echo "compile.sh: $2 is made by clang $version, which this machine lacks: apt-get install clang-$version; only who changes csrc/ptx needs it, the text is committed" >&2
	exit 1
fi
"$clang" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_70 -Xclang -target-feature -Xclang +ptx63 \
	-O2 -ffp-contract=off -fno-fast-math -Wall -Wextra -Werror -Wno-unused-function -S "$1" -o "$2"
