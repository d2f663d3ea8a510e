package inference

import (
	"encoding/binary"
	"errors"
	"runtime/debug"

	"psrt/rdma/mem"
	"psrt/tiers/export/outdir"
)

// guard turns a fault while the mapping is read into an error: the file was cut
// short, or its disk failed. The kernel can tell only by a signal.
func (t *Table) guard(err *error) (end func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		r := recover()
		if r == nil {
			return
		}
		var fault interface{ Addr() uintptr }
		if e, ok := r.(error); !ok || !errors.As(e, &fault) || !t.holds(fault.Addr()) {
			panic(r) // a bug of ours
		}
		*err = outdir.Corrupt(t.path, "byte %d cannot be read: the file was cut short while it was in use, or its disk failed", fault.Addr()-t.base())
	}
}

func (t *Table) base() uintptr { return uintptr(mem.Address(t.data)) }

func (t *Table) holds(addr uintptr) bool {
	// A last page that is half in the file is mapped whole.
	return addr >= t.base() && addr < t.base()+uintptr(len(t.data)+headerBytes)
}

func (t *Table) row(block []byte, i int) []byte {
	n := t.Layout.Bytes()
	at := t.rowsAt + i*n
	return block[at : at+n : at+n]
}

// at is a block's bytes, unchecked.
func (t *Table) at(n uint64) []byte {
	from := headerBytes + n*uint64(t.blockBytes)
	return t.data[from : from+uint64(t.blockBytes) : from+uint64(t.blockBytes)]
}

func (t *Table) isGood(n uint64) bool { return t.good[n/32].Load()>>(n%32)&1 == 1 }

// block is a block's bytes, whose checksum is compared when it is first used.
func (t *Table) block(n uint64) ([]byte, error) {
	b := t.at(n)
	if t.isGood(n) {
		return b, nil
	}
	if err := t.check(n, b); err != nil {
		return nil, err
	}
	if bit := uint32(1) << (n % 32); t.good[n/32].Or(bit)&bit == 0 {
		t.cold.Add(-1)
	}
	return b, nil
}

func (t *Table) check(n uint64, b []byte) error {
	at := headerBytes + n*uint64(t.blockBytes)
	if blockSum(n, b) != binary.LittleEndian.Uint32(b) {
		return outdir.Corrupt(t.path, "the checksum of block %d, at byte %d, is wrong", n, at)
	}
	if tag := binary.LittleEndian.Uint32(b[12:]); tag != t.tag() {
		return outdir.Corrupt(t.path, "block %d, at byte %d, is another table's (%08x, not %08x): the file is a copy that was broken off", n, at, tag, t.tag())
	}
	if rows := binary.LittleEndian.Uint32(b[4:]); rows > uint32(t.capacity) {
		return outdir.Corrupt(t.path, "block %d, at byte %d, states %d rows, at most %d fit", n, at, rows, t.capacity)
	}
	return nil
}
