package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	late := Failure(errors.New("no route to host"))
	for want, told := range map[string][]farewell{
		"rank 2: train: worker 0 is gone":       {{0, ended}, {2, lost}},
		"rank 3: no space left":                 {{0, ended}, {2, lost}, {3, broken}, {1, late}},
		"rank 1: no route to host":              {{1, late}, {3, broken}},
		"rank 4: --lr 0":                        {{3, broken}, {4, &train.Failure{Message: "--lr 0", BadInput: true}}},
		"rank 2 (pid 7) ended with exit code 1": {{0, ended}},
	} {
		if err := explain(&launch.Death{Rank: 2, Name: name(2), PID: 7, Code: 1}, told, name); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What ranks say is told in the order in which they said it, and no more of those
// without which the job goes on.
func TestFailuresAreToldInOrder(t *testing.T) {
	l := &launcher{job: &train.Job{Servers: 2, Workers: 2}, failures: map[int]*train.Failure{}}
	for _, line := range []string{`3 no space left`, `0 late`, `2 went on without it`, `1 early`, `3 again`} {
		rank, words, _ := strings.Cut(line, " ")
		text, err := json.Marshal(train.Event{Failure: &train.Failure{Message: words}})
		if err != nil {
			t.Fatal(err)
		}
		l.event(int(rank[0]-'0'), text)
	}
	delete(l.failures, 2) // as its death does
	var said []string
	for _, f := range l.told() {
		said = append(said, fmt.Sprint(f.rank, " ", f.Message))
	}
	if want := []string{"0 late", "1 early", "3 again"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}
