package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/coord/local"
	"psrt/sched/place"
)

// A group's server that is never made ends the process, and one that is made after that
// is ended, too.
func TestOpenThatHangs(t *testing.T) {
	host, err := dial.New(dial.Config{Transport: "tcp", Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	store := local.New()
	defer store.Close()
	h := newHub()
	hang, late := make(chan struct{}), make(chan *fakeGroup, 1)
	m, err := New(Config{
		Host: host, Listen: "127.0.0.1:0", Coord: store, First: place.ChainsConfig{Slots: 16, Groups: 1, Replicas: 1}, FirstServers: 1,
		Server: place.Server{Host: "h"}, OpenWithin: 100 * time.Millisecond,
		Open: func(s Seat) (Group, error) {
			<-hang
			g := newFakeGroup(h, s, new(sync.RWMutex))
			late <- g
			return g, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.Run(ctx); err == nil || !strings.Contains(err.Error(), "was not made within 100ms") {
		t.Fatalf("it ends with %v", err)
	}
	close(hang)
	g := <-late
	select {
	case <-g.gone:
	case <-ctx.Done():
		t.Fatal("the server that came too late is not ended")
	}
}

// What this host lacks says nothing of the other one.
func TestOwnFault(t *testing.T) {
	wrap := func(e syscall.Errno) error {
		return fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", e)})
	}
	for _, c := range []struct {
		err error
		own bool
	}{
		{wrap(syscall.EMFILE), true}, {wrap(syscall.ENETUNREACH), true}, {wrap(syscall.EADDRNOTAVAIL), true}, {wrap(syscall.EPERM), true},
		{wrap(syscall.ECONNREFUSED), false}, {wrap(syscall.ECONNRESET), false}, {errors.New("closed"), false},
	} {
		if got := ownFault(c.err); got != c.own {
			t.Errorf("%v: own fault %v", c.err, got)
		}
	}
}

// failing is a group's server that says why it has lost the rows.
type failing struct {
	Group
	why string
}

func (f *failing) Failed() string { return f.why }

// Why a group has a replica less is told, once for each reason.
func TestLostIsTold(t *testing.T) {
	f := &failing{}
	m := &Member{seats: map[int]*seat{3: {group: 3, server: f}, 4: {group: 4}}, why: map[int]string{}, notes: make(chan string, maxNotes)}
	for _, why := range []string{"", "no memory", "no memory", "no disk", "no memory"} {
		f.why = why
		for group := 2; group < 5; group++ { // the others are no seats, or not made yet
			m.lost(group)
		}
	}
	close(m.notes)
	var told []string
	for note := range m.notes {
		told = append(told, note)
	}
	if len(told) != 3 || !strings.Contains(told[0], "group 3 has no replica here: no memory") || !strings.Contains(told[1], "no disk") {
		t.Errorf("told %q", told)
	}
}
