package chain

import "testing"

// A way on which progress takes long is not filled with what is on it already, and one
// that has lost something, or was slow once, gets it again soon.
func TestPatience(t *testing.T) {
	const least = 2
	var p patience
	again := func(every, times int) (n int) {
		for range times {
			for range every {
				if p.due(least) {
					n++
				}
			}
			p.progress()
		}
		return n
	}
	if n := again(1, 100); n > 0 {
		t.Errorf("sent again %d times though all is acknowledged at once", n)
	}
	if n := again(8, 100); n > 4 {
		t.Errorf("sent again %d times over a way that takes 8 ticks", n)
	}
	if n := again(8, 100); n > 0 {
		t.Errorf("sent again %d times over a way that is known to take 8 ticks", n)
	}
	again(1, 20)
	n := 0
	for !p.due(least) {
		n++
	}
	if n > 2*least {
		t.Errorf("it takes %d ticks until what was lost is sent again, over a way that is fast", n)
	}
	p = patience{slow: 1000}
	for n = 1; !p.due(least); n++ {
	}
	if n != mostPatience*least {
		t.Errorf("after the slowest it takes %d ticks, want %d", n, mostPatience*least)
	}
}
