package client

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"psrt/sched/compress"
	"psrt/tiers/table"
)

// unsentVersion is that of what Unsent writes; of version 1 rows had no times:
//
//	"psrt unsent" and the version, a byte; rows of the largest step u64; Dense; then of each
//	table its ID u32 and Sparse (see compress)
const unsentVersion = 2

const unsentMagic = "psrt unsent"

var unsentHead = append([]byte(unsentMagic), unsentVersion)

// Unsent is what topk, or who merges steps, has not sent yet, for a process that goes on from where this one
// stands between two steps; nil where nothing is kept for later steps.
func (c *Client) Unsent() []byte {
	c.lock()
	defer c.unlock()
	p := c.press
	if p == nil || !p.choice.Keeps() {
		return nil
	}
	b := binary.LittleEndian.AppendUint64(unsentHead[:len(unsentHead):len(unsentHead)], uint64(p.most))
	b = p.dense.Append(b)
	for _, id := range slices.Sorted(maps.Keys(p.kept)) { // the same state is the same bytes
		k := p.kept[id]
		b = k.rows.Append(binary.LittleEndian.AppendUint32(b, id))
	}
	return b
}

// TakeUnsent goes on with what Unsent was at another client of the same worker, tables and
// dense vector (of so many values; 0 where it is not pushed by this client). Preconditions:
// nothing was pushed yet.
func (c *Client) TakeUnsent(b []byte, tables []table.Spec, dense int) error {
	c.lock()
	defer c.unlock()
	p := c.press
	if p == nil || !p.choice.Keeps() {
		return fmt.Errorf("client: worker %d keeps nothing for later steps", c.worker)
	}
	if len(b) < len(unsentHead)+8 || string(b[:len(unsentMagic)]) != unsentMagic || b[len(unsentMagic)] < 1 || b[len(unsentMagic)] > unsentVersion {
		return fmt.Errorf("client: %d bytes that begin with %.16q are not what a worker kept; it may be a later psrt's", len(b), b)
	}
	timed := b[len(unsentMagic)] > 1
	b = b[len(unsentHead):]
	most := binary.LittleEndian.Uint64(b)
	if most > 1<<31 {
		return fmt.Errorf("client: %w: a step of %d rows", compress.ErrPayload, most)
	}
	b, err := p.dense.Load(b[8:], dense)
	for err == nil && len(b) > 0 {
		if len(b) < 4 {
			return fmt.Errorf("client: %w: %d bytes behind the last table", compress.ErrPayload, len(b))
		}
		id := binary.LittleEndian.Uint32(b)
		b, err = c.takeRows(b[4:], id, tables, timed)
	}
	if err != nil {
		return fmt.Errorf("client: what worker %d kept: %w", c.worker, err)
	}
	p.most = int(most)
	if p.merge != nil && len(p.kept) > 0 { // it is as old as a bound may allow
		p.merge.Due()
		p.due = true
	}
	return nil
}

// DenseUnsent is of how many dense values there is something in what Unsent gave.
func DenseUnsent(b []byte) int {
	if len(b) < len(unsentHead)+8 {
		return 0
	}
	return compress.Left(b[len(unsentHead)+8:])
}

func (c *Client) takeRows(b []byte, id uint32, tables []table.Spec, timed bool) (rest []byte, err error) {
	for _, s := range tables {
		if s.ID != id || c.press.kept[id] != nil {
			continue
		}
		k, err := c.keptOf(s)
		if err != nil {
			return nil, err
		}
		return k.rows.Load(b, timed)
	}
	return nil, fmt.Errorf("%w: table %d, which is not there, or twice", compress.ErrPayload, id)
}
