#!/bin/sh
# moves.sh holds what is counted as copied over verbs against the moves of Go's
# own runtime, in the lab: built with a runtime whose memmove adds up what it is
# given, 256 bytes or more at a time. sched/client does the same for tcp and shm.
set -eu
GO=${GO:-.cache/bin/go}
runtime=$("$GO" env GOROOT)/src/runtime
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk '{ print } /^\tMOVQ\tCX, BX$/ { n++; print "\tCMPQ\tCX, $256\n\tJB\ttail\n\tLOCK\n\tADDQ\tCX, runtime·movedBytes(SB)" } END { exit n != 1 }' \
	"$runtime/memmove_amd64.s" >"$dir/memmove_amd64.s" || { echo "moves.sh: $runtime/memmove_amd64.s does not begin as known: adapt it" >&2; exit 1; }
cat >"$dir/moved_bytes.go" <<'GO'
package runtime

import "internal/runtime/atomic"

var movedBytes uint64

func MovedBytes() uint64 { return atomic.Load64(&movedBytes) }
GO
cat >"$dir/overlay.json" <<JSON
{"Replace": {"$runtime/memmove_amd64.s": "$dir/memmove_amd64.s", "$runtime/moved_bytes.go": "$dir/moved_bytes.go"}}
JSON
GOFLAGS="-overlay=$dir/overlay.json -tags=psrt_moves" bin/pslab test --run '^TestMoves' -v ./sched/job/verbstest
