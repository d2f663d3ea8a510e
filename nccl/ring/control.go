package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"psrt/nccl/coll"
)

// Control calls between ranks.
const (
	methodAbort = "abort"
	methodWhere = "where"
)

// abortCall says that the group is broken and by whom.
type abortCall struct {
	Rank  int        `json:"rank"`
	Fault coll.Fault `json:"fault"`
	Call  uint64     `json:"call"`
	Kind  coll.Kind  `json:"kind"`
	Why   string     `json:"why"`
}

// whereReply is Group.at.
type whereReply struct {
	At uint64 `json:"at"`
}

// serve answers a peer until its connection ends.
func (g *Group) serve(p *peer) {
	_ = p.conn.Serve(g.ctx, func(_ context.Context, method string, body json.RawMessage) (any, error) {
		switch method {
		case methodWhere:
			return whereReply{At: g.at.Load()}, nil
		case methodAbort:
			var a abortCall
			if err := json.Unmarshal(body, &a); err != nil {
				return nil, err
			}
			if a.Rank < 0 || a.Rank >= g.place.Size {
				return nil, fmt.Errorf("ring: rank %d of %d is blamed", a.Rank, g.place.Size)
			}
			g.setVerdict(&coll.RankError{Rank: a.Rank, Fault: a.Fault, Call: a.Call, Kind: a.Kind, Cause: fmt.Errorf("rank %d says: %w", p.rank, errors.New(a.Why))})
			g.mux.Wake()
			return nil, nil
		}
		return nil, fmt.Errorf("ring: unknown call %q", method)
	})
	p.gone.Store(true)
	g.mux.Wake()
}
