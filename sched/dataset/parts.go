package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"psrt/sched/usage"
)

// Parts says how the readers of one source share a global shuffle out: each keeps the
// rows of its own share of the files, and gets those that an epoch's order gives it
// from who keeps them.
type Parts struct {
	Shares []Share // of all readers; together they are every leaf once
	Me     int     // this reader's place in Shares
	Rows   RowExchange
}

// RowExchange moves rows between readers. Rows are numbered as the files have them.
type RowExchange interface {
	// Offer lets the others have rows: pack puts as many of those asked for as fit,
	// from the first on, and says how many and into how many bytes; none where the
	// first needs more, with the bytes it needs. Any goroutine may call pack.
	Offer(pack func(rows []uint32, into []byte) (n, bytes int, err error))
	// Fetch asks a reader for rows and gives take what it packed of the first n, at
	// least one. There is one Fetch at a time for each reader.
	Fetch(ctx context.Context, reader int, rows []uint32, take func(packed []byte) error) (n int, err error)
}

func (p *Parts) validate(share Share) error {
	next := 0
	for i, s := range p.Shares {
		if s.Batch != share.Batch || s.Micro != share.Micro || s.First != next || s.Last < s.First {
			return fmt.Errorf("dataset: share %d of a global shuffle is %+v, want leaves from %d on of batches like %+v", i, s, next, share)
		}
		next = s.Last
	}
	if p.Me < 0 || p.Me >= len(p.Shares) || next != share.Leaves() || p.Shares[p.Me] != share || p.Rows == nil {
		return fmt.Errorf("dataset: the %d shares of a global shuffle have %d of %d leaves, and reader %d is to have %+v", len(p.Shares), next, share.Leaves(), p.Me, share)
	}
	return nil
}

// owners is the reader of each leaf.
func (p *Parts) owners() []int32 {
	all := make([]int32, p.Shares[p.Me].Leaves())
	for i, s := range p.Shares {
		for leaf := s.First; leaf < s.Last; leaf++ {
			all[leaf] = int32(i)
		}
	}
	return all
}

// locate is where a row of the files lies: the batch, the leaf, and the place in it.
func (s Share) locate(row uint32) (step, leaf, at int) {
	in := int(row) % s.Batch
	return int(row) / s.Batch, in / s.Micro, in % s.Micro
}

// pack is RowExchange's.
func (st *store) pack(share Share, rows []uint32, into []byte) (n, bytes int, err error) {
	for _, row := range rows {
		k, leaf, at := share.locate(row)
		if k >= len(st.steps) || leaf < share.First || leaf >= share.Last || at >= st.steps[k].Leaves[leaf-share.First].Len() {
			return 0, 0, fmt.Errorf("dataset: row %d is asked of a reader that does not keep it: do all workers read the same files?", row)
		}
		from := &st.steps[k].Leaves[leaf-share.First]
		need := packedBytes(from, at)
		if bytes+need > len(into) {
			if n == 0 {
				return 0, need, nil
			}
			break
		}
		packRow(into[bytes:bytes+need], from, at)
		n, bytes = n+1, bytes+need
	}
	return n, bytes, nil
}

const (
	askedRows  = 1024 // of one Fetch
	askedAhead = 2    // answers that wait to be used, of one reader
)

var errPartGone = errors.New("dataset: the rows of another reader are used up before the epoch is: please report this")

// supply is the rows of one other reader in the order in which they are needed.
type supply struct {
	busy       *usage.Clock
	full, free chan *Batch
	err        error // once full is closed
	now        *Batch
	at         int
}

// next puts the next row into dst.
func (s *supply) next(dst *Batch) error {
	for s.now == nil || s.at == s.now.Len() {
		if s.now != nil {
			s.free <- s.now // has room for all there are
		}
		if s.now = s.wait(); s.now == nil {
			return cmp.Or(s.err, errPartGone)
		}
		s.at = 0
	}
	dst.appendRow(s.now, s.at)
	s.at++
	return nil
}

// wait is for the next answer; nil: there is none.
func (s *supply) wait() *Batch {
	select {
	case b := <-s.full:
		return b
	default:
	}
	s.busy.Leave()
	defer s.busy.Enter()
	return <-s.full
}

// run fetches what wanted names until it names nothing more.
func (s *supply) run(ctx context.Context, reader int, from RowExchange, wanted func(most int, rows []uint32) []uint32) {
	defer close(s.full)
	var rows []uint32
	for {
		if rows = wanted(askedRows-len(rows), rows); len(rows) == 0 {
			return
		}
		var b *Batch
		select {
		case b = <-s.free:
		case <-ctx.Done():
			s.err = context.Cause(ctx)
			return
		}
		b.Reset()
		n, err := from.Fetch(ctx, reader, rows, func(packed []byte) error { return unpackRows(b, packed) })
		if err == nil && (n < 1 || n > len(rows) || b.Len() != n) {
			err = fmt.Errorf("reader %d gave %d rows as %d of %d", reader, b.Len(), n, len(rows))
		}
		if err != nil {
			s.err = fmt.Errorf("dataset: rows of a global shuffle: %w", err)
			return
		}
		rows = rows[:copy(rows, rows[n:])]
		select {
		case s.full <- b:
		case <-ctx.Done():
			s.err = context.Cause(ctx)
			return
		}
	}
}
