#!/bin/sh
# Compiles an eBPF program to the object that is committed. One version of
# clang only: another one gives other bytes for the same source, and make check
# compares.
#
#   compile.sh SOURCE OBJECT
set -eu
version=14

for clang in "clang-$version" clang; do
	command -v "$clang" >/dev/null && "$clang" --version | grep -q "version $version\." && break
	clang=
done
for strip in "llvm-strip-$version" llvm-strip; do
	command -v "$strip" >/dev/null && "$strip" --version | grep -q "version $version\." && break
	strip=
done
if [ -z "$clang" ] || [ -z "$strip" ]; then
	echo "compile.sh: $2 is made by clang and llvm-strip $version, which this machine lacks: apt-get install clang-$version llvm-$version; only who changes csrc/bpf needs them, the objects are committed" >&2
	exit 1
fi

# Compiled in its own folder and without its name in the debug information:
# the same bytes wherever the repository lies.
object=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$(dirname "$1")"
"$clang" -target bpfel -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-variable \
	-fdebug-compilation-dir=. -c "$(basename "$1")" -o "$object"
"$strip" -g "$object" # -g leaves BTF, which CO-RE needs
