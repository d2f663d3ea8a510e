package server

import (
	"crypto/sha256"
	"encoding/binary"

	"psrt/csrc/kernels"
	"psrt/rdma/mem"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/tiers/dense"
	"psrt/tiers/table"
)

// denseTable is the table number that stands for the dense vector in digests.
const denseTable = ^uint32(0)

// denseState is one lane's blocks of the dense vector.
type denseState struct {
	total   int
	blocks  []denseBlock
	floats  int // in blocks
	version uint64
	held    []*request
	sum     []float32
	srcs    [][]float32
}

type denseBlock struct {
	densemap.Block
	state *dense.Block
}

func (d *denseState) init(cfg *Config, lane int) error {
	d.total = densemap.Total(cfg.Dense.Ranges)
	if d.total == 0 {
		return nil
	}
	blocks, err := densemap.Cut(cfg.Dense.Ranges)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if cfg.Map.LaneOfBlock(b.Index, len(blocks)) != lane {
			continue
		}
		rule := dense.Rule{Optimizer: cfg.Dense.Optimizer}
		if b.Rule == "ema" {
			rule = dense.Rule{EMA: cfg.Dense.EMA}
		}
		state, err := dense.NewOnNode(rule, cfg.Dense.Init[b.Offset:b.Offset+b.Len], cfg.Node)
		if err != nil {
			return err
		}
		d.blocks = append(d.blocks, denseBlock{Block: b, state: state})
		d.floats += b.Len
	}
	return nil
}

func (d *denseState) close() {
	for _, b := range d.blocks {
		b.state.Close()
	}
}

// locateDense finds a dense request's vector. Values always names the worker's
// whole vector; this lane reads or writes its own blocks of it.
func (l *lane) locateDense(r *request) {
	if r.Kind == psmsg.KindPushDense {
		r.s.enqueuePush(r)
	}
	if r.Values.Len != uint64(l.dense.total)*4 || l.dense.total == 0 || r.Values.Addr%4 != 0 {
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
		r.grads = mem.Float32s(b)
		l.ready(r)
		return
	}
	b, err := r.stage.bytes(r.s.domain, l.cfg.Node, l.dense.total*4)
	if err != nil {
		l.refuse(r, psmsg.CodeNoMemory)
		return
	}
	r.grads = mem.Float32s(b)
	l.dense.eachRun(func(off, n int) {
		r.fetch.add(b[off*4:(off+n)*4], r.Values.Slice(uint64(off)*4, uint64(n)*4))
	})
	l.begin(r)
}

// eachRun calls f for each maximal run of adjacent blocks.
func (d *denseState) eachRun(f func(off, n int)) {
	for i := 0; i < len(d.blocks); {
		off, end := d.blocks[i].Offset, d.blocks[i].Offset+d.blocks[i].Len
		for i++; i < len(d.blocks) && d.blocks[i].Offset == end; i++ {
			end += d.blocks[i].Len
		}
		f(off, end-off)
	}
}

// pullDense answers with this lane's blocks.
func (l *lane) pullDense(r *request) {
	d := &l.dense
	if r.s.mapped {
		b, code := r.s.lend(r.Values)
		if code != psmsg.CodeOK {
			l.reply(r, code, 0, d.version, 0)
			return
		}
		out := mem.Float32s(b)
		for _, blk := range d.blocks {
			copy(out[blk.Offset:blk.Offset+blk.Len], blk.state.Values())
		}
		l.stats.copied.Placed += uint64(d.floats) * 4
	} else {
		b, err := r.stage.bytes(r.s.domain, l.cfg.Node, d.total*4)
		if err != nil {
			l.reply(r, psmsg.CodeNoMemory, 0, d.version, 0)
			return
		}
		out := mem.Float32s(b)
		for _, blk := range d.blocks {
			copy(out[blk.Offset:blk.Offset+blk.Len], blk.state.Values())
		}
		l.stats.copied.Staged += uint64(d.floats) * 4
		d.eachRun(func(off, n int) {
			r.s.write(b[off*4:(off+n)*4], r.Values.Slice(uint64(off)*4, uint64(n)*4), r.slot)
		})
	}
	l.reply(r, psmsg.CodeOK, 0, d.version, 0)
}

// applyDense adds the due vectors block by block and applies each block once.
// Running averages are applied push by push outside BSP: there every push
// carries a whole average.
func (l *lane) applyDense(due []*request) {
	d := &l.dense
	sources, merges := l.plan(due)
	d.sum = grow(d.sum, densemap.BlockFloats)
	given := 0
	for _, r := range sources {
		if r != nil && r.Rows > 0 {
			given++
		}
	}
	refused := 0
	for _, b := range d.blocks {
		l.keepFetching()
		if b.Rule == "ema" && l.cfg.Staleness != 0 || b.Rule != "ema" && !l.cfg.Dense.Optimizer.Adds() {
			for _, r := range due {
				refused += b.state.Apply(r.grads[b.Offset : b.Offset+b.Len])
				l.stats.copied.Published += uint64(b.Len) * 4
			}
			continue
		}
		d.srcs = d.srcs[:0]
		for _, r := range sources {
			if r == nil || r.Rows == 0 {
				d.srcs = append(d.srcs, nil) // a worker without examples in this step
				continue
			}
			d.srcs = append(d.srcs, r.grads[b.Offset:b.Offset+b.Len])
		}
		sum := d.sum[:b.Len]
		if len(d.srcs) == 1 && given == 1 {
			sum = d.srcs[0] // where it lies: a sum of one is a copy
		} else {
			kernels.TreeSum(sum, d.srcs, merges)
			if given == 1 {
				l.stats.copied.Summed += uint64(b.Len) * 4
			}
		}
		refused += b.state.Apply(sum)
		l.stats.copied.Published += uint64(b.Len) * 4
	}
	d.version++
	l.stats.refused += uint64(refused)
	l.acknowledge(due, d.version, refused)
}

// digest is the sum of the blocks' hashes.
func (d *denseState) digest() table.Digest {
	var sum table.Digest
	for _, b := range d.blocks {
		h := sha256.New()
		var head [12]byte
		binary.LittleEndian.PutUint32(head[:], denseTable)
		binary.LittleEndian.PutUint64(head[4:], uint64(b.Index))
		h.Write(head[:])
		h.Write(mem.Bytes(b.state.Values()))
		h.Write(mem.Bytes(b.state.State()))
		sum.Add(table.Digest(h.Sum(nil)))
	}
	return sum
}
