package patience

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	const us = time.Microsecond
	p := New(30*us, 30*us, 240*us)
	expect := func(what string, want time.Duration) {
		t.Helper()
		if p.Budget() != want {
			t.Fatalf("%s: spins for %s, want %s", what, p.Budget(), want)
		}
	}
	p.Waited(100 * us)
	expect("a wait that twice the time would nearly have served", 60*us)
	p.Waited(100 * us)
	p.Waited(200 * us)
	expect("and again, and again", 240*us)
	p.Waited(240 * us)
	expect("no more than that", 240*us)
	p.Waited(241 * us)
	expect("a wait that no spinning serves", 30*us)
	for range 3 {
		p.Waited(200 * us)
	}
	if p.Yielded(crowdedYield - 1) {
		t.Fatal("a core that nobody took is crowded")
	}
	expect("an offer that nobody took", 240*us)
	if !p.Yielded(crowdedYield) {
		t.Fatal("a core that somebody took is not crowded")
	}
	for range crowdedWaits {
		expect("others want the core", 30*us)
		p.Waited(200 * us)
	}
	p.Waited(200 * us)
	expect("tried anew", 60*us)

	p = New(50*us, 0, 400*us)
	p.Waited(time.Second)
	expect("in vain", 0)
	p.Waited(100 * us)
	expect("a wait that is not too long", 50*us)
	p.Waited(100 * us)
	expect("and another", 100*us)

	p = New(50*us, 0, 50*us)
	p.Waited(51 * us)
	expect("longer than it may ever be", 0)
	p.Waited(49 * us)
	expect("not longer", 50*us)

	p = New(0, 0, 0)
	p.Waited(10 * us)
	expect("told not to spin", 0)
}
