package shm

import (
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"

	"psrt/rdma"
)

func seed(t testing.TB) int64 {
	n := time.Now().UnixNano()
	if s := os.Getenv("PSRT_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatalf("PSRT_SEED=%q is not a number", s)
		}
	}
	t.Logf("PSRT_SEED=%d", n)
	return n
}

// TestGarbageInRings plays a peer that writes anything anywhere: whatever it
// does, this side ends its requests and neither crashes nor hangs.
func TestGarbageInRings(t *testing.T) {
	rng := rand.New(rand.NewSource(seed(t)))
	for round := range 12 {
		a, b := newPair(t, 20*time.Millisecond)
		b.recv(rdma.Recv{ID: 1, Buf: b.b[:64]}, rdma.Recv{ID: 2, Buf: b.b[64:128]})
		a.recv(rdma.Recv{ID: 3}, rdma.Recv{ID: 4, Buf: a.b[:32]})
		// b's ring is what a reads as sender; a's ring is what b writes as sender.
		for _, e := range []*Endpoint{b.ep.(*Endpoint), a.ep.(*Endpoint)} {
			bytes := e.ring.seg.bytes
			for range 1 + rng.Intn(200) {
				off := rng.Intn(len(bytes)/8) * 8
				if rng.Intn(2) == 0 {
					off = []int{0, 64, 128, 192, ringHeader, ringHeader + 8, ringHeader + 16, ringHeader + 32*testDepth, ringHeader + 32*testDepth + 8}[rng.Intn(9)]
				}
				word := rng.Uint64()
				if rng.Intn(2) == 0 {
					word = uint64(rng.Intn(6))<<24 | 1 // a word with a right tag
				}
				if off == 64 && round%4 != 0 {
					word &^= 1 // an odd word is a peer that seems to stand inside: closes wait for it
				}
				word64(bytes, off).Store(word)
			}
		}
		a.ep.Post([]rdma.WR{
			{ID: 10, Op: rdma.OpSend, Signaled: true, Local: a.b[:16]},
			{ID: 11, Op: rdma.OpWriteImm, Signaled: true},
			{ID: 12, Op: rdma.OpWrite, Signaled: true, Local: a.b[:16], Remote: b.r.Remote().Slice(0, 16)},
		})
		var cs [16]rdma.Completion
		for end := time.Now().Add(60 * time.Millisecond); time.Now().Before(end); {
			for _, c := range cs[:a.q.Poll(cs[:])] {
				if c.Bytes < 0 || c.Bytes > maxMessage || c.Endpoint != a.ep {
					t.Fatalf("round %d: %+v", round, c)
				}
			}
			a.q.Wait(time.Now().Add(5 * time.Millisecond))
		}
		start := time.Now()
		a.d.Close()
		b.d.Close()
		if took := time.Since(start); took > 30*fenceTime {
			t.Fatalf("round %d: close took %v", round, took)
		}
	}
}

func TestArrivalThatCannotBe(t *testing.T) {
	for name, word := range map[string]func(*ring) uint64{
		"unknown kind":     func(r *ring) uint64 { return 200<<24 | r.tag(0) },
		"longer than sent": func(r *ring) uint64 { r.arrivals[0].bytes = 1 << 50; return arrivedSend<<24 | r.tag(0) },
		"huge write":       func(r *ring) uint64 { r.arrivals[0].bytes = 1 << 50; return arrivedImm<<24 | r.tag(0) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newPair(t, 0)
			b.recv(rdma.Recv{ID: 1, Buf: b.b[:64]})
			peer := a.ep.(*Endpoint).link.Load().peer
			peer.arrivals[0].word.Store(word(peer))
			b.want(1, rdma.OpRecv, rdma.StatusRemoteInvalid)
		})
	}
}

func TestUnsealedFileIsRefused(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/plain")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	if s, err := mapSegment(f, 0, 4096, false); err == nil {
		s.unmap()
		t.Error("a file that can be shrunk was mapped")
	}
	_, file, err := newSegment("test", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, r := range [][2]uint64{{0, 8193}, {8192, 1}, {1 << 63, 1}, {0, 1 << 63}, {4096, ^uint64(0)}, {0, 0}} {
		if s, err := mapSegment(file, r[0], r[1], false); err == nil {
			s.unmap()
			t.Errorf("mapped %d bytes at %d of 8192", r[1], r[0])
		}
	}
}

func FuzzDecodeMessage(f *testing.F) {
	var b [messageSize]byte
	(&message{kind: kindHello, slots: 64, key: 1}).encode(&b)
	f.Add(b[:])
	f.Add(b[:10])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := decodeMessage(in)
		if err != nil {
			return
		}
		var out [messageSize]byte
		m.encode(&out)
		again, err := decodeMessage(out[:])
		if err != nil || again != m {
			t.Errorf("%+v became %+v (%v)", m, again, err)
		}
	})
}

func FuzzDecodeAddress(f *testing.F) {
	f.Add((&address{socket: "@psrt-shm-0"}).encode())
	f.Add((&address{socket: "/tmp/x"}).encode())
	f.Add([]byte(addressMagic))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := decodeAddress(in)
		if err != nil {
			return
		}
		if string(a.encode()) != string(in) {
			t.Errorf("%x decoded to another address", in)
		}
	})
}
