package rendezvous

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Where the kernel connects and the process takes longer than ProbeTimeout to say a word,
// for want of cores, it is reached all the same.
func TestAskASlowRank(t *testing.T) {
	token := []byte(strings.Repeat("token", 8))
	p, err := listenProbe(3, "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	slow, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	go func() {
		for {
			from, err := slow.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				time.Sleep(ProbeTimeout + 100*time.Millisecond)
				to, err := net.Dial("tcp", p.l.Addr().String())
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(from, to) }()
				_, _ = io.Copy(to, from)
			}()
		}
	}()
	if from, err := ask(t.Context(), slow.Addr().String(), 3, token); err != nil || from != "127.0.0.1" {
		t.Errorf("from %s: %v", from, err)
	}
	gone := slow.Addr().String()
	slow.Close()
	if _, err := ask(t.Context(), gone, 3, token); err == nil {
		t.Error("nobody is there, and is reached")
	}
}
