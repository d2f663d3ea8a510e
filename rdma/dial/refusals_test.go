package dial

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Who hangs up without a word is told of where nobody of its host has proved to be a
// member, also a moment later.
func TestStrangersWhoHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		r := NewRefusals(func(line string) { lines = append(lines, line) })
		from := func(host string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(host), Port: 7} }
		r.OnProve(from("10.0.0.1"))
		for range 3 {
			for _, host := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
				r.OnStranger(from(host), fmt.Errorf("dial: %w", io.EOF))
			}
		}
		r.OnStranger(&net.UnixAddr{Name: "@", Net: "unix"}, io.EOF)
		time.Sleep(silentFor / 2)
		r.OnProve(from("10.0.0.2"))
		time.Sleep(silentFor)
		synctest.Wait()
		if want := []string{"refused 10.0.0.3:7: it hung up without proving the token"}; !slices.Equal(lines, want) || len(r.members.silent) > 0 {
			t.Errorf("%q, want %q; %d are waited for", lines, want, len(r.members.silent))
		}
		r.OnStranger(from("10.0.0.3"), io.EOF)
		r.Close()
		time.Sleep(2 * silentFor)
		synctest.Wait()
		if len(lines) != 1 {
			t.Errorf("behind the end: %q", lines)
		}
	})
}

// A flood costs a line at once and one a second, whoever else is refused meanwhile; and
// each refusal is counted in one line.
func TestRefusalsAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		r := NewRefusals(func(line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		})
		said := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(lines)
			if !slices.Equal(lines, want) {
				t.Errorf("%q, want %q", lines, want)
			}
			lines = nil
		}
		from := func(host string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(host), Port: port} }
		for i := range 300 {
			r.OnReject(from("10.0.0.7", 40000+i), fmt.Errorf("proof %d", i))
		}
		r.OnReject(from("fd00::1", 5), errors.New("silence"))
		said("refused 10.0.0.7:40000: proof 0", "refused [fd00::1]:5: silence")
		time.Sleep(foldFor + foldFor/2)
		said("refused 299 more from 10.0.0.7 within 1s; the last: proof 299")
		r.OnReject(from("10.0.0.7", 7), errors.New("again"))
		r.OnReject(from("fd00::1", 6), errors.New("a new one"))
		said("refused [fd00::1]:6: a new one")
		time.Sleep(3 * foldFor)
		said("refused 1 more from 10.0.0.7 within 1s; the last: again")
		if len(r.hosts) != 0 {
			t.Errorf("%d addresses are remembered in vain", len(r.hosts))
		}
		for i := range foldedHosts + 9 {
			r.OnReject(from(fmt.Sprintf("10.1.%d.%d", i/200, i%200), 7), errors.New("x"))
		}
		synctest.Wait()
		mu.Lock()
		if len(lines) != foldedHosts+1 || len(r.hosts) != foldedHosts+1 {
			t.Errorf("%d lines, %d addresses", len(lines), len(r.hosts))
		}
		lines = nil
		mu.Unlock()
		r.Close()
		said("refused 8 more from other addresses within 1s; the last: x")
		r.OnReject(from("10.0.0.8", 7), errors.New("behind the end"))
		time.Sleep(2 * foldFor)
		said()
		r.Close()
	})
}
