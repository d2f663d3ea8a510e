package remote

import (
	"errors"
	"net"
	"strings"
	"testing"

	"psrt/sched/coord"
)

type panicking struct{ net.Conn }

func (panicking) Read([]byte) (int, error) { panic("as told") }

// TestPanicEndsTheLink: and nothing else.
func TestPanicEndsTheLink(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	l := newLink(panicking{here})
	<-l.done
	if l.alive() || !errors.Is(l.err, coord.ErrUnavailable) || !strings.Contains(l.err.Error(), "as told") {
		t.Fatalf("alive %v, %v", l.alive(), l.err)
	}
}
