package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"psrt/csrc/seedtest"
)

// operation is one of the InfiniBand specification's, by the headers that
// follow the BTH: the second opinion to the table in bth.h.
type operation struct {
	code    byte
	headers string
	data    bool
	ends    bool
	answer  bool
}

const (
	immediate = "immediate, 4 bytes"
	reth      = "address, key and length, 16 bytes"
	aeth      = "acknowledgement, 4 bytes"
	atomic    = "address, key and two operands, 28 bytes"
	result    = "atomic's result, 8 bytes"
	ieth      = "key to invalidate, 4 bytes"
)

var headerBytes = map[string]int{"": 0, immediate: 4, reth: 16, aeth: 4, atomic: 28, result: 8, ieth: 4, reth + immediate: 20, aeth + result: 12}

var operations = []operation{
	{code: 0, data: true}, {code: 1, data: true}, {code: 2, data: true, ends: true},
	{code: 3, headers: immediate, data: true, ends: true}, {code: 4, data: true, ends: true}, {code: 5, headers: immediate, data: true, ends: true},
	{code: 6, headers: reth, data: true}, {code: 7, data: true}, {code: 8, data: true, ends: true},
	{code: 9, headers: immediate, data: true, ends: true}, {code: 10, headers: reth, data: true, ends: true}, {code: 11, headers: reth + immediate, data: true, ends: true},
	{code: 12, headers: reth}, {code: 13, headers: aeth, data: true, answer: true}, {code: 14, data: true, answer: true},
	{code: 15, headers: aeth, data: true, ends: true, answer: true}, {code: 16, headers: aeth, data: true, ends: true, answer: true},
	{code: 17, headers: aeth}, {code: 18, headers: aeth + result},
	{code: 19, headers: atomic, data: true, ends: true}, {code: 20, headers: atomic, data: true, ends: true},
	{code: 22, headers: ieth, data: true, ends: true}, {code: 23, headers: ieth, data: true, ends: true},
	{code: 21}, {code: 24}, {code: 31},
}

// frame is what a test sends.
type frame struct {
	source          netip.Addr
	vlan            bool
	options         int // words of IPv4's
	protocol        byte
	port            uint16
	fragment        uint16
	transport       byte
	operation       operation
	pad, payload    int
	queuePair, psn  uint32
	udpLess, frayed int // bytes that the UDP header hides, and that the frame lacks
}

func (f frame) bytes() []byte {
	be := binary.BigEndian
	heads := headerBytes[f.operation.headers]
	if f.transport == 0x60 {
		heads += 8
	}
	infiniband := make([]byte, 12+heads+f.payload+f.pad+4)
	infiniband[0] = f.transport | f.operation.code
	infiniband[1] = 0x40 | byte(f.pad)<<4
	be.PutUint32(infiniband[4:], 0xee<<24|f.queuePair)
	be.PutUint32(infiniband[8:], 0x80<<24|f.psn)
	udp := make([]byte, 8, 8+len(infiniband))
	be.PutUint16(udp[2:], f.port)
	be.PutUint16(udp[4:], uint16(8+len(infiniband)-f.udpLess))
	udp = append(udp, infiniband...)

	var ip []byte
	kind := uint16(0x0800)
	if f.source.Is4() {
		ip = make([]byte, 20+4*f.options)
		ip[0], ip[9] = 0x45+byte(f.options), f.protocol
		be.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
		be.PutUint16(ip[6:], f.fragment)
		copy(ip[12:], f.source.AsSlice())
	} else {
		kind, ip = 0x86dd, make([]byte, 40)
		ip[0], ip[6] = 0x60, f.protocol
		copy(ip[8:], f.source.AsSlice())
	}
	b := make([]byte, 12)
	if f.vlan {
		b = append(b, 0x81, 0, 0, 7)
	}
	b = append(append(be.AppendUint16(b, kind), ip...), udp...)
	return b[:len(b)-f.frayed]
}

// plainCount is the naive meter: it remembers every number.
type plainCount struct {
	flows map[Source]*Count
	seen  map[string]bool
}

func (p *plainCount) take(f frame) {
	if f.port != 4791 || f.protocol != 17 || f.fragment&0x3fff != 0 || !f.operation.data ||
		f.transport == 0x20 && f.operation.code > 11 || f.transport == 0x60 && f.operation.code != 4 && f.operation.code != 5 || f.transport > 0x60 || f.transport == 0x40 {
		return
	}
	s := Source{Peer: netip.AddrPortFrom(f.source, 0), Interface: "lo", QueuePair: f.queuePair}
	c := p.flows[s]
	if c == nil {
		c = &Count{}
		p.flows[s] = c
	}
	ended := uint64(0)
	if f.operation.ends {
		ended = 1
	}
	number := fmt.Sprint(s, f.operation.answer, f.psn)
	if f.transport == 0 {
		if p.seen[number] {
			c.Repeated += ended
			return
		}
		p.seen[number] = true
	}
	c.Bytes += uint64(f.payload)
	c.Messages += ended
}

// randomFrames are those of a few flows, with numbers that run over the end of
// their 24 bits, are lost, repeated and out of order.
func randomFrames(r *rand.Rand, n int) []frame {
	sources := []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::17"), netip.MustParseAddr("10.1.2.4")}
	next := [6]uint32{0xfffff0, 5, 0xfff000, 0, 77, 0x800000}
	pick := func(share float64) bool { return r.Float64() < share }
	frames := make([]frame, n)
	for i := range frames {
		flow := r.IntN(len(next))
		f := frame{source: sources[flow%3], protocol: 17, port: 4791, queuePair: 0xabcd00 + uint32(flow), pad: r.IntN(4), payload: r.IntN(1000)}
		f.operation = operations[r.IntN(len(operations))]
		f.transport = []byte{0, 0, 0, 0, 0x20, 0x60, 0x40, 0x80, 0xa0}[r.IntN(9)]
		f.psn = next[flow]
		switch {
		case pick(0.1):
			f.psn -= uint32(r.IntN(600)) // again
		case pick(0.1):
			next[flow] += uint32(r.IntN(700)) // lost, or not yet come
		default:
			next[flow]++
		}
		f.psn &= 0xffffff
		f.vlan = pick(0.1)
		if f.source.Is4() && pick(0.1) {
			f.options = r.IntN(11)
		}
		if f.source.Is4() && pick(0.02) {
			f.fragment = 0x2000
		}
		if pick(0.02) {
			f.port++
		}
		if pick(0.02) {
			f.protocol = 6
		}
		frames[i] = f
	}
	return frames
}

// onLoopback meters lo, where nothing of RoCE comes but what a test has a
// program run on.
func onLoopback(t *testing.T, by form, sources int) *RoCE {
	t.Helper()
	m, err := OpenRoCE(RoCEConfig{Interfaces: []string{"lo"}, Sources: sources, attach: []form{by}})
	if by == formTCX && tooOld(t, err) {
		return nil
	}
	skipMissing(t, err)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// tooOld says whether an error is that the kernel has no tcx.
func tooOld(t *testing.T, err error) bool {
	t.Helper()
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Log(err)
		return true
	}
	return false
}

func (r *RoCE) runOn(t *testing.T, f frame) {
	t.Helper()
	verdict, _, err := r.programs[0].Test(f.bytes())
	if want := [...]uint32{formTCX: 1<<32 - 1, formSocket: 0}[r.form]; err != nil || verdict != want {
		t.Fatalf("%v: verdict %d, %v; want %d: the packet goes on", r.form, verdict, err, want)
	}
}

// TestBTH holds the programs against the naive meter, frame by frame.
func TestBTH(t *testing.T) {
	r := seedtest.Rand(t)
	frames := randomFrames(r, 6000)
	for _, by := range []form{formTCX, formSocket} {
		t.Run(by.String(), func(t *testing.T) {
			m := onLoopback(t, by, 0)
			if m == nil {
				return
			}
			naive := plainCount{flows: map[Source]*Count{}, seen: map[string]bool{}}
			for _, f := range frames {
				naive.take(f)
				m.runOn(t, f)
			}
			var got Reading
			if err := m.Read(&got); err != nil || got.Lost != 0 || len(got.Samples) != len(naive.flows) {
				t.Fatalf("%d sources, want %d; %d lost, %v", len(got.Samples), len(naive.flows), got.Lost, err)
			}
			for _, s := range got.Samples {
				if want := naive.flows[s.Source]; want == nil || *want != s.Count {
					t.Errorf("%v: metered %+v, want %+v", s.Source, s.Count, want)
				}
			}
			if n, err := m.Broken(); n != 0 || err != nil {
				t.Errorf("%d frames are broken, %v", n, err)
			}
		})
	}
}

// TestBTHBounds: what is too short, and a queue pair whose number is used anew.
func TestBTHBounds(t *testing.T) {
	whole := frame{source: netip.MustParseAddr("10.0.0.1"), protocol: 17, port: 4791, operation: operations[4], payload: 10, queuePair: 9, psn: 4000}
	again, anew, far, zero := whole, whole, whole, whole
	again.psn -= 1900
	anew.psn -= 1990
	far.psn += 0x700000
	zero.payload = 0
	less, fray, frayMore := whole, whole, whole
	less.udpLess = 3
	fray.frayed = 10 + 4 + 1 // payload, ICRC and a byte of the BTH
	frayMore.frayed = 10 + 4 + 12 + 1
	short := whole
	short.udpLess = 11 // payload and a byte
	for name, c := range map[string]struct {
		frames []frame
		want   Count
		broken uint64
	}{
		"whole":             {frames: []frame{whole}, want: Count{Bytes: 10, Messages: 1}},
		"empty":             {frames: []frame{zero}, want: Count{Messages: 1}},
		"repeated":          {frames: []frame{whole, whole}, want: Count{Bytes: 10, Messages: 1, Repeated: 1}},
		"late":              {frames: []frame{whole, again, again}, want: Count{Bytes: 20, Messages: 2, Repeated: 1}},
		"begun anew":        {frames: []frame{whole, anew, whole}, want: Count{Bytes: 30, Messages: 3}},
		"far ahead":         {frames: []frame{whole, far, far}, want: Count{Bytes: 20, Messages: 2, Repeated: 1}},
		"hidden payload":    {frames: []frame{less}, want: Count{Bytes: 7, Messages: 1}},
		"no room for ICRC":  {frames: []frame{short}, broken: 1},
		"cut in the BTH":    {frames: []frame{fray}, broken: 1},
		"cut in UDP's head": {frames: []frame{frayMore}},
	} {
		for _, by := range []form{formTCX, formSocket} {
			t.Run(fmt.Sprint(name, " ", by), func(t *testing.T) {
				m := onLoopback(t, by, 0)
				if m == nil {
					return
				}
				for _, f := range c.frames {
					m.runOn(t, f)
				}
				var got Reading
				if err := m.Read(&got); err != nil {
					t.Fatal(err)
				}
				sum := Count{}
				for _, s := range got.Samples {
					sum.add(s.Count)
				}
				if broken, err := m.Broken(); sum != c.want || broken != c.broken || err != nil {
					t.Errorf("metered %+v, %d broken, %v; want %+v, %d", sum, broken, err, c.want, c.broken)
				}
			})
		}
	}
}

// BenchmarkBTH is what a packet costs, by the kernel's own count.
func BenchmarkBTH(b *testing.B) {
	for _, by := range []form{formTCX, formSocket} {
		b.Run(by.String(), func(b *testing.B) {
			m, err := OpenRoCE(RoCEConfig{Interfaces: []string{"lo"}, attach: []form{by}})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			f := frame{source: netip.MustParseAddr("10.0.0.1"), protocol: 17, port: 4791, operation: operations[7], payload: 1024}
			_, each, err := m.programs[0].Benchmark(f.bytes(), b.N, b.ResetTimer)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(each.Nanoseconds()), "ns/op")
		})
	}
}
