#!/bin/sh
# Every check that needs a GPU, on one. Where there is a Go the checks are built
# first, into bin/gpu-check; a copy of this tree with that folder needs neither Go, a
# compiler nor a network. --list runs nothing, but says which they are; --build builds
# them and runs none.
set -eu
cd "$(dirname "$0")/.."
# A package, and which of its tests; those that end in Fails have a fake driver, those in
# OfBefore a library of before, which take a compiler and tell nothing of a card.
checks="tiers/hbm/gpu:.:(Fails|OfBefore)$
nccl/gpu:Conformance:^$
tiers:ThreeTiers:^$
sched/train/layers:SameBits:Fails$
sched/serve:Device$:^$
sched/job:OnDevice|SmallDevice|SpreadOver|DenseDevice:Fails$
bench/hbm:Card:^$
bench/layers:Card:^$"

if [ "${1-}" = --list ]; then
	echo "make test runs these by fakes of a GPU's driver; the driver, the card and its speed are shown by make gpu-check, on one (docs/gpu.md):"
	for c in $checks; do
		which=${c#*:}
		echo "  ${c%%:*}, tests that match ${which%%:*}"
	done
	exit
fi
# Whether there is a card is known before minutes of building.
mkdir -p bin/gpu-check
card="$PWD/bin/gpu-check/card"
if command -v cc >/dev/null; then
	cc -O2 -o "$card" csrc/cuda/testdata/card.c -ldl
fi
[ -x "$card" ] || { echo "gpu-check: no $card: run make gpu-check where there is a compiler and a Go, then copy this folder" >&2; exit 1; }
case ${1-} in
--build) ;; # to be copied to a machine that has one
*) "$card" >bin/gpu-check/cards 2>&1 || { echo "gpu-check: $(cat bin/gpu-check/cards); --build builds the checks alone" >&2; exit 1; }
	echo "gpu-check: $(cat bin/gpu-check/cards)" ;;
esac
if [ -x .cache/bin/go ]; then
	# As csrc/accel/acceltest compiles it, for rows by a library's table of functions.
	cc -std=gnu11 -O2 -ffp-contract=off -shared -fPIC -Icsrc/accel -Icsrc/ptx -o bin/gpu-check/twin.so csrc/accel/testdata/twin.c -lm
	for c in $checks; do
		p=${c%%:*}
		.cache/bin/go test -c -o "bin/gpu-check/$(echo "$p" | tr / -)" "./$p"
	done
fi
[ "${1-}" != --build ] || exit 0
failed= twin="$PWD/bin/gpu-check/twin.so"
[ -f "$twin" ] || { echo "gpu-check: no $twin: run make gpu-check where there is a Go, then copy this folder" >&2; exit 1; }
for c in $checks; do
	p=${c%%:*} which=${c#*:}
	run=${which%%:*} skip=${which#*:}
	check="$PWD/bin/gpu-check/$(echo "$p" | tr / -)"
	[ -x "$check" ] || { echo "gpu-check: no $check: run make gpu-check where there is a Go, then copy this folder" >&2; exit 1; }
	echo "gpu-check: $p"
	(cd "$p" && PSRT_GPU=1 PSRT_ACCEL_TWIN="$twin" "$check" -test.v -test.run="$run" -test.skip="$skip" -test.bench=Card -test.timeout=20m) || failed="$failed $p"
done
[ -z "$failed" ] || { echo "gpu-check: failed:$failed" >&2; exit 1; }
