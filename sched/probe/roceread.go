package probe

import (
	"errors"
	"fmt"
	"net/netip"
)

// flowKey is struct roce_key of bth.h.
type flowKey struct {
	Source    [16]byte
	QueuePair uint32
	Interface uint32
}

// flowValue is struct flow of roce.bpf.c; its windows are the kernel's own.
type flowValue struct {
	Top      [2]uint32
	Bytes    uint64
	Messages uint64
	Repeated uint64
	Seen     [2][32]uint64
}

// flowSample needs the names of interfaces.
func flowSample(names *interfaces) func(flowKey, *flowValue) Sample {
	return func(key flowKey, v *flowValue) Sample {
		return Sample{
			Source{
				Peer:      netip.AddrPortFrom(netip.AddrFrom16(key.Source).Unmap(), 0),
				Interface: names.name(key.Interface),
				QueuePair: key.QueuePair,
			},
			Count{v.Bytes, v.Messages, v.Repeated},
		}
	}
}

// Read reads what has come in so far.
func (r *RoCE) Read(out *Reading) error {
	out.reset()
	if err := r.table.read(out); err != nil {
		return fmt.Errorf("probe: reading the flows of RoCE v2: %w", err)
	}
	full, _, err := r.misses()
	out.Lost = full
	return err
}

// Broken is how many packets to the port of RoCE were too short for what they
// say they are.
func (r *RoCE) Broken() (uint64, error) {
	_, broken, err := r.misses()
	return broken, err
}

func (r *RoCE) misses() (full, broken uint64, err error) {
	err = errors.Join(r.missed.Lookup(uint32(0), &full), r.missed.Lookup(uint32(1), &broken))
	if err != nil {
		err = fmt.Errorf("probe: reading how many packets were not counted: %w", err)
	}
	return full, broken, err
}
