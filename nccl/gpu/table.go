package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/nccl/coll"
	"psrt/rdma/mem"
)

// table is where ranks lay words before each other: a block of this one's, and behind it
// those of all.
type table struct {
	control Control
	arena   *mem.Arena
	memory  coll.Memory
}

// blockBytes is the most that a rank says at once.
const blockBytes = 2048

// maxRanks is as many as have a block of counts.
const maxRanks = blockBytes / 8

func newTable(control Control) (*table, error) {
	a, err := mem.New(mem.Config{Size: blockBytes * (control.Size() + 1), Node: -1, Purpose: "collectives' words", Share: true})
	if err != nil {
		return nil, err
	}
	m, err := control.Register(a, "collectives' words")
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &table{control, a, m}, nil
}

func (t *table) close() error { return errors.Join(t.memory.Close(), t.arena.Close()) }

// mine is what this rank says, of n bytes.
func (t *table) mine(n int) []byte { return t.arena.Bytes()[:n] }

// of is what a rank has said.
func (t *table) of(rank, n int) []byte { return t.arena.Bytes()[blockBytes+rank*n:][:n] }

// exchange has all say n bytes.
func (t *table) exchange(n int, within time.Duration) error {
	return t.control.Do(coll.Call{Kind: coll.AllGather, Type: coll.U8, Send: t.mine(n), Recv: t.arena.Bytes()[blockBytes:][:n*t.control.Size()], Within: within})
}

// gather has all say a value.
func gather[T any](t *table, value T, within time.Duration) ([]T, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(text) > blockBytes {
		return nil, fmt.Errorf("gpu: %d bytes are to be said, at most %d fit: %s", len(text), blockBytes, text[:100])
	}
	b := t.mine(blockBytes)
	clear(b[copy(b, text):])
	if err := t.exchange(blockBytes, within); err != nil {
		return nil, err
	}
	all := make([]T, t.control.Size())
	for r := range all {
		if err := json.Unmarshal(bytes.TrimRight(t.of(r, blockBytes), "\x00"), &all[r]); err != nil {
			return nil, fmt.Errorf("gpu: what rank %d says is not understood: %w; run the same psrt everywhere", r, err)
		}
	}
	return all, nil
}

const maxSaid = 600

// said bounds an error's text within a block.
func said(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	return s[:min(len(s), maxSaid)]
}
