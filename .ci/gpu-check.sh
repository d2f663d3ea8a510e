#!/bin/sh
# Every check that needs a GPU, on one. Where there is a Go the checks are built
# first, into bin/gpu-check; a copy of this tree with that folder needs neither Go, a
# compiler nor a network.
set -eu
cd "$(dirname "$0")/.."
# A package, and which of its tests; those that end in Fails have a fake driver, which
# takes a compiler and tells nothing of a card.
checks="tiers/hbm/gpu:.:Fails$
nccl/gpu:Conformance:^$
tiers:ThreeTiers:^$
sched/job:OnDevice|SmallDevice:^$
bench/hbm:Card:^$"

if [ -x .cache/bin/go ]; then
	mkdir -p bin/gpu-check
	for c in $checks; do
		p=${c%%:*}
		.cache/bin/go test -c -o "bin/gpu-check/$(echo "$p" | tr / -)" "./$p"
	done
fi
failed=
for c in $checks; do
	p=${c%%:*} which=${c#*:}
	run=${which%%:*} skip=${which#*:}
	check="$PWD/bin/gpu-check/$(echo "$p" | tr / -)"
	[ -x "$check" ] || { echo "gpu-check: no $check: run make gpu-check where there is a Go, then copy this folder" >&2; exit 1; }
	echo "gpu-check: $p"
	(cd "$p" && PSRT_GPU=1 "$check" -test.v -test.run="$run" -test.skip="$skip" -test.bench=Card -test.timeout=20m) || failed="$failed $p"
done
[ -z "$failed" ] || { echo "gpu-check: failed:$failed" >&2; exit 1; }
