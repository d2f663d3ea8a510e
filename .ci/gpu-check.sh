#!/bin/sh
# Every check that needs a GPU, on one. Where there is a Go the checks are built
# first, into bin/gpu-check; a copy of this tree with that folder needs neither Go, a
# compiler nor a network. --list runs nothing, but says which they are; --build builds
# them and runs none. CHECKS="tiers/hbm/gpu bench/hbm" has only those packages' done, for a
# card that is lent for minutes; GPU_CHECK_TIMEOUT=4m ends each that takes longer (20m), and says where it
# was. All that they say goes to OUT (bin/gpu-check/logs). What this host cannot run is said in the end, and why.
set -eu
cd "$(dirname "$0")/.."
# A package; which of its tests and benchmarks; but which not; what they take beside a card.
# Those that end in Fails have a fake driver, those in OfBefore a library of before, which
# take a compiler and tell nothing of a card.
checks="tiers/hbm/gpu:.:(Fails|OfBefore)$:
nccl/gpu:ConformanceOfOne|Card:^$:nccl
nccl/gpu:Conformance$:^$:cards nccl
tiers:ThreeTiers:^$:
sched/train/layers:SameBits:Fails$:
sched/serve:Device$:^$:
sched/job:OnDevice|SmallDevice|SpreadOverDevices|DenseDevice:Fails$:
sched/job:SpreadOverCards:^$:cards
sched/job:SameDigestByNCCL|NCCLWithStaleRows:^$:cards nccl
sched/kv/device:Staging|StreamOfThread|Unreached:^$:
cmd/libpsrt:Device$:^$:
csrc/examples/exampletest:SameAsTrain|Python:^$:torch
bench/hbm:Card$:^$:
bench/hbm:Cards$:^$:cards nccl
bench/layers:Card:^$:
bench/allreduce:NCCLCards:^$:cards nccl"
built=$PWD/bin/gpu-check

die() {
	echo "gpu-check: $1" >&2
	exit 1
}

# wanted says whether one of some packages is.
wanted() {
	for package; do
		case " ${CHECKS:-$package} " in
		*" $package "*) return 0 ;;
		esac
	done
	return 1
}

# each gives a function the four parts of each check that is wanted.
each() {
	while IFS=: read -r package run skip takes; do
		! wanted "$package" || "$1" "$package" "$run" "$skip" "$takes" </dev/null
	done <<-EOF
		$checks
	EOF
}

list() {
	takes=
	for what in $4; do
		case $what in
		cards) takes="$takes; takes two cards" ;;
		nccl) takes="$takes; takes NCCL" ;;
		torch) takes="$takes; takes PyTorch for CUDA" ;;
		esac
	done
	echo "  $1, tests that match $2$takes"
}

test_of() { echo "$built/$(echo "$1" | tr / -)"; }

# build builds a package's tests, once where it has several checks, which follow each other; -s and -w
# leave out what debuggers want, near half of what is to be copied.
last=
build() {
	[ "$1" = "$last" ] || .cache/bin/go test -c -ldflags='-s -w' -o "$(test_of "$1")" "./$1"
	last=$1
}

# The libraries and programs that wanted checks would compile for themselves.
programs=twin.so
! wanted csrc/examples/exampletest || programs="$programs psrt"
! wanted csrc/examples/exampletest cmd/libpsrt || programs="$programs libpsrt.so device"

# program builds one of them as the checks do it; the C library lies beside what finds it.
program() {
	case $1 in
	twin.so) cc -std=gnu11 -O2 -ffp-contract=off -shared -fPIC -Icsrc/accel -Icsrc/ptx -o "$built/twin.so" csrc/accel/testdata/twin.c -lm ;;
	psrt) .cache/bin/go build -buildvcs=false -ldflags='-s -w' -o "$built/psrt" ./cmd/psrt ;;
	libpsrt.so)
		.cache/bin/go build -buildvcs=false -buildmode=c-shared -o "$built/libpsrt.so" \
			-ldflags "-s -w -extldflags '-Wl,-soname,libpsrt.so,--version-script=$PWD/cmd/libpsrt/libpsrt.map'" ./cmd/libpsrt
		;;
	device) cc -std=gnu99 -O1 -Icmd/libpsrt -pthread -o "$built/device" cmd/libpsrt/testdata/device.c -L"$built" -Wl,-rpath,"\$ORIGIN" -lpsrt -ldl ;;
	esac
}

need() { [ -e "$1" ] || die "no $1: run make gpu-check where there is a Go, then copy this folder"; }

need_built() { need "$(test_of "$1")"; }

# find_nccl names the library that Python's packages bring, where the loader finds none.
find_nccl() {
	[ -z "${PSRT_NCCL_LIBRARY-}" ] || return 0
	found=$(python3 -c 'import glob, importlib.util as u; print(*[f for p in u.find_spec("nvidia").submodule_search_locations for f in glob.glob(p + "/nccl/lib/libnccl.so.2")], sep="\n")' 2>/dev/null | head -n 1) || true
	if [ -n "$found" ] && ! python3 -c 'import ctypes; ctypes.CDLL("libnccl.so.2")' 2>/dev/null; then
		export PSRT_NCCL_LIBRARY="$found"
	fi
}

# lacks says what of the words it is given this host has not.
lacks() {
	for what in $1; do
		case $what in
		cards) [ "$cards" -gt 1 ] || echo "takes two cards, this host has $cards" ;;
		nccl) grep '^no NCCL' "$built/cards" || true ;;
		torch) python3 -c 'import numpy, torch, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1 ||
			echo "no PyTorch for CUDA here: python3 has no numpy, or no torch that sees a GPU" ;;
		esac
	done
}

# run runs a check; a test of it that was skipped, or is not there, is not one that has passed.
ran='' failed='' bars='' wrong='' not_run='' newline='
'
run() {
	name="$1, tests that match $2" log="$logs/$(echo "$1 $2" | tr -c 'A-Za-z0-9\n' _).log"
	why=$(lacks "$4" | paste -sd ';' - | sed 's,;,; ,g')
	if [ -n "$why" ]; then
		echo "gpu-check: $name: not run: $why"
		not_run="$not_run$newline  $name: $why"
		return
	fi
	echo "gpu-check: $name"
	{ (cd "$1" && PSRT_GPU=1 PSRT_ACCEL_TWIN="$built/twin.so" PSRT_BUILT="$built" "$(test_of "$1")" \
		-test.v -test.run="$2" -test.skip="$3" -test.bench="$2" -test.timeout="${GPU_CHECK_TIMEOUT:-20m}") 2>&1 || echo "gpu-check: exit status $?"; } | tee "$log"
	bars="$bars$newline$(grep -o 'bar: .*' "$log" | sed 's/^/  /' || true)"
	if grep -q '^gpu-check: exit status' "$log" || ! grep -Eq '^--- (PASS|SKIP)' "$log"; then
		failed="$failed$newline  $name"
		wrong="$wrong$newline$(grep -B4 -A8 -E '^ *--- FAIL|^panic:' "$log" | tail -n 40)"
	elif grep -q '^ *--- SKIP' "$log"; then
		not_run="$not_run$newline  $name: $(grep '^ *--- SKIP' "$log" | paste -sd ';' - | sed 's,;,; ,g')"
	else
		ran="$ran$newline  $name"
	fi
}

for package in ${CHECKS-}; do
	echo "$checks" | grep -q "^$package:" || die "CHECKS: no check is of $package: $(echo "$checks" | cut -d: -f1 | uniq | paste -sd ' ' -)"
done
if [ "${1-}" = --list ]; then
	echo "make test runs these by fakes of a GPU's driver; the driver, the card and its speed are shown by make gpu-check, on one (docs/gpu.md):"
	each list
	exit
fi
# Whether there is a card is known before minutes of building.
mkdir -p "$built"
if command -v cc >/dev/null; then
	cc -O2 -o "$built/card" csrc/cuda/testdata/card.c -ldl
fi
[ -x "$built/card" ] || die "no $built/card: run make gpu-check where there is a compiler and a Go, then copy this folder"
if [ "${1-}" != --build ]; then
	find_nccl
	"$built/card" >"$built/cards" 2>&1 || die "$(cat "$built/cards"); --build builds the checks alone"
	echo "gpu-check: $(cat "$built/cards")"
	cards=$(sed -n 's/ GPUs\{0,1\} .*here$//p' "$built/cards")
	# The driver keeps what it has compiled, for the next process, too.
	export CUDA_CACHE_PATH="${CUDA_CACHE_PATH:-$built/compiled}"
	logs=${OUT:-$built/logs}
	mkdir -p "$logs"
fi
if [ -x .cache/bin/go ]; then
	for name in $programs; do
		program "$name"
	done
	each build
fi
[ "${1-}" != --build ] || exit 0
for name in $programs; do
	need "$built/$name"
done
each need_built
each run
# What was far up, again: who sees the end of the output alone sees all that counts.
[ -z "$wrong" ] || echo "gpu-check: of what failed:$wrong"
bars=$(echo "$bars" | sed '/^$/d')
[ -z "$bars" ] || echo "gpu-check: figures:$newline$bars"
echo "gpu-check: all that each check said is in $logs"
[ -z "$ran" ] || echo "gpu-check: passed:$ran"
[ -z "$not_run" ] || echo "gpu-check: not run:$not_run"
[ -z "$failed" ] || die "failed:$failed"
