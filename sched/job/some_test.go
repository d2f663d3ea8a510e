package job

import "testing"

// some is the list; with -short, as the race detector runs these tests in CI, every second
// of it, the last one among them.
func some[T any](all []T) (kept []T) {
	if !testing.Short() {
		return all
	}
	for i := (len(all) + 1) % 2; i < len(all); i += 2 {
		kept = append(kept, all[i])
	}
	return kept
}
