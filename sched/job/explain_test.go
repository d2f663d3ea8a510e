package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"psrt/sched/launch"
	"psrt/sched/train"
)

// asked is the error of a process that was told to end.
type asked struct{ error }

func (asked) Interrupted() bool { return true }

// A rank that the launcher told to end is not blamed for the end: who failed is, even
// where it says that it failed for another's sake.
func TestExplain(t *testing.T) {
	name := func(rank int) string { return fmt.Sprintf("rank %d", rank) }
	lost := Failure(&train.PeerLost{What: "worker 0 is gone"})
	ended := Failure(asked{errors.New("ended by terminated")})
	broken := Failure(errors.New("no space left"))
	for want, failures := range map[string]map[int]*train.Failure{
		"rank 2: train: worker 0 is gone":       {0: ended, 2: lost},
		"rank 3: no space left":                 {0: ended, 2: lost, 3: broken},
		"rank 2 (pid 7) ended with exit code 1": {0: ended},
	} {
		if err := explain(&launch.Death{Rank: 2, Name: name(2), PID: 7, Code: 1}, failures, name); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
