package server

import (
	"bytes"

	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// DenseState gives the first dense block of this server from req.From on: one at a
// time, for blocks are bounded and vectors are not.
func (s *Server) DenseState(req psmsg.DenseStateRequest) (psmsg.DenseStateReply, error) {
	var best psmsg.DenseStateReply
	for _, l := range s.lanes {
		if err := l.do(commandTimeout, func() {
			d := &l.dense
			for i, b := range d.blocks {
				if b.Index < req.From || best.Found && b.Index >= best.Block {
					continue
				}
				best = psmsg.DenseStateReply{Found: true, Block: b.Index, Version: d.version,
					Values: bytes.Clone(mem.Bytes(d.vector.Values(i))), State: bytes.Clone(mem.Bytes(d.vector.State(i)))}
				return // they are in order
			}
		}); err != nil {
			return best, err
		}
	}
	return best, nil
}
