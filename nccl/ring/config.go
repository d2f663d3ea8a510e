package ring

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"psrt/nccl/coll"
)

// Options of a group; zero values get defaults. All ranks must have the same
// EagerBytes.
type Options struct {
	// Timeout bounds a call that says nothing else; 30 s.
	Timeout time.Duration
	// EagerBytes is the longest block that travels within the first word; 4 KiB.
	EagerBytes int
	// ChunkBytes is how much is read from one rank at a time where memory is not
	// mapped; 256 KiB.
	ChunkBytes int
	// LandingBytes bounds what is read ahead of the reduction; 16 MiB.
	LandingBytes int
	// PastBytes: vectors of at least as many are written past the caches; 16 MiB.
	PastBytes int
	// HostBytes: shorter vectors are not added inside hosts first, which takes two more
	// turns between hosts; 64 KiB. The same at all ranks.
	HostBytes int
	// Node is the NUMA node of the group's own memory, -1 any.
	Node int
}

const (
	maxRanks      = 512
	maxEagerBytes = 1 << 20
	minChunkBytes = 4 << 10
	maxChunkBytes = 1 << 30
)

func (o Options) complete() (Options, error) {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.EagerBytes, 4<<10)
	set(&o.ChunkBytes, 256<<10)
	set(&o.LandingBytes, 16<<20)
	set(&o.PastBytes, 16<<20)
	set(&o.HostBytes, 64<<10)
	for _, x := range []struct {
		name       string
		v, min, to int
	}{
		{"EagerBytes", o.EagerBytes, 1, maxEagerBytes},
		{"ChunkBytes", o.ChunkBytes, minChunkBytes, maxChunkBytes},
		{"LandingBytes", o.LandingBytes, o.ChunkBytes, 64 << 30},
		{"PastBytes", o.PastBytes, 1, 1 << 62},
		{"HostBytes", o.HostBytes, 1, 1 << 62},
		{"Node", o.Node, -1, 1 << 16},
	} {
		if x.v < x.min || x.v > x.to {
			return o, fmt.Errorf("ring: Options.%s is %d, want %d to %d", x.name, x.v, x.min, x.to)
		}
	}
	if o.Timeout < 0 {
		return o, fmt.Errorf("ring: Options.Timeout is %v, want a time to come", o.Timeout)
	}
	o.EagerBytes = (o.EagerBytes + 63) &^ 63
	o.ChunkBytes &^= 63
	return o, nil
}

// Place is a rank's in a group.
type Place struct {
	Rank, Size int
	// Epoch tells groups of the same name apart: each that is made after another
	// broke has a higher one.
	Epoch uint64
	// Order of reductions; nil is coll.TreeOrder. The same at all ranks.
	Order []coll.Merge
	// Hosts of the ranks, by name; nil: of each its own. All-reduces are made inside hosts
	// first where that does not change the order. The same at all ranks.
	Hosts []string
}

func (p *Place) check() error {
	if p.Size < 1 || p.Size > maxRanks || p.Rank < 0 || p.Rank >= p.Size {
		return fmt.Errorf("ring: rank %d of %d, want a rank from 0 of at most %d", p.Rank, p.Size, maxRanks)
	}
	if p.Order == nil {
		p.Order = coll.TreeOrder(p.Size)
	}
	if !coll.CheckOrder(p.Order, p.Size) {
		return fmt.Errorf("ring: the order %v does not reduce %d ranks to the first; make it with coll.TreeOrder", p.Order, p.Size)
	}
	if p.Hosts != nil && len(p.Hosts) != p.Size {
		return fmt.Errorf("ring: %d hosts are named for %d ranks, want one of each", len(p.Hosts), p.Size)
	}
	return nil
}

// hostsSum tells lists of hosts apart, without their names.
func (p *Place) hostsSum() string {
	if p.Hosts == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(p.Hosts, "\x00")))
	return hex.EncodeToString(sum[:8])
}
