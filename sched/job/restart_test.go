package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// One that is silent alone is dead; all at once are short of cores, and come back one
// after the other.
func TestSilences(t *testing.T) {
	const silence = 6 * time.Second
	began := time.Now()
	s := silences{silence: silence, had: map[string]aliveCard{}, since: map[string]time.Time{}}
	look := func(at time.Duration, lives string, want string) {
		t.Helper()
		alive := map[int]aliveCard{}
		for i, p := range strings.Split(lives, "") {
			alive[i] = aliveCard{Process: p}
		}
		living, dead := s.look(alive, began.Add(at*time.Second))
		got := ""
		for _, d := range dead {
			got += fmt.Sprint(d.Process, " after ", d.silent, " ")
		}
		if got != want || len(living) != len(lives) {
			t.Fatalf("at %d s %q lives, dead are %q, want %q", at, lives, got, want)
		}
	}
	look(0, "abc", "")
	look(1, "ab", "")
	look(2, "ab", "")
	look(3, "ab", "c after 8s ")
	look(4, "abd", "")
	look(5, "", "")
	look(16, "", "")
	look(16, "a", "") // the others have been away for much longer than one alone may
	look(17, "ab", "")
	look(18, "ab", "d after 8s ")
	look(19, "", "")
	look(30, "", "")
	for at := time.Duration(31); len(s.had) > 0; at++ { // nobody comes back
		_, dead := s.look(nil, began.Add(at*time.Second))
		if at != 31 || len(dead) != 2 {
			t.Fatalf("at %d s %v are dead, want both at 31 s", at, dead)
		}
	}
}

// A worker that was away itself does not take over the numbers of others that were so with
// it; one that was there all the time does.
func TestWhoWasAwayAdoptsNobody(t *testing.T) {
	c := local.New()
	defer c.Close()
	put := func(key string, v any) {
		t.Helper()
		text, err := json.Marshal(v)
		if err == nil {
			_, err = c.Put(t.Context(), key, text, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	j := &train.Job{Servers: 1, Workers: 2, OnWorkerLoss: train.LossContinue, WorkerTimeout: 3600}
	adopted := make(chan int, 1)
	a := &adopter{cfg: &RankConfig{Coord: c, Rank: 1}, job: j, self: "mine", life: t.Context(), away: map[int]since{}, own: aliveKey(0, 1), cancel: func(error) {}}
	a.run = func(_ context.Context, n *number) error {
		adopted <- n.worker
		n.end(false)
		return nil
	}
	defer a.adopted.Wait()
	look := func() {
		t.Helper()
		if _, err := a.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	long := func() { a.away[1] = since{1, time.Now().Add(-time.Hour)} }
	mine := aliveCard{1, "mine", 1, 77}
	put(numberPrefix+"0", numberCard{Generation: 1})
	put(numberPrefix+"1", numberCard{Generation: 1})
	put(a.own, mine)
	look()
	long()
	put(a.own, mine) // its lease had ended, and nobody looked
	look()
	long()
	if _, err := c.Delete(t.Context(), a.own); err != nil {
		t.Fatal(err)
	}
	look()
	put(a.own, mine)
	look()
	if len(adopted) > 0 || time.Since(a.away[1].at) > time.Minute*30 {
		t.Fatalf("%d are adopted, away since %v", len(adopted), a.away[1].at)
	}
	long()
	look()
	if worker := <-adopted; worker != 1 {
		t.Errorf("worker %d is adopted", worker)
	}
}

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
