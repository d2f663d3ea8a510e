package psmsg

import (
	"reflect"
	"strings"
	"testing"

	"psrt/rdma"
)

func sample() Request {
	return Request{Kind: KindPush, Flags: FlagTicket | FlagInlineGrads, Slot: 3, Seq: 9, Clock: 17, Table: 2, Rows: 5,
		Ticket: 1 << 40,
		Keys:   rdma.RemoteRange{Key: 7, Addr: 4096, Len: 40},
		Values: rdma.RemoteRange{Key: 8, Addr: 8192, Len: 5 * 17 * 4}}
}

func TestRequestRoundTrip(t *testing.T) {
	want, b := sample(), make([]byte, RequestBytes)
	want.Encode(b)
	var got Request
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestReplyRoundTrip(t *testing.T) {
	want, b := Reply{Code: CodeStaleTicket, Slot: 1, Seq: 2, Ticket: 3, Version: 4, Rows: 5}, make([]byte, ReplyBytes)
	want.Encode(b)
	var got Reply
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// Every single flipped bit of a header is refused.
func TestFlippedBits(t *testing.T) {
	r, b := sample(), make([]byte, RequestBytes)
	r.Encode(b)
	for i := range b {
		for bit := 0; bit < 8; bit++ {
			b[i] ^= 1 << bit
			var got Request
			if err := got.Decode(b); err == nil {
				t.Fatalf("byte %d bit %d: accepted", i, bit)
			}
			b[i] ^= 1 << bit
		}
	}
}

func TestRequestRefusals(t *testing.T) {
	cases := []struct {
		name string
		edit func(*Request)
		want string
	}{
		{"kind", func(r *Request) { r.Kind = kindEnd }, "unknown request kind"},
		{"flags", func(r *Request) { r.Flags = flagsEnd }, "unknown request flags"},
		{"rows", func(r *Request) { r.Rows = MaxRows + 1 }, "use smaller batches"},
	}
	for _, c := range cases {
		r, b := sample(), make([]byte, RequestBytes)
		c.edit(&r)
		r.Encode(b)
		var got Request
		if err := got.Decode(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	r, b := sample(), make([]byte, RequestBytes)
	r.Encode(b)
	f.Add(b)
	f.Add(make([]byte, ReplyBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Request
		if q.Decode(b) == nil {
			out := make([]byte, RequestBytes)
			q.Encode(out)
			if string(out[:3]) != string(b[:3]) || string(out[4:RequestBytes-8]) != string(b[4:RequestBytes-8]) {
				t.Fatalf("decoded request does not encode to its bytes")
			}
		}
		var p Reply
		_ = p.Decode(b)
	})
}
