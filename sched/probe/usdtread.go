package probe

import (
	"bytes"
	"errors"
	"fmt"
)

// queueKey is struct queue_key of usdt.bpf.c.
type queueKey struct {
	Device    uint64
	QueuePair uint32
	_         uint32
}

// queueValue is struct queue of usdt.bpf.c.
type queueValue struct {
	ReceivedBytes, Received uint64
	SentBytes, Sent         uint64
	ReadBytes, Reads        uint64
	Completions, Errors     uint64
	Device                  [64]byte
}

func (v *queueValue) device() string {
	name, _, _ := bytes.Cut(v.Device[:], []byte{0})
	return string(name)
}

func queueSample(key queueKey, v *queueValue) Sample {
	return Sample{
		Source{Interface: v.device(), QueuePair: key.QueuePair},
		Count{Bytes: v.ReceivedBytes + v.ReadBytes, Messages: v.Received + v.Reads},
	}
}

// Queue is all that the points tell of a queue pair.
type Queue struct {
	Device      string
	Number      uint32
	Received    Count // sends and writes with immediates that arrived
	Sent        Count // requests but reads, when posted
	Read        Count // reads, when posted
	Completions uint64
	Errors      uint64 // completions, and doorbells, that failed
}

// Batches is how often the points were hit.
type Batches struct {
	Completions, Requests uint64
	Missed                uint64 // not counted, or not all of it: no room, or not to be read
}

// Read reads what has come in so far. A source's Interface is the device, its
// Peer is not known.
func (u *USDT) Read(out *Reading) error {
	out.reset()
	if err := u.table.read(out); err != nil {
		return fmt.Errorf("probe: reading queue pairs: %w", err)
	}
	b, err := u.Batches()
	out.Lost = b.Missed
	return err
}

// Queues are all queue pairs in the table, in no order.
func (u *USDT) Queues() ([]Queue, error) {
	var all []Queue
	err := u.table.each(func(key queueKey, v *queueValue) {
		all = append(all, Queue{v.device(), key.QueuePair, Count{Bytes: v.ReceivedBytes, Messages: v.Received},
			Count{Bytes: v.SentBytes, Messages: v.Sent}, Count{Bytes: v.ReadBytes, Messages: v.Reads}, v.Completions, v.Errors})
	})
	if err != nil {
		return nil, fmt.Errorf("probe: reading queue pairs: %w", err)
	}
	return all, nil
}

// Batches is how often the points were hit so far.
func (u *USDT) Batches() (Batches, error) {
	var b Batches
	err := errors.Join(u.told.Lookup(uint32(0), &b.Completions), u.told.Lookup(uint32(1), &b.Requests), u.told.Lookup(uint32(2), &b.Missed))
	if err != nil {
		err = fmt.Errorf("probe: reading how often points were hit: %w", err)
	}
	return b, err
}
