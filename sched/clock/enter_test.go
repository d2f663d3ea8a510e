package clock

import "testing"

func TestEnter(t *testing.T) {
	c := New(3, 1)
	tick := func(w int, steps ...uint64) {
		t.Helper()
		for _, s := range steps {
			if err := c.Tick(w, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	tick(0, 0, 1)
	tick(1, 0)
	tick(2, 0)
	c.Leave(2)
	if got := c.EnterAt(2); got != 1 {
		t.Errorf("a worker that left may enter at %d, want 1, the oldest open step", got)
	}
	tick(1, 1)
	if c.Min() != 2 {
		t.Fatalf("min %d, want 2", c.Min())
	}
	// Between asking and entering the others went on: never back.
	if got := c.Enter(2, 1); got != 2 || c.Min() != 2 || !c.MayPush(2, 2) {
		t.Errorf("entered at %d, min %d", got, c.Min())
	}
	// Forward, for another process that finished what the first had begun.
	if got := c.Enter(2, 5); got != 5 || c.At(2) != 5 || c.Min() != 2 {
		t.Errorf("forward to %d, min %d", got, c.Min())
	}
	if got := c.Enter(2, 3); got != 5 {
		t.Errorf("back to %d", got)
	}
	for w := range 3 {
		c.Leave(w)
	}
	if c.Min() != None || c.EnterAt(0) != 5 {
		t.Errorf("all left: min %d, enter at %d", c.Min(), c.EnterAt(0))
	}
	if got := c.Enter(1, 5); got != 5 || c.Min() != 5 || !c.MayPull(1, 6) || c.MayPull(1, 7) {
		t.Errorf("alone at %d, min %d", got, c.Min())
	}
	if got := c.Enter(7, 1); got != None {
		t.Errorf("a worker that does not exist entered at %d", got)
	}
}
