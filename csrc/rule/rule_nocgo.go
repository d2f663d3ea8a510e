//go:build !cgo

package rule

import "psrt/csrc/kernels"

type instance struct{}

func load(string, string, int) (instance, Facts, error) { return instance{}, Facts{}, ErrNotSupported }

func (instance) begin(*kernels.Rows, int, []uint64) {}

func (instance) update(_ *kernels.Rows, ids []uint32, _ []float32) int { return len(ids) }

func (*instance) close() {}
