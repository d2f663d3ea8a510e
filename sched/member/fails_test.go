package member

import (
	"testing"
	"time"

	"psrt/sched/place"
)

// A newcomer that never can take a group's rows is tried less and less often; others
// join meanwhile, and one that was only let go is tried at once.
func TestFails(t *testing.T) {
	servers := []place.Server{{ID: 0, Gen: 1, Addr: "a:1", Host: "h0", Lanes: 1, Weight: 1}, {ID: 1, Gen: 1, Addr: "b:1", Host: "h1", Lanes: 1, Weight: 1}, {ID: 2, Gen: 1, Addr: "c:1", Host: "h2", Lanes: 1, Weight: 1}}
	m, err := place.NewChains(place.ChainsConfig{Slots: 16, Groups: 1, Replicas: 1}, servers)
	if err != nil {
		t.Fatal(err)
	}
	m.Epoch = 1
	m.Replicas = 2
	f := NewFails(time.Second)
	target, err := m.Target(servers)
	if err != nil {
		t.Fatal(err)
	}
	bad := -1
	var tries []time.Duration
	for now := time.Duration(0); now < 10*time.Minute; now += 100 * time.Millisecond {
		next, moves := m.Step(target, place.Reports{Failed: f.Waiting(now)}, place.Limits{})
		for _, mv := range moves {
			if mv.Role == place.Joins {
				bad = mv.To
				tries = append(tries, now)
			}
		}
		if len(next.Changed()) == 0 {
			continue
		}
		next.Epoch = m.Epoch + 1
		f.Adopt(m, next, func(int, Node) bool { return false }, now)
		m = next
		// It says so, and is let go.
		gone := m.Without(0, bad)
		gone.Epoch = m.Epoch + 1
		f.Adopt(m, gone, func(g int, n Node) bool { return g == 0 && n == m.Node(bad) }, now)
		m = gone
	}
	if len(tries) < 8 || len(tries) > 20 {
		t.Fatalf("%d tries in ten minutes: %v", len(tries), tries)
	}
	for i := 2; i < 7; i++ {
		if a, b := tries[i-1]-tries[i-2], tries[i]-tries[i-1]; b < a*3/2 {
			t.Errorf("try %d came %v after the one before, that %v", i, b, a)
		}
	}
	// Another process of that number begins anew.
	again := *m
	again.Servers = append([]place.Server(nil), m.Servers...)
	again.Servers[again.Index(bad)].Gen = 2
	f.Adopt(m, &again, func(int, Node) bool { return false }, 10*time.Minute)
	if len(f.of) != 0 {
		t.Errorf("remembered of a process that is gone: %v", f.of)
	}
	// So does a member that has lost what it had, and after long has lost it again.
	j := *m
	j.Groups = append([]place.Group(nil), m.Groups...)
	j.Groups[0].Chain = append([]place.Member{{Server: bad}}, m.Groups[0].Chain...)
	for _, at := range []time.Duration{10 * time.Minute, 20 * time.Minute} {
		f.Adopt(&j, m, func(_ int, n Node) bool { return n.Server == bad }, at)
		if a, b := f.Waiting(at), f.Waiting(at+time.Second); len(a) != 1 || len(b) != 0 {
			t.Errorf("at %v %v waits, and after a second %v", at, a, b)
		}
	}
	f = NewFails(time.Second)
	// One that was let go for another reason does not wait.
	j.Groups[0].Chain, j.Groups[0].Joiner = m.Groups[0].Chain, &place.Member{Server: bad}
	f.Adopt(&j, m, func(int, Node) bool { return false }, 10*time.Minute)
	if w := f.Waiting(10 * time.Minute); len(w) != 0 {
		t.Errorf("%v waits", w)
	}
}
