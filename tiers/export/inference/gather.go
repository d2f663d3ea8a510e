package inference

import (
	"encoding/binary"
	"math/bits"
	"syscall"

	"psrt/rdma/mem"
	"psrt/tiers/export/quant"
)

// group is how many keys are looked up side by side: the processor fetches what
// begin reads of one key while it goes on to the next.
const group = 32

// probe is one key's look-up under way.
type probe struct {
	hash  uint64
	n     uint64 // block
	block []byte
	rows  int
	guess int    // where in the block the row should be, hashes being spread evenly
	near  uint64 // the hash there
}

// Gather writes the weights of keys to dst, len(keys) x Dim: zeros where there
// is no row. found counts the rows there were.
func (t *Table) Gather(keys []uint64, dst []float32) (found int, err error) {
	if t.data == nil {
		return 0, ErrClosed
	}
	if t.homes == 0 {
		clear(dst[:len(keys)*t.Layout.Dim])
		return 0, nil
	}
	defer t.guard(&err)()
	t.announce(keys)
	var probes [group]probe
	for len(keys) > 0 {
		some := probes[:min(group, len(keys))]
		for i := range some {
			if err := t.begin(&some[i], Hash(keys[i])); err != nil {
				return found, err
			}
		}
		for i := range some {
			row, err := t.finish(&some[i])
			if err != nil {
				return found, err
			}
			if t.decode(dst[:t.Layout.Dim], row) {
				found++
			}
			dst = dst[t.Layout.Dim:]
		}
		keys = keys[len(some):]
	}
	return found, nil
}

func (t *Table) decode(out []float32, row []byte) bool {
	switch {
	case row == nil:
		clear(out)
	case t.Layout.Encoding == quant.F32:
		copy(out, mem.Float32s(row)) // rows are aligned to 4
	default:
		t.Layout.Decode(out, row)
	}
	return row != nil
}

// begin reads of a key's home block what can be read without knowing more.
func (t *Table) begin(p *probe, hash uint64) (err error) {
	n, within := bits.Mul64(hash, t.homes)
	if p.block, err = t.block(n); err != nil {
		return err
	}
	*p = probe{hash: hash, n: n, block: p.block, rows: int(binary.LittleEndian.Uint32(p.block[4:]))}
	guess, _ := bits.Mul64(within, uint64(t.capacity)*7/8)
	p.guess = int(guess)
	p.near = hashAt(p.block, p.guess)
	return nil
}

func hashAt(block []byte, i int) uint64 { return binary.LittleEndian.Uint64(block[blockHead+8*i:]) }

// finish is the encoded row, nil if there is none.
func (t *Table) finish(p *probe) ([]byte, error) {
	for {
		at := p.search()
		if at < p.rows {
			if hashAt(p.block, at) != p.hash {
				return nil, nil
			}
			return t.row(p.block, at), nil
		}
		if binary.LittleEndian.Uint32(p.block[8:])&flagOn == 0 || p.n+1 >= t.blocks {
			return nil, nil
		}
		p.n++
		b, err := t.block(p.n)
		if err != nil {
			return nil, err
		}
		// What did not fit into its home comes first.
		*p = probe{hash: p.hash, n: p.n, block: b, rows: int(binary.LittleEndian.Uint32(b[4:])), near: hashAt(b, 0)}
	}
}

// search is the first place whose hash is not below the key's: rows if there is
// none. It is a few steps from the guess.
func (p *probe) search() int {
	at := p.guess
	if at >= p.rows {
		at = p.rows
	} else if p.near < p.hash {
		at++
	}
	for at < p.rows && hashAt(p.block, at) < p.hash {
		at++
	}
	for at > 0 && hashAt(p.block, at-1) >= p.hash {
		at--
	}
	return at
}

// find is the encoded row of a hash, nil if there is none.
func (t *Table) find(hash uint64) ([]byte, error) {
	if t.homes == 0 {
		return nil, nil
	}
	var p probe
	if err := t.begin(&p, hash); err != nil {
		return nil, err
	}
	return t.finish(&p)
}

// announce has the kernel begin to read the home blocks that were never used,
// all at once. One that was evicted since is read when it is needed.
func (t *Table) announce(keys []uint64) {
	if len(keys) < 2 || t.cold.Load() == 0 {
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
