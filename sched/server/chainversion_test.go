package server

import (
	"testing"

	"psrt/sched/psmsg"
)

// A worker speaks what all of a chain know, whatever its head does; a link and a
// connection that only reads what both their ends know.
func TestSpokenInAChain(t *testing.T) {
	c := &chained{cfg: &ChainConfig{}}
	s := &Server{cfg: Config{Chain: c.cfg}, lanes: []*lane{{chain: c}}}
	worker := psmsg.Hello{Chained: true}.Says()
	link, reads := psmsg.Hello{Link: &psmsg.Link{}}.Says(), psmsg.Hello{Chained: true, Reads: true}.Says()
	for _, x := range []struct {
		all   int // of the chain
		other bool
		want  int
	}{{0, true, psmsg.Version}, {5, true, 5}, {psmsg.Version + 3, true, psmsg.Version}, {5, true, 5}, {5, false, 5}} {
		if other := c.speak(x.all); other != x.other {
			t.Errorf("a chain that speaks %d: another version than before: %v", x.all, other)
		}
		for _, k := range []struct {
			hello *psmsg.Hello
			want  int
		}{{&worker, x.want}, {&link, psmsg.Version}, {&reads, psmsg.Version}} {
			if v, err := s.spoken(k.hello); v != k.want || err != nil {
				t.Errorf("in a chain that speaks %d: %+v is answered in %d, want %d (%v)", x.all, *k.hello, v, k.want, err)
			}
		}
	}
	c.speak(4)
	if v, err := s.spoken(&worker); err == nil {
		t.Errorf("a worker speaks %d at a group, which there are not in it", v)
	}
}

// A connection whose hello was answered before the chain came to speak another version
// is made again: it would keep to the old one for good.
func TestSessionOfAnotherVersion(t *testing.T) {
	c := &chained{cfg: &ChainConfig{}}
	s := &Server{cfg: Config{Chain: c.cfg}, lanes: []*lane{{chain: c}}}
	for _, newest := range []int{5, psmsg.Version} {
		hello := psmsg.Hello{Chained: true}.Says()
		hello.Newest = newest
		for _, before := range []int{5, psmsg.Version} {
			c.speak(before)
			v, err := s.spoken(&hello)
			if err != nil {
				t.Fatal(err)
			}
			ses := &session{version: v, newest: newest}
			for _, after := range []int{5, psmsg.Version} {
				c.speak(after)
				want, err := s.spoken(&hello)
				if err != nil {
					t.Fatal(err)
				}
				if got := c.keepsTo(ses); got != (v == want) {
					t.Errorf("a client of %d at a chain of %d, then of %d: agreed on %d, would on %d: kept %v", newest, before, after, v, want, got)
				}
			}
		}
	}
}
