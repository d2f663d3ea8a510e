package gpu

import (
	"encoding/binary"
	"fmt"

	"psrt/nccl/coll"
)

// word is what a rank says of the call that it makes.
//
//	0 kind  1 type  2 operation  3 absent  4 any order  5 NCCL refuses to know memory here
//	8 bytes of a block   16 root   24 number of the call
type word struct {
	kind             coll.Kind
	typ              coll.Type
	op               coll.Op
	absent, anyOrder bool
	refused          bool
	block, root, at  uint64
}

const wordBytes = 32

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (w *word) encode(b []byte) {
	b = b[:wordBytes]
	clear(b)
	b[0], b[1], b[2], b[3], b[4], b[5] = byte(w.kind), byte(w.typ), byte(w.op), flag(w.absent), flag(w.anyOrder), flag(w.refused)
	binary.LittleEndian.PutUint64(b[8:], w.block)
	binary.LittleEndian.PutUint64(b[16:], w.root)
	binary.LittleEndian.PutUint64(b[24:], w.at)
}

func (w *word) decode(b []byte) {
	b = b[:wordBytes]
	*w = word{kind: coll.Kind(b[0]), typ: coll.Type(b[1]), op: coll.Op(b[2]), absent: b[3] != 0, anyOrder: b[4] != 0, refused: b[5] != 0,
		block: binary.LittleEndian.Uint64(b[8:]), root: binary.LittleEndian.Uint64(b[16:]), at: binary.LittleEndian.Uint64(b[24:])}
}

// differs says how another rank's call is not the same as rank 0's, "" where it is.
func (w *word) differs(first *word) string {
	switch {
	case w.at != first.at:
		return fmt.Sprintf("it makes call %d, rank 0 call %d", w.at, first.at)
	case w.kind != first.kind:
		return fmt.Sprintf("it makes %s, rank 0 %s", w.kind, first.kind)
	case w.kind == coll.Barrier:
		return ""
	case w.typ != first.typ:
		return fmt.Sprintf("its elements are of type %d, rank 0's of type %d", w.typ, first.typ)
	case w.kind.Reduces() && (w.op != first.op || w.anyOrder != first.anyOrder):
		return fmt.Sprintf("its operation is %d (any order: %v), rank 0's %d (%v)", w.op, w.anyOrder, first.op, first.anyOrder)
	case w.kind != coll.AllToAllV && w.block != first.block:
		return fmt.Sprintf("its blocks are of %d bytes, rank 0's of %d", w.block, first.block)
	case w.kind == coll.Broadcast && w.root != first.root:
		return fmt.Sprintf("its root is rank %d, rank 0's rank %d", w.root, first.root)
	}
	return ""
}
