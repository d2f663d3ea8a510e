package judge

import "fmt"

// Kinds of Violation.
const (
	Lost      = "lost push"       // acknowledged, and in no version
	Doubled   = "doubled push"    // in two versions
	Invented  = "invented push"   // nobody sent it
	Reordered = "reordered push"  // before an earlier one of its worker, or at another clock
	Unequal   = "unequal records" // of one lane
	TooEarly  = "early pull"      // answered before its clock allows
	TooNew    = "late pull"       // BSP: sees its own step, or a later one
	Partial   = "partial step"    // BSP: a version that is not whole steps
	Forgotten = "forgotten push"  // the worker's own, acknowledged before it asked
	Backward  = "backward pull"   // older than what the worker was given before
	Old       = "old row"         // kept by the worker for longer than it may
	NoVersion = "unknown version" // the lane never had it
	Value     = "wrong value"     // not that of the version
)

// PushRef names a push.
type PushRef struct {
	Worker int    `json:"worker"`
	Step   uint64 `json:"step"`
	Seq    uint64 `json:"seq"`
	// Version is that of the table with it, 0 for none.
	Version uint64 `json:"version,omitempty"`
}

func (p PushRef) String() string {
	return fmt.Sprintf("push %d of worker %d (step %d)", p.Seq, p.Worker, p.Step)
}

// PullRef names a pull.
type PullRef struct {
	Worker  int    `json:"worker"`
	Step    uint64 `json:"step"`
	Call    uint64 `json:"call"` // which of the worker's, from 1
	Version uint64 `json:"version"`
	Look    bool   `json:"look,omitempty"` // at any clock: an evaluation, or the last look
}

func (p PullRef) String() string {
	if p.Look {
		return fmt.Sprintf("pull %d of worker %d (a look at any clock)", p.Call, p.Worker)
	}
	return fmt.Sprintf("pull %d of worker %d (step %d)", p.Call, p.Worker, p.Step)
}

// Violation is one broken promise: the pull that shows it, the push that it is
// about, or both.
type Violation struct {
	Kind  string   `json:"kind"`
	Lane  int      `json:"lane"`
	Table string   `json:"table"`
	Pull  *PullRef `json:"pull,omitempty"`
	Push  *PushRef `json:"push,omitempty"`
	Key   *uint64  `json:"key,omitempty"`
	Text  string   `json:"text"`
}

func (v *Violation) String() string {
	return fmt.Sprintf("%s: lane %d, table %s: %s", v.Kind, v.Lane, v.Table, v.Text)
}

// Run is the verdict on one run.
type Run struct {
	Run         string `json:"run"`
	Consistency string `json:"consistency"` // as it was promised
	Consistent  bool   `json:"consistent"`
	Workers     int    `json:"workers"`
	Lanes       int    `json:"lanes"`
	Steps       uint64 `json:"steps"`  // the most that a worker pushed
	Pushes      int    `json:"pushes"` // to one lane each, judged
	Pulls       int    `json:"pulls"`  // from one lane each, judged
	Unjudged    int    `json:"unjudged"`
	Keys        int    `json:"keys"`   // sampled
	Values      int    `json:"values"` // compared
	// Notes say what could not be judged, and why.
	Notes []string `json:"notes,omitempty"`
	// Violations are the first of each kind, table and lane; Broken counts all.
	Violations []*Violation `json:"violations,omitempty"`
	Broken     int          `json:"broken"`
}

// Report is the verdict on a directory.
type Report struct {
	Dir        string `json:"dir"`
	Consistent bool   `json:"consistent"`
	Runs       []*Run `json:"runs"`
}

// eachMost bounds the violations of each kind that are reported of a table in a lane.
const eachMost = 3

// ModeOf is a staleness in words.
func ModeOf(staleness int) string {
	switch {
	case staleness == 0:
		return "bsp"
	case staleness < 0:
		return "asp"
	}
	return fmt.Sprintf("ssp(%d)", staleness)
}
