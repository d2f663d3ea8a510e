package relay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"psrt/sched/chain"
)

// some makes a message of any kind, as a machine would.
func some(r *rand.Rand, from, to chain.Node, most int) *chain.Message {
	m := &chain.Message{Kind: chain.MessageKind(1 + r.IntN(int(chain.Moved))), Group: testGroup, From: from, To: to,
		Epoch: r.Uint64(), Seq: r.Uint64(), Committed: r.Uint64()}
	switch m.Kind {
	case chain.Data:
		m.Bytes = noise(r, r.IntN(most))
		m.Off = r.IntN(1000)
		m.Header = header(r, m.Off+len(m.Bytes)+r.IntN(1000))
	case chain.Ack:
		m.Off = r.IntN(most)
	case chain.Feed:
		m.Item = &chain.Item{Kind: chain.ItemKind(1 + r.IntN(int(chain.Last))), Seq: r.Uint64()}
		switch m.Item.Kind {
		case chain.First:
			m.Item.Bytes = noise(r, r.IntN(most))
			for range r.IntN(20) {
				m.Item.Clients = append(m.Item.Clients, chain.Client{Worker: r.Uint32(), Client: r.Uint64(), Last: r.Uint64(), Gone: r.IntN(2) == 0})
			}
		case chain.Rows, chain.Last:
			m.Item.Bytes = noise(r, r.IntN(most))
		case chain.Later:
			m.Item.Note = noise(r, r.IntN(most))
			body := noise(r, r.IntN(most))
			m.Item.Op = &chain.Op{Header: header(r, len(body)), Body: body}
		}
	}
	return m
}

func header(r *rand.Rand, size int) chain.Header {
	return chain.Header{Seq: r.Uint64(), Kind: chain.Kind(1 + r.IntN(int(chain.Void))), Merge: r.IntN(2) == 0, Worker: r.Uint32(),
		Client: r.Uint64(), Push: r.Uint64(), Size: size}
}

// noise is nil when empty, as decoded bytes are.
func noise(r *rand.Rand, n int) []byte {
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// clone is a copy of a lent message that may be kept.
func clone(m *chain.Message) *chain.Message {
	c := *m
	c.Bytes = bytes.Clone(m.Bytes)
	if m.Item != nil {
		it := *m.Item
		it.Bytes = bytes.Clone(it.Bytes)
		c.Item = &it
	}
	return &c
}

// flat is the bytes of a message on the link.
func flat(m *chain.Message) []byte {
	var p payload
	p.encode(m)
	b := make([]byte, p.total)
	p.copyAt(b, 0)
	return b
}

func TestMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(seed(t), 1))
	d := decoder{max: 1 << 20}
	for range 3000 {
		m := some(r, nodeA, nodeB, 500)
		b := flat(m)
		if len(b) != sizeOf(m) {
			t.Fatalf("%d bytes, sizeOf says %d: %+v", len(b), sizeOf(m), m)
		}
		// In any two pieces it is the same.
		var p payload
		p.encode(m)
		cut := r.IntN(len(b) + 1)
		pieces := make([]byte, len(b))
		p.copyAt(pieces[:cut], 0)
		p.copyAt(pieces[cut:], cut)
		if !bytes.Equal(pieces, b) {
			t.Fatalf("cut at %d of %d it is another message: %+v", cut, len(b), m)
		}
		for _, lent := range []bool{true, false} {
			got, err := d.decode(b, lent)
			if err != nil {
				t.Fatalf("%v: %+v", err, m)
			}
			got.Group, got.From, got.To = testGroup, nodeA, nodeB
			if !reflect.DeepEqual(got, m) {
				t.Fatalf("got %+v, sent %+v", got, m)
			}
			kept := got.Item
			if d.forget(); lent && kept != nil && kept.Kind == chain.Later {
				scribbled := bytes.Clone(b)
				clear(b)
				if !reflect.DeepEqual(kept, m.Item) {
					t.Fatalf("an item to keep refers to what was lent: %+v", kept)
				}
				copy(b, scribbled)
			}
		}
	}
}

// TestWrongMessages cuts, lengthens and alters messages: they are refused or say
// another thing, and nothing panics.
func TestWrongMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(seed(t), 2))
	d := decoder{max: 1 << 20}
	refused := 0
	for range 3000 {
		b := flat(some(r, nodeA, nodeB, 100))
		for _, wrong := range [][]byte{b[:r.IntN(len(b))], append(bytes.Clone(b), 0)} {
			if m, err := d.decode(wrong, true); !errors.Is(err, ErrProtocol) {
				t.Fatalf("%d bytes of a message of %d: %v, %+v", len(wrong), len(b), err, m)
			}
		}
		b[r.IntN(min(len(b), messageBytes+itemBytes))] ^= 1 << r.IntN(8)
		if m, err := d.decode(b, true); err != nil {
			refused++
		} else if !bytes.Equal(flat(m), b) {
			t.Fatalf("what was read is not what is there: %+v", m)
		}
	}
	if refused == 0 {
		t.Error("no alteration was found")
	}
}

func FuzzMessage(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		f.Add(flat(some(r, nodeA, nodeB, 50)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := decoder{max: 1 << 20}
		m, err := d.decode(b, true)
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatal(err)
			}
			return
		}
		if again := flat(m); !bytes.Equal(again, b) {
			t.Fatalf("%x was read and is written %x", b, again)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(make([]byte, recordBytes))
	b := make([]byte, recordBytes)
	(&record{version: Newest, flags: flagFirst, bytes: 77, number: 1, done: 5, total: 99}).encode(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= recordBytes { // past the check, most would not get
			putCheck(b)
		}
		var r record
		if err := r.decode(b, Newest); err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatal(err)
			}
			return
		}
		again := make([]byte, recordBytes)
		if r.encode(again); !bytes.Equal(again, b[:recordBytes]) {
			t.Fatalf("%x was read and is written %x", b, again)
		}
	})
}
