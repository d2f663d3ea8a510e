package rendezvous

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// Who has the token is answered, by the rank it asks for; a stranger is not, and neither is
// who asks for another.
func TestEcho(t *testing.T) {
	token := []byte(strings.Repeat("token", 8))
	e, err := listenEcho(3, "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	addr := e.conn.LocalAddr().String()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stranger, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	for _, n := range []int{0, 1, questionBytes - 1, questionBytes, questionBytes + 1, 1400} {
		if _, err := stranger.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := askByDatagram(ctx, addr, 3, token); err != nil {
		t.Error(err)
	}
	// The answer above came after the questions of the stranger had been read.
	_ = stranger.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := stranger.Read(make([]byte, 100)); err == nil {
		t.Errorf("a stranger was answered by %d bytes", n)
	}
	for what, ask := range map[string]func(context.Context) error{
		"another token": func(ctx context.Context) error {
			return askByDatagram(ctx, addr, 3, []byte(strings.Repeat("other", 8)))
		},
		"another rank": func(ctx context.Context) error { return askByDatagram(ctx, addr, 2, token) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*echoAgain)
		if err := ask(ctx); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
	e.close()
	ctx, cancel = context.WithTimeout(t.Context(), 3*echoAgain)
	defer cancel()
	if err := askByDatagram(ctx, addr, 3, token); err == nil || !strings.Contains(err.Error(), "--transport tcp") {
		t.Errorf("nobody is there, and is reached: %v", err)
	}
}
