#!/bin/sh
# Runs every fuzz test for the given time, one after the other: go fuzzes one a
# call. Stops at the first that finds something.
#
#   GO=go .ci/fuzz.sh 60s
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: .ci/fuzz.sh TIME, such as 60s" >&2; exit 2; }
GO=${GO:-go}

grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r name; do
		echo "fuzz $name ($(dirname "$file")) for $1"
		"$GO" test -run '^$' -fuzz "^$name\$" -fuzztime "$1" "$(dirname "$file")" </dev/null
	done
done
