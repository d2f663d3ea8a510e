package exchange

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/dial"
	"psrt/rdma/invariant"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

// town is members and where they are.
type town struct {
	mu    sync.Mutex
	addrs []string
}

func (w *town) set(i int, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addrs[i] = addr
}

func (w *town) address(_ context.Context, i int) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.addrs[i] == "" {
		return "", fmt.Errorf("worker %d has not said where it is", i)
	}
	return w.addrs[i], nil
}

// process stands for one: it has a host of its own.
type process struct {
	host *dial.Host
	*Member
}

func (w *town) process(t *testing.T, transport string, me int, timeout time.Duration) *process {
	t.Helper()
	h, err := dial.New(dial.Config{Transport: transport, Token: []byte("the token of all tests, long enough")})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Listen(h, "127.0.0.1:0", Options{Me: me, Size: len(w.addrs), Timeout: timeout, Node: -1, Address: w.address})
	if err != nil {
		t.Fatal(err)
	}
	w.set(me, m.Addr())
	p := &process{h, m}
	t.Cleanup(p.end)
	return p
}

// end may be called again.
func (p *process) end() {
	_ = p.Member.Close()
	_ = p.host.Close()
}

// length is that of a row: most are short, every 97th longer than landing memory.
func length(member int, row uint32) int {
	if row%97 == 96 {
		return landingBytes + 1000 + int(row)
	}
	return 8 + int(row*7+uint32(member))%600
}

func fill(p []byte, member int, row uint32) {
	binary.LittleEndian.PutUint32(p, row)
	binary.LittleEndian.PutUint32(p[4:], uint32(len(p)))
	for i := range p[8:] {
		p[8+i] = byte(int(row) + member + i)
	}
}

func packer(member int) Pack {
	return func(rows []uint32, into []byte) (n, bytes int, err error) {
		for _, r := range rows {
			if r >= 1<<20 {
				return 0, 0, fmt.Errorf("there is no row %d", r)
			}
			need := length(member, r)
			if bytes+need > len(into) {
				if n == 0 {
					return 0, need, nil
				}
				break
			}
			fill(into[bytes:bytes+need], member, r)
			n, bytes = n+1, bytes+need
		}
		return n, bytes, nil
	}
}

// all fetches rows, and checks every byte.
func all(ctx context.Context, m *Member, from int, rows []uint32) error {
	for len(rows) > 0 {
		n, err := m.Fetch(ctx, from, rows, func(p []byte) error {
			for i := 0; len(p) > 0; i++ {
				need := length(from, rows[i])
				want := make([]byte, need)
				fill(want, from, rows[i])
				if len(p) < need || string(p[:need]) != string(want) {
					return fmt.Errorf("row %d of member %d is another", rows[i], from)
				}
				p = p[need:]
			}
			return nil
		})
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// TestMembers: every member gets every other's rows, whatever carries them, also from
// those that are late to offer any and rows longer than the landing memory.
func TestMembers(t *testing.T) {
	for _, transport := range []string{"tcp", "shm"} {
		t.Run(transport, func(t *testing.T) {
			r := seedtest.Rand(t)
			w := &town{addrs: make([]string, 3)}
			members := make([]*process, 3)
			for i := range members {
				members[i] = w.process(t, transport, i, time.Minute)
			}
			errs := make([]error, 9)
			var wg sync.WaitGroup
			for i, m := range members {
				for k := range members {
					if k == i {
						continue
					}
					rows := make([]uint32, 1+r.IntN(2000))
					for j := range rows {
						rows[j] = uint32(r.IntN(5000))
						if rows[j]%97 == 96 && j%16 != 0 {
							rows[j]-- // few long ones
						}
					}
					wg.Go(func() { errs[3*i+k] = all(t.Context(), m.Member, k, rows) })
				}
			}
			for i, m := range members {
				m.Offer(packer(i))
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if members[0].Moved() == 0 {
				t.Error("nothing was counted")
			}
			if err := all(t.Context(), members[0].Member, 1, []uint32{1 << 20}); err == nil || !strings.Contains(err.Error(), "there is no row") {
				t.Errorf("a row that nobody has: %v", err)
			}
		})
	}
}

// TestReplaced: a member that dies is looked for until another process is found in its
// place, and then nothing is missing; where none comes, the error names it.
func TestReplaced(t *testing.T) {
	w := &town{addrs: make([]string, 2)}
	a, b := w.process(t, "tcp", 0, time.Minute), w.process(t, "tcp", 1, time.Minute)
	b.Offer(packer(1))
	rows := []uint32{5, 6, 7, 1000}
	if err := all(t.Context(), a.Member, 1, rows); err != nil {
		t.Fatal(err)
	}
	b.end()
	got := make(chan error, 1)
	go func() { got <- all(t.Context(), a.Member, 1, rows) }()
	c := w.process(t, "tcp", 1, time.Minute)
	c.Offer(packer(1))
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	c.end()
	a.opt.Timeout = 100 * time.Millisecond
	if err := all(t.Context(), a.Member, 1, rows); err == nil || !strings.Contains(err.Error(), "worker 1") {
		t.Errorf("of a worker that is gone: %v", err)
	}
}

// TestRefused: who is no member, or asks for what makes no sense, hears why.
func TestRefused(t *testing.T) {
	w := &town{addrs: make([]string, 2)}
	a, b := w.process(t, "tcp", 0, time.Minute), w.process(t, "tcp", 1, time.Minute)
	b.Offer(packer(1))
	for _, word := range []string{`{"version":1,"From":0,"To":0}`, `{"version":1,"From":7,"To":1}`, `{"version":1,"From":1,"To":1}`, `{"version":9,"From":0,"To":1}`, `x`} {
		if _, err := b.admit([]byte(word)); err == nil {
			t.Errorf("hello %s is taken", word)
		}
	}
	if err := all(t.Context(), a.Member, 1, []uint32{1}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []request{{}, {Rows: []byte{1, 2, 3}}, {Rows: make([]byte, 4*maxRows+4)}} {
		var got reply
		if err := a.peers[1].conn.Call(t.Context(), methodRows, r, &got); err == nil {
			t.Errorf("request of %d bytes is answered by %+v", len(r.Rows), got)
		}
	}
	if _, err := a.Fetch(t.Context(), 0, []uint32{1}, nil); err == nil {
		t.Error("a member fetches from itself")
	}
}
