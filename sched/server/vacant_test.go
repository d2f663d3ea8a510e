package server

import (
	"testing"
	"time"

	"psrt/rdma/dial"
)

// vacated is a server of n places without lanes or a network.
func vacated(n int) *Server {
	s := &Server{cfg: Config{Workers: n}, conns: map[*dial.Conn]int{}, away: map[int]*time.Timer{}, left: map[int]bool{},
		joining: map[int]int{}, holder: map[int]uint64{}}
	s.Vacate()
	return s
}

// TestNumbers: what a client wishes where that is free, what it had, else the
// lowest; a place whose worker may come back is not given away.
func TestNumbers(t *testing.T) {
	s := vacated(3)
	var known []uint64
	take := func(wish int, client uint64, want int) {
		t.Helper()
		got := s.number(wish, client, known, false)
		if got != want {
			t.Fatalf("client %d, who wishes %d, has %d, want %d", client, wish, got, want)
		}
		if got >= 0 {
			s.holder[got] = client
			s.joining[got]++ // it stays
			delete(s.left, got)
		}
	}
	take(2, 11, 2)
	take(2, 12, 0) // taken
	take(9, 13, 1) // there is none
	take(0, 14, -1)
	take(0, 11, 2) // it has one, and comes twice
	s.joining[1] = 0
	s.away[1] = time.NewTimer(time.Hour)
	defer s.away[1].Stop()
	take(1, 14, -1) // its worker may come back
	take(0, 13, 1)  // and does
	delete(s.away, 1)
	s.joining[1] = 0
	take(0, 14, 1)
	s.joining[1], s.joining[0] = 0, 0
	take(0, 13, 0) // its old number is another's now
	s.left[1] = true
	take(2, 15, 1) // who had it has said goodbye, and is hanging up
	s = vacated(3)
	known = []uint64{20, 5, 0}
	take(0, 10, 1) // a chain has seen a newer client under number 0, and would refuse
	take(0, 30, 0)
	s = vacated(3)
	s.cfg.Trainers.Reserved = 1
	known = nil
	take(2, 1, 0)
	take(2, 2, 1)
	take(2, 3, -1)
}

// TestPast: how far a client has come is known under whatever number it comes
// back, for a bounded number of clients.
func TestPast(t *testing.T) {
	l := &lane{client: []uint64{7, 8}, lastSeq: []uint64{70, 80}}
	if got := l.past.take(l, 8, 3); got != 80 || l.client[1] != 0 {
		t.Errorf("a client that has a number goes on after %d, clients %v", got, l.client)
	}
	if got := l.past.take(l, 9, 3); got != 3 {
		t.Errorf("an unknown client goes on after %d, it says 3", got)
	}
	l.past.keep(0, 1) // nobody
	for c := range uint64(maxPast + 2) {
		l.past.keep(100+c, c)
		l.past.keep(100+c, c+1)
	}
	if len(l.past.last) != maxPast || len(l.past.order) != maxPast {
		t.Errorf("%d clients are remembered, %d in order; want %d", len(l.past.last), len(l.past.order), maxPast)
	}
	if old, young := l.past.take(l, 101, 5), l.past.take(l, 102, 5); old != 5 || young != 3 {
		t.Errorf("the oldest is known (%d), or the second oldest is not (%d)", old, young)
	}
}
