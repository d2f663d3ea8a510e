package inference

import (
	"encoding/binary"
	"errors"
	"runtime/debug"
	"syscall"

	"psrt/rdma/mem"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
)

// Gather writes the weights of keys to dst, len(keys) x Dim: zeros where there
// is no row. found counts the rows there were.
func (t *Table) Gather(keys []uint64, dst []float32) (found int, err error) {
	if t.data == nil {
		return 0, ErrClosed
	}
	defer t.guard(&err)()
	t.announce(keys)
	dim := t.Layout.Dim
	for i, key := range keys {
		out := dst[i*dim : (i+1)*dim : (i+1)*dim]
		row, err := t.find(Hash(key))
		if err != nil {
			return found, err
		}
		switch {
		case row == nil:
			clear(out)
			continue
		case t.Layout.Encoding == quant.F32:
			copy(out, mem.Float32s(row)) // rows are aligned to 4
		default:
			t.Layout.Decode(out, row)
		}
		found++
	}
	return found, nil
}

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

// find is the encoded row of a hash, nil if there is none.
func (t *Table) find(hash uint64) ([]byte, error) {
	if t.homes == 0 {
		return nil, nil
	}
	for n := home(hash, t.homes); n < t.blocks; n++ {
		b, err := t.block(n)
		if err != nil {
			return nil, err
		}
		rows := int(binary.LittleEndian.Uint32(b[4:])) // block has checked it
		low, high := 0, rows
		for low < high {
			mid := int(uint(low+high) / 2)
			if binary.LittleEndian.Uint64(b[blockHead+8*mid:]) < hash {
				low = mid + 1
			} else {
				high = mid
			}
		}
		if low < rows {
			if binary.LittleEndian.Uint64(b[blockHead+8*low:]) != hash {
				return nil, nil
			}
			return t.row(b, low), nil
		}
		if binary.LittleEndian.Uint32(b[8:])&flagOn == 0 {
			return nil, nil
		}
	}
	return nil, nil
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
	if rows := binary.LittleEndian.Uint32(b[4:]); rows > uint32(t.capacity) {
		return outdir.Corrupt(t.path, "block %d, at byte %d, states %d rows, at most %d fit", n, at, rows, t.capacity)
	}
	return nil
}

// announce has the kernel begin to read the home blocks that were never used,
// all at once. One that was evicted since is read when it is needed.
func (t *Table) announce(keys []uint64) {
	if len(keys) < 2 || t.cold.Load() == 0 || t.homes == 0 {
		return
	}
	if syscall.Getpagesize() > minBlock {
		return // a block is no whole number of pages
	}
	for _, key := range keys {
		if n := home(Hash(key), t.homes); !t.isGood(n) {
			// That it fails shows when the block is read.
			_ = syscall.Madvise(t.at(n), syscall.MADV_WILLNEED)
		}
	}
}
