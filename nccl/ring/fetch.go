package ring

import "psrt/csrc/fold"

// fetch takes the blocks of all others, where they are not combined: those that
// came within messages, those that are mapped, and the rest by reads that go on
// meanwhile.
func (x *op) fetch() error {
	g := x.g
	if err := x.fetchFar(); err != nil {
		return err
	}
	me := g.place.Rank
	own, to := x.toRank(me), x.fromRank(me)
	copyJob := fold.Job{Type: fold.U8, Past: len(x.c.Recv) >= g.opt.PastBytes}
	take := func(to, from []byte) error {
		for at := 0; at < len(to); at += pieceBytes {
			end := min(at+pieceBytes, len(to))
			copyJob.Run([][]byte{to[at:end]}, [][]byte{from[at:end]})
			if err := g.Err(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := take(to, own); err != nil {
		return err
	}
	for _, p := range g.around {
		to := x.fromRank(p.rank)
		from := p.payload
		switch {
		case p.head.within:
		case !p.mapped || len(to) == 0:
			continue
		default:
			var err error
			if from, err = p.ep.Map(p.head.send); err != nil {
				p.err = err
				return g.lost(p)
			}
		}
		if err := take(to, from); err != nil {
			return err
		}
	}
	return g.wait(func(p *peer) bool { return p.data > 0 })
}

// fetchFar posts the reads, a chunk of each peer in turn.
func (x *op) fetchFar() error {
	g := x.g
	for at, more := 0, true; more; at += g.opt.ChunkBytes {
		more = false
		for _, p := range g.around {
			to := x.fromRank(p.rank)
			if p.head.within || p.mapped || at >= len(to) {
				continue
			}
			for from := at; from < min(at+g.opt.ChunkBytes, len(to)); from += p.chunk {
				end := min(from+p.chunk, at+g.opt.ChunkBytes, len(to))
				if err := x.read(p, p.head.send.Slice(uint64(from), uint64(end-from)), to[from:end]); err != nil {
					return err
				}
			}
			more = true
		}
	}
	return nil
}
