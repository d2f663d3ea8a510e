package quic

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/rdmatest"
	"psrt/rdma/tcp"
)

// The whole suite over a link that loses one datagram in twenty, repeats some
// and lets some overtake others.
func TestLossy(t *testing.T) {
	w := &world{t: t, rng: seedtest.Rand(t), relays: map[string]*relay{}}
	defer w.close()
	rdmatest.Run(t, rdmatest.Factory{
		Allocates: true,
		Detour:    true,
		New: func(t testing.TB) (a, b rdma.Domain) {
			var ds [2]rdma.Domain
			for i := range ds {
				c, err := New()
				if err != nil {
					t.Fatal(err)
				}
				ds[i] = open(t, tcp.Config{Carrier: &detour{c, w.to}, Listen: "127.0.0.1:0", Streams: 2})
			}
			return ds[0], ds[1]
		},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == 0 || w.moved < 10*w.lost {
		t.Errorf("%d datagrams were lost and %d were not", w.lost, w.moved)
	}
	t.Logf("%d datagrams were lost, %d were not", w.lost, w.moved)
}

// world is the relays of a test, one before each listener.
type world struct {
	t  *testing.T
	wg sync.WaitGroup

	mu          sync.Mutex
	rng         *rand.Rand
	relays      map[string]*relay
	lost, moved int
}

func (w *world) to(addr string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.relays[addr]
	if r == nil {
		var err error
		if r, err = newRelay(w, addr); err != nil {
			return "", err
		}
		w.relays[addr] = r
	}
	return r.front.LocalAddr().String(), nil
}

// fate of a datagram, in percent.
func (w *world) fate() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.rng.IntN(100)
	if f < 5 {
		w.lost++
	} else {
		w.moved++
	}
	return f
}

func (w *world) close() {
	w.mu.Lock()
	for _, r := range w.relays {
		_, _ = r.front.Close(), r.back.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// relay passes datagrams on between one peer and a listener.
type relay struct {
	front, back *net.UDPConn
	mu          sync.Mutex
	peer        *net.UDPAddr
}

func newRelay(w *world, to string) (*relay, error) {
	at, err := net.ResolveUDPAddr("udp", to)
	if err != nil {
		return nil, err
	}
	r := &relay{}
	if r.front, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, err
	}
	if r.back, err = net.DialUDP("udp", nil, at); err != nil {
		_ = r.front.Close()
		return nil, err
	}
	w.wg.Add(2)
	go w.pass(func(b []byte) (int, error) {
		n, from, err := r.front.ReadFromUDP(b)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err == nil {
			r.peer = from
		}
		return n, err
	}, func(b []byte) { _, _ = r.back.Write(b) })
	go w.pass(r.back.Read, func(b []byte) {
		r.mu.Lock()
		to := r.peer
		r.mu.Unlock()
		if to != nil {
			_, _ = r.front.WriteToUDP(b, to)
		}
	})
	return r, nil
}

func (w *world) pass(read func([]byte) (int, error), write func([]byte)) {
	defer w.wg.Done()
	var held []byte
	for b := make([]byte, 64<<10); ; {
		n, err := read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // nobody is there (any more): each datagram to him is told once
		}
		switch f := w.fate(); {
		case f < 5: // lost
		case f < 7 && held == nil:
			held = append([]byte(nil), b[:n]...)
		case f < 9:
			write(b[:n])
			write(b[:n])
		default:
			write(b[:n])
			if held != nil {
				write(held)
				held = nil
			}
		}
	}
}
