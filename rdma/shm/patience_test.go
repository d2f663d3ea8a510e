package shm

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	const us = time.Microsecond
	p := newPatience(30 * us)
	expect := func(what string, want time.Duration) {
		t.Helper()
		if p.budget != want {
			t.Fatalf("%s: spins for %s, want %s", what, p.budget, want)
		}
	}
	p.waited(100 * us)
	expect("a wait that twice the time would nearly have served", 60*us)
	p.waited(100 * us)
	p.waited(200 * us)
	expect("and again, and again", 240*us)
	p.waited(240 * us)
	expect("no more than that", 240*us)
	p.waited(241 * us)
	expect("a wait that no spinning serves", 30*us)
	for range 3 {
		p.waited(200 * us)
	}
	if p.yielded(crowdedYield - 1) {
		t.Fatal("a core that nobody took is crowded")
	}
	expect("an offer that nobody took", 240*us)
	if !p.yielded(crowdedYield) {
		t.Fatal("a core that somebody took is not crowded")
	}
	for range crowdedWaits {
		expect("others want the core", 30*us)
		p.waited(200 * us)
	}
	p.waited(200 * us)
	expect("tried anew", 60*us)

	none := newPatience(0)
	none.waited(10 * us)
	if none.budget != 0 {
		t.Fatalf("told not to spin, spins for %s", none.budget)
	}
}
