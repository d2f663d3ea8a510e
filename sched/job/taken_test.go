package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"psrt/sched/coord/local"
	"psrt/sched/train"
)

// The second process of a rank is told at once who the first one is.
func TestRankTaken(t *testing.T) {
	c := local.New()
	defer c.Close()
	j := &train.Job{Servers: 1, Workers: 2}
	for r := range 3 {
		if err := alone(t.Context(), &RankConfig{Rank: r, Coord: c, Seen: true}, j, false); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	err := alone(t.Context(), &RankConfig{Rank: 2, Coord: c, Seen: true}, j, false)
	var bad *train.InputError
	if want := fmt.Sprintf("rank 2 (worker 1) is process %d on ", os.Getpid()); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// One that waits for a number, as its worker may be dead, says so, and who has it.
func TestWaitForANumberIsSaid(t *testing.T) {
	c := local.New()
	defer c.Close()
	j := &train.Job{Servers: 1, Workers: 1, OnWorkerLoss: train.LossRestart, WorkerTimeout: 60}
	had, err := claim(t.Context(), c, j, 0, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer had.end(true)
	var said []string
	err = noteHolder(t.Context(), c, j, 0, func(line string) { said = append(said, line) })
	if want := fmt.Sprintf("worker 0 is process %d@", os.Getpid()); err != nil || len(said) != 1 || !strings.Contains(said[0], want) {
		t.Errorf("%v: said %q, want %q", err, said, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var bad *train.InputError
	if _, err := claim(ctx, c, j, 0, 1, 10*time.Millisecond); !errors.As(err, &bad) {
		t.Errorf("claimed beside one that lives: %v", err)
	}
}

// A job with replicas has another store when it runs than at its start, by which a second
// process of a worker is found too. Its own card is no other's.
func TestRankTakenInAnotherStore(t *testing.T) {
	first, later := local.New(), local.New()
	defer first.Close()
	defer later.Close()
	j := &train.Job{Servers: 3, Workers: 1, Replicas: 2, Groups: 6}
	cfg := RankConfig{Rank: 3, Coord: first, Seen: true}
	for _, c := range []*local.Store{first, later, later} {
		cfg.Coord = c
		if err := alone(t.Context(), &cfg, j, false); err != nil {
			t.Fatal(err)
		}
	}
	var bad *train.InputError
	if err := alone(t.Context(), &RankConfig{Rank: 3, Coord: later, Seen: true}, j, false); !errors.As(err, &bad) {
		t.Errorf("a second process of a worker: %v", err)
	}
	// A server may be started again.
	for range 2 {
		if err := alone(t.Context(), &RankConfig{Rank: 1, Coord: later, Seen: true}, j, false); err != nil {
			t.Error(err)
		}
	}
}
