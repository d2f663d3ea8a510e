package audit

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Version is the format's. It changes whenever a record below does.
const Version = 2

// Kind is what a record says.
type Kind uint8

// The kinds. Head is first in every file, End last in one that was closed.
const (
	Head   Kind = iota + 1
	Ask         // worker: a pull is about to be posted
	Seen        // worker: a lane has answered it
	Send        // worker: a push to a lane is about to be posted
	Done        // worker: the lane has answered
	Take        // lane: pushes are in the table, as its next version
	Load        // lane: rows, or a dense block, are as a checkpoint has them
	Reset       // lane: a table has been emptied, to be loaded
	End         // nothing follows, and why
	Happen      // lane: events happened to all rows of a table with a lifecycle
	Kept        // worker: rows of a pull whose values it had kept
	kindEnd
)

func (k Kind) String() string {
	names := [...]string{"?", "head", "ask", "seen", "send", "done", "take", "load", "reset", "end", "happen", "kept"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ofPull says whether a record's number is that of a pull, and not of a push.
func (k Kind) ofPull() bool { return k == Ask || k == Seen || k == Kept }

// Flags of a record.
type Flags uint8

const (
	Creates  Flags = 1 << iota // Ask, Seen: rows that are not there are made
	AnyClock                   // Ask, Seen: whatever the clocks say
	Tick                       // Send: the worker's last of its step to the lane
	Absent                     // Send: a dense push without examples behind it
	LeftOut                    // Take: acknowledged, and in the table from before
)

// DenseTable is the number of the dense vector; its keys are blocks.
const DenseTable = ^uint32(0)

// Reasons of an End.
const (
	Closed uint8 = iota // the process was done
	Full                // the file has reached its limit
	NoRoom              // the disk could not take more
)

// Push names one push to a lane.
type Push struct {
	Worker uint32
	Client uint64
	Seq    uint64
	Clock  uint64
}

// Record is one of any kind: a kind uses the fields that its line in docs/audit.md
// names.
type Record struct {
	Kind    Kind
	Flags   Flags
	Code    uint8 // Done: psmsg's; End: the reason
	Lane    uint32
	Table   uint32
	Width   uint32 // floats for each key
	Refused uint32
	Call    uint64
	Seq     uint64 // Happen: the events of the table so far, these among them
	Clock   uint64
	Version uint64
	Since   uint64 // Kept: the clock of the pull that brought the values
	At      int64  // nanoseconds since 1970, by the clock of the process's host
	Keys    []uint64
	Hashes  []uint64  // Seen, Kept: of the values, by key
	Floats  []float32 // Send, Load: Width for each key
	Pushes  []Push    // Take
	Text    []byte    // Head; Happen: the events, as models have them
}

// MaxRecord bounds a record's body.
const MaxRecord = 256 << 10

// fixedBytes is what is in every body, pushBytes one push in it.
const (
	fixedBytes = 64
	pushBytes  = 32
)

// encode appends r's body to b.
//
//	 0  kind u8 | flags u8 | code u8 | 0 u8 | lane u32
//	 8  table u32 | width u32
//	16  n u32 | refused u32
//	24  call u64 (Ask, Seen, Kept) or seq u64
//	32  clock u64
//	40  version u64
//	48  at i64
//	56  since u64
//	64  Seen, Kept: n keys u64, n hashes u64. Send, Load: n keys u64, n x width f32.
//	    Take: n x (worker u32, 0 u32, client u64, seq u64, clock u64).
//	    Head: n bytes of JSON. Happen: n bytes of text
func (r *Record) encode(b []byte) []byte {
	le := binary.LittleEndian
	n := len(r.Keys)
	switch r.Kind {
	case Take:
		n = len(r.Pushes)
	case Head, Happen:
		n = len(r.Text)
	}
	number := r.Seq
	if r.Kind.ofPull() {
		number = r.Call
	}
	b = append(b, byte(r.Kind), byte(r.Flags), r.Code, 0)
	b = le.AppendUint32(b, r.Lane)
	b = le.AppendUint32(b, r.Table)
	b = le.AppendUint32(b, r.Width)
	b = le.AppendUint32(b, uint32(n))
	b = le.AppendUint32(b, r.Refused)
	b = le.AppendUint64(b, number)
	b = le.AppendUint64(b, r.Clock)
	b = le.AppendUint64(b, r.Version)
	b = le.AppendUint64(b, uint64(r.At))
	b = le.AppendUint64(b, r.Since)
	for _, k := range r.Keys {
		b = le.AppendUint64(b, k)
	}
	for _, h := range r.Hashes {
		b = le.AppendUint64(b, h)
	}
	for _, x := range r.Floats {
		b = le.AppendUint32(b, math.Float32bits(x))
	}
	for _, p := range r.Pushes {
		b = le.AppendUint32(b, p.Worker)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint64(b, p.Client)
		b = le.AppendUint64(b, p.Seq)
		b = le.AppendUint64(b, p.Clock)
	}
	return append(b, r.Text...)
}

// Decode reads a body, reusing r's lists.
func (r *Record) Decode(b []byte) error {
	if len(b) < fixedBytes || len(b) > MaxRecord {
		return fmt.Errorf("audit: a record of %d bytes, want %d to %d", len(b), fixedBytes, MaxRecord)
	}
	le := binary.LittleEndian
	*r = Record{Kind: Kind(b[0]), Flags: Flags(b[1]), Code: b[2], Lane: le.Uint32(b[4:]), Table: le.Uint32(b[8:]), Width: le.Uint32(b[12:]),
		Refused: le.Uint32(b[20:]), Clock: le.Uint64(b[32:]), Version: le.Uint64(b[40:]), At: int64(le.Uint64(b[48:])), Since: le.Uint64(b[56:]),
		Keys: r.Keys[:0], Hashes: r.Hashes[:0], Floats: r.Floats[:0], Pushes: r.Pushes[:0], Text: r.Text[:0]}
	n := uint64(le.Uint32(b[16:]))
	number := le.Uint64(b[24:])
	b = b[fixedBytes:]
	want := uint64(0)
	switch r.Kind {
	case Head, Happen:
		want = n
	case Seen, Kept:
		want = n * 16
	case Send, Load:
		if r.Width > MaxRecord/4 {
			return fmt.Errorf("audit: a %s record with rows of %d floats", r.Kind, r.Width)
		}
		want = n * (8 + 4*uint64(r.Width))
	case Take:
		want = n * pushBytes
	case Ask, Done, Reset, End:
		want = n
		if n != 0 {
			return fmt.Errorf("audit: a %s record with %d entries, which has none", r.Kind, n)
		}
	default:
		return fmt.Errorf("audit: unknown kind of record %d", uint8(r.Kind))
	}
	if want != uint64(len(b)) {
		return fmt.Errorf("audit: a %s record of %d entries has %d bytes of them, want %d", r.Kind, n, len(b), want)
	}
	if r.Kind.ofPull() {
		r.Call = number
	} else {
		r.Seq = number
	}
	switch r.Kind {
	case Head, Happen:
		r.Text = append(r.Text, b...)
	case Seen, Kept, Send, Load:
		for range n {
			r.Keys = append(r.Keys, le.Uint64(b))
			b = b[8:]
		}
		for ; (r.Kind == Seen || r.Kind == Kept) && len(b) > 0; b = b[8:] {
			r.Hashes = append(r.Hashes, le.Uint64(b))
		}
		for ; len(b) > 0; b = b[4:] {
			r.Floats = append(r.Floats, math.Float32frombits(le.Uint32(b)))
		}
	case Take:
		for ; len(b) > 0; b = b[pushBytes:] {
			r.Pushes = append(r.Pushes, Push{Worker: le.Uint32(b), Client: le.Uint64(b[8:]), Seq: le.Uint64(b[16:]), Clock: le.Uint64(b[24:])})
		}
	}
	return nil
}
