//go:build !cgo

package gpu

import (
	"context"

	"psrt/csrc/nccl"
	"psrt/nccl/coll"
)

// place is nowhere: without cgo no library can be loaded.
type place struct{}

func look(opt *Options) (place, offer) {
	_, err := nccl.Load(opt.NCCL)
	return place{}, offer{Machine: opt.Machine, Why: said(err)}
}

func (place) open(*table, Options, int) (*Group, []byte, error) { return nil, nil, ErrUnfit }

// Group is never joined in a build without cgo.
type Group struct{ coll.Group }

// Info is what a group works with.
func (g *Group) Info() Info { return Info{} }

func (g *Group) connect(context.Context, []byte) error { return ErrUnfit }
func (g *Group) release(bool) error                    { return nil }
func (g *Group) begin()                                {}
