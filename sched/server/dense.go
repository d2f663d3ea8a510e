package server

import (
	"slices"

	"psrt/csrc/kernels"
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/tiers/dense"
	"psrt/tiers/table"
)

// denseTable is the table number that stands for the dense vector in digests.
const denseTable = psmsg.DenseLead

// denseState is one lane's blocks of the dense vector.
type denseState struct {
	total   int
	blocks  []densemap.Block
	vector  *dense.Vector // of the blocks, nil where there are none
	floats  int           // in blocks
	version uint64
	sync    consistency
	held    []*request
	sum     []float32
	srcs    [][]float32
	// lent are the planes' registrations, by the domains over which workers are
	// reached whose memory is not mapped.
	lent map[lending]rdma.Region
}

type lending struct {
	p *dense.Plane
	d rdma.Domain
}

func (d *denseState) init(cfg *Config, lane int) error {
	d.total, d.sync = densemap.Total(cfg.Dense.Ranges), newSync(cfg, denseTable)
	if d.total == 0 {
		return nil
	}
	blocks, err := densemap.Cut(cfg.Dense.Ranges)
	if err != nil {
		return err
	}
	var parts []dense.Part
	for _, b := range blocks {
		if cfg.Map.LaneOfBlock(b.Index, len(blocks)) != lane {
			continue
		}
		rule := dense.Rule{Optimizer: cfg.Dense.Optimizer}
		if b.Rule == "ema" {
			rule = dense.Rule{EMA: cfg.Dense.EMA}
		}
		d.blocks = append(d.blocks, b)
		d.floats += b.Len
		parts = append(parts, dense.Part{Rule: rule, Values: cfg.Dense.Init[b.Offset : b.Offset+b.Len]})
	}
	if len(parts) == 0 {
		return nil
	}
	d.lent = map[lending]rdma.Region{}
	d.vector, err = dense.New(parts, cfg.Node)
	return err
}

// close frees the values. No session is left that they are written from.
func (d *denseState) close() {
	for _, r := range d.lent {
		r.Close()
	}
	clear(d.lent)
	if d.vector != nil {
		d.vector.Close()
	}
}

// lend registers a plane with a domain, once.
func (d *denseState) lend(p *dense.Plane, dom rdma.Domain) error {
	at := lending{p, dom}
	if d.lent[at] != nil {
		return nil
	}
	r, err := dom.Register(p.Memory(), rdma.AccessLocal, "dense values")
	if err == nil {
		d.lent[at] = r
	}
	return err
}

// locateDense finds a dense request's vector. Values always names the worker's
// whole vector; this lane reads or writes its own blocks of it.
func (l *lane) locateDense(r *request) {
	if r.Kind == psmsg.KindPushDense {
		r.s.enqueuePush(r)
	}
	if r.Kind == psmsg.KindPushDense && r.Rows == 0 { // nothing of it is read
		l.ready(r)
		return
	}
	want := uint64(l.dense.total) * 4
	if r.Flags&psmsg.FlagPacked != 0 {
		want = l.dense.packedBytes(r)
	}
	if r.Values.Len != want || l.dense.total == 0 || r.Values.Addr%4 != 0 {
		l.refuse(r, psmsg.CodeBadRequest)
		return
	}
	if r.Kind == psmsg.KindPullDense {
		l.ready(r)
		return
	}
	if r.s.mapped {
		b, code := r.s.lend(r.Values)
		if code != psmsg.CodeOK {
			l.refuse(r, code)
			return
		}
		r.give(b)
		l.ready(r)
		return
	}
	b, err := r.stage.bytes(r.s.domain, l.cfg.Node, int(want))
	if err != nil {
		l.refuse(r, psmsg.CodeNoMemory)
		return
	}
	if r.give(b); r.Flags&psmsg.FlagPacked != 0 {
		r.fetch.add(b, r.Values)
		l.begin(r)
		return
	}
	l.dense.eachRun(func(_, _, off, n int) {
		r.fetch.add(b[off*4:(off+n)*4], r.Values.Slice(uint64(off)*4, uint64(n)*4))
	})
	l.begin(r)
}

// eachRun calls f for each maximal run of adjacent blocks, first up to end.
func (d *denseState) eachRun(f func(first, end, off, n int)) {
	for end := 0; end < len(d.blocks); {
		first := end
		off, to := d.blocks[first].Offset, d.blocks[first].Offset
		for end < len(d.blocks) && d.blocks[end].Offset == to {
			to += d.blocks[end].Len
			end++
		}
		f(first, end, off, to-off)
	}
}

// pullDense answers with this lane's blocks.
func (l *lane) pullDense(r *request) {
	code := psmsg.CodeOK
	switch {
	case l.dense.vector == nil: // none of the blocks is here
	case r.s.mapped:
		code = l.placeDense(r)
	default:
		code = l.writeDense(r)
	}
	if code == psmsg.CodeOK {
		l.noteStaleness(r)
	}
	l.reply(r, code, 0, l.versionFor(r, denseTable), 0)
}

// placeDense stores the values where the worker reads them.
func (l *lane) placeDense(r *request) psmsg.Code {
	b, code := r.s.enter(r.Values)
	if code != psmsg.CodeOK {
		return code
	}
	d, out, p := &l.dense, mem.Float32s(b), l.denseFor(r)
	d.eachRun(func(first, end, off, n int) { copy(out[off:off+n], p.Values(first, end)) })
	r.s.ep.Leave()
	l.stats.copied.Placed += uint64(d.floats) * 4
	return psmsg.CodeOK
}

// writeDense posts writes out of the published values themselves, and holds
// them until the last write has completed.
func (l *lane) writeDense(r *request) psmsg.Code {
	d := &l.dense
	p := l.denseFor(r)
	if err := d.vector.Hold(p); err != nil {
		l.refusal = err
		return psmsg.CodeNoMemory
	}
	if err := d.lend(p, r.s.domain); err != nil {
		l.refusal = err
		d.vector.Release(p)
		return psmsg.CodeNoMemory
	}
	r.s.held = append(r.s.held, p)
	d.eachRun(func(first, end, off, n int) {
		last := end == len(d.blocks)
		r.s.write(mem.Bytes(p.Values(first, end)), r.Values.Slice(uint64(off)*4, uint64(n)*4), r.slot, last)
	})
	return psmsg.CodeOK
}

// written ends the oldest hold of a session: completions come in the order of
// the pulls.
func (l *lane) written(s *session) {
	if len(s.held) == 0 {
		return
	}
	l.dense.vector.Release(s.held[0])
	s.held = slices.Delete(s.held, 0, 1)
}

// releaseAll ends the holds of a session whose endpoint is closed.
func (l *lane) releaseAll(s *session) {
	for len(s.held) > 0 {
		l.written(s)
	}
}

// applyDense adds the due vectors block by block and applies each block once.
// Running averages are applied push by push outside BSP: there every push
// carries a whole average. What cannot be added is so, too.
func (l *lane) applyDense(due []*request) {
	d := &l.dense
	l.retainDense()
	sources, merges := l.plan(due, d.sync.mode)
	sole := soleSource(sources, merges)
	d.sum = grow(d.sum, densemap.BlockFloats)
	refused, at := 0, 0
	for i, b := range d.blocks {
		l.keepFetching()
		first := at
		at += b.Len
		part := func(r *request) []float32 { return densePart(r, b, first) }
		switch {
		case b.Rule == "ema" && !d.sync.mode.BSP() || b.Rule != "ema" && !l.cfg.Dense.Optimizer.Adds():
			for _, r := range due {
				if g := part(r); g != nil {
					refused += d.vector.Apply(i, g)
				}
			}
		case sole != nil:
			refused += d.vector.Apply(i, part(sole)) // where it lies: a sum of one would be a copy
		default:
			d.srcs = d.srcs[:0]
			for _, r := range sources {
				d.srcs = append(d.srcs, part(r))
			}
			sum := d.sum[:b.Len]
			kernels.TreeSum(sum, d.srcs, merges)
			refused += d.vector.Apply(i, sum)
		}
	}
	if d.vector != nil {
		l.stats.copied.Carried += uint64(d.vector.Publish()) * 4
	}
	d.version++
	l.stats.refused += uint64(refused)
	l.noteTaken(denseTable, d.version, 0, due...)
	l.acknowledge(due, d.version, blame(due, refused, d.badBlocks)...)
}

// densePart is what a push brings for a block, before which are first floats of this
// lane's; nil of a worker without examples in the step.
func densePart(r *request, b densemap.Block, first int) []float32 {
	switch {
	case r == nil || r.Rows == 0:
		return nil
	case r.chained || r.Flags&psmsg.FlagPacked != 0: // this lane's blocks alone
		return r.grads[first : first+b.Len]
	}
	return r.grads[b.Offset : b.Offset+b.Len]
}

// badBlocks counts those of a push that are not finite. What lies between this lane's
// blocks is other lanes', and may never have been fetched.
func (d *denseState) badBlocks(r *request) (n int) {
	first := 0
	for _, b := range d.blocks {
		if !finite(densePart(r, b, first)) {
			n++
		}
		first += b.Len
	}
	return n
}

// soleSource is the one source that a sum consists of, nil where there are more
// or none. Merging along a tree, where absent + x is x, takes it to place 0
// unchanged.
func soleSource(sources []*request, merges []kernels.Merge) *request {
	at := -1
	for i, r := range sources {
		if r != nil && r.Rows > 0 {
			if at >= 0 {
				return nil
			}
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	sole := sources[at]
	for _, m := range merges {
		if int(m.Src) == at {
			at = int(m.Dst)
		}
	}
	if at != 0 {
		return nil
	}
	return sole
}

// digest is the sum of the blocks' hashes.
func (d *denseState) digest() table.Digest {
	var sum table.Digest
	for i, b := range d.blocks {
		sum.Add(blockDigest(b, d.vector.Values(i), d.vector.State(i)))
	}
	return sum
}
