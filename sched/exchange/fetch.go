package exchange

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
)

// peer is a member that rows are fetched from.
type peer struct {
	link
	numbers []byte
}

// Fetch asks a member for rows and gives take the bytes of the first n of them, at
// least one; they are valid until it returns. There is one Fetch at a time for each
// member.
func (m *Member) Fetch(ctx context.Context, member int, rows []uint32, take func(packed []byte) error) (n int, err error) {
	if member < 0 || member >= m.opt.Size || member == m.opt.Me || len(rows) == 0 {
		return 0, fmt.Errorf("exchange: member %d of %d asks member %d for %d rows", m.opt.Me, m.opt.Size, member, len(rows))
	}
	p := &m.peers[member]
	p.numbers = p.numbers[:0]
	for _, r := range rows[:min(len(rows), maxRows)] {
		p.numbers = binary.LittleEndian.AppendUint32(p.numbers, r)
	}
	need, silent := landingBytes, time.Now()
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		var r reply
		if r, err = m.ask(ctx, p, member, need); err == nil {
			switch {
			case r.Early:
				silent, pause = time.Now(), retryMin
				continue // it has waited before it said so
			case r.Need > need:
				need = r.Need
				continue
			case r.N < 1 || r.N > len(rows) || r.Bytes < 1 || r.Bytes > need:
				return 0, fmt.Errorf("exchange: worker %d gave %d of %d rows in %d of %d bytes", member, r.N, len(rows), r.Bytes, need)
			}
			m.mu.Lock()
			m.moved += int64(r.Bytes)
			m.mu.Unlock()
			return r.N, take(p.arena.Bytes()[:r.Bytes])
		}
		var said *dial.CallError
		var lasting permanent
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.As(err, &said) && p.conn != nil && p.conn.Err() == nil, errors.As(err, &lasting):
			return 0, fmt.Errorf("exchange: rows of worker %d: %w", member, err)
		case time.Since(silent) > m.opt.Timeout:
			return 0, fmt.Errorf("exchange: rows of worker %d could not be had for %v: %w", member, m.opt.Timeout, err)
		}
		_ = p.close()
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

const (
	retryMin = 20 * time.Millisecond
	retryMax = time.Second
)

// permanent is what another try does not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// ask makes one request, over a new connection where there is none.
func (m *Member) ask(ctx context.Context, p *peer, member, need int) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.opt.Timeout)
	defer cancel()
	if p.conn == nil {
		if err := m.dial(ctx, p, member); err != nil {
			return r, err
		}
	}
	if err := p.hold(need, m.opt.Node, rdma.AccessRemoteWrite, "rows of other workers"); err != nil {
		return r, permanent{err}
	}
	err = p.conn.Call(ctx, methodRows, request{Rows: p.numbers, Landing: p.region.Remote().Slice(0, uint64(need))}, &r)
	return r, err
}

func (m *Member) dial(ctx context.Context, p *peer, member int) error {
	addr, err := m.opt.Address(ctx, member)
	if err != nil {
		return err
	}
	word, err := json.Marshal(hello{Version: version, From: m.opt.Me, To: member})
	if err != nil {
		return err
	}
	p.mux = dial.NewMux(2 * depth)
	p.mux.Guard(m.host.OnPanic())
	p.conn, _, err = m.host.Dial(ctx, addr, word, 1, p.attach(fmt.Sprintf("worker %d", member), m.opt.Timeout))
	return err
}
