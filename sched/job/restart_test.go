package job

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// A worker that was stopped, whose number another took over, and that then went on
// ends; the job does not. What it had adopted is lost, its own number is the other's.
func TestAWorkerWhoseNumberWasTakenOver(t *testing.T) {
	l, told := chainedLauncher(t, 2, []uint64{11, 12}, []uint64{11, 12})
	l.job.OnWorkerLoss, l.job.Workers = train.LossContinue, 3
	l.lost, l.waiting = map[int]bool{}, map[int]time.Time{}
	d := killed(l, 2)
	d.Signal, d.Code = 0, 1
	put := func(key string, v any) {
		text, err := json.Marshal(v)
		if err == nil {
			_, err = l.store.Put(t.Context(), key, text, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, v := range map[string]any{
		numberPrefix + "0": numberCard{Generation: 2}, aliveKey(0, 2): aliveCard{2, "another", 3, 78},
		numberPrefix + "1": numberCard{Generation: 1}, aliveKey(1, 1): aliveCard{1, "another", 3, 78},
		numberPrefix + "2": numberCard{Generation: 2}, aliveKey(2, 2): aliveCard{2, process(d.PID, d.Rank), d.Rank, d.PID},
	} {
		put(key, v)
	}
	l.failures[2] = &train.Failure{Message: (&psmsg.TakenOverError{Worker: 0}).Error()}
	if v := l.deaths(t.Context())(d); v.End != nil || v.Again != nil {
		t.Fatalf("%+v", v)
	}
	if len(*told) != 1 || !strings.Contains((*told)[0], "another worker goes on for it") || l.said(2) != nil {
		t.Errorf("told %q, failures %v", *told, l.failures)
	}
	for key, there := range map[string]bool{aliveKey(0, 2): true, lostPrefix + "0": false, aliveKey(1, 1): true, lostPrefix + "1": false, aliveKey(2, 2): false, lostPrefix + "2": true} {
		if _, err := l.store.Get(t.Context(), key); err == nil != there || err != nil && !errors.Is(err, coord.ErrNotFound) {
			t.Errorf("%s: %v, want it there: %v", key, err, there)
		}
	}
	l.failures[3] = &train.Failure{Message: "its gradients are not finite"}
	d = killed(l, 3)
	if v := l.deaths(t.Context())(d); v.End == nil {
		t.Errorf("one that cannot go on is missed by nobody: %+v", v)
	}
}
