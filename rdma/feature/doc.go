// Package feature answers what this machine offers: huge pages, locked memory,
// NUMA policy, SIMD. Each Test has a name, the requirement it checks and the
// command that mends a missing one, and three answers: nil (yes), an error
// that is ErrNotSupported (no), any other error (could not tell).
//
// It owns the reading of /proc and /sys (Root) and the probes. It must not
// know what the features are for: no sizes of arenas, no transports.
//
// The life of one question: the caller keeps a Prober, calls Check with a
// Test, which runs its probe the first time; yes and no are kept, could not
// tell is asked again the next time. In tests, SkipUnless is the only way to
// skip, so that every skip names its missing requirement and how to mend it.
//
// Probes leave nothing behind: what they map or open they release.
package feature
