package exchange

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
)

const methodRows = "rows"

// request asks for rows: their numbers, four bytes each, little-endian.
type request struct {
	Rows    []byte           `json:"rows"`
	Landing rdma.RemoteRange `json:"landing"`
}

// reply says how many of the rows were written. Need is the bytes of the first, where
// it does not fit; Early, that the files are being read.
type reply struct {
	N     int  `json:"n,omitempty"`
	Bytes int  `json:"bytes,omitempty"`
	Need  int  `json:"need,omitempty"`
	Early bool `json:"early,omitempty"`
}

// earlyAfter is how long a request waits for the files to be read, before it is told.
const earlyAfter = time.Second

// serve answers a member's requests until it goes.
func (m *Member) serve(in *dial.Incoming, from int) {
	l := &link{mux: dial.NewMux(2 * depth)}
	l.mux.Guard(m.host.OnPanic())
	defer func() { _ = l.close() }()
	attach := l.attach(fmt.Sprintf("worker %d", from), m.opt.Timeout)
	var err error
	l.conn, err = in.Finish(func(i int, d rdma.Domain) rdma.EndpointConfig {
		cfg, err := attach(i, d)
		if err != nil {
			cfg.Queue = nil // which NewEndpoint refuses
		}
		return cfg
	}, nil)
	if err != nil {
		return // the other side has the reason, and dials again
	}
	var one sync.Mutex // requests come one by one; this is for who does not keep to it
	_ = l.conn.Serve(m.ctx, func(ctx context.Context, method string, body json.RawMessage) (any, error) {
		one.Lock()
		defer one.Unlock()
		return m.answer(ctx, l, method, body)
	})
}

func (m *Member) answer(ctx context.Context, l *link, method string, body json.RawMessage) (any, error) {
	var r request
	if method != methodRows {
		return nil, fmt.Errorf("exchange: no call %q", method)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("exchange: %w", err)
	}
	if n := len(r.Rows); n == 0 || n%4 != 0 || n > 4*maxRows || r.Landing.Len > maxRow {
		return nil, fmt.Errorf("exchange: %d bytes of row numbers for a landing of %d bytes; want 1 to %d numbers of 4 bytes, and at most %d", n, r.Landing.Len, maxRows, maxRow)
	}
	select {
	case <-m.offered:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(earlyAfter):
		return reply{Early: true}, nil
	}
	if err := l.hold(int(r.Landing.Len), m.opt.Node, rdma.AccessLocal, "rows sent to other workers"); err != nil {
		return nil, err
	}
	rows := make([]uint32, len(r.Rows)/4)
	for i := range rows {
		rows[i] = binary.LittleEndian.Uint32(r.Rows[4*i:])
	}
	n, bytes, err := m.pack(rows, l.arena.Bytes()[:r.Landing.Len])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return reply{Need: bytes}, nil
	}
	if err := l.write(bytes, r.Landing, m.opt.Timeout); err != nil {
		return nil, err
	}
	return reply{N: n, Bytes: bytes}, nil
}
