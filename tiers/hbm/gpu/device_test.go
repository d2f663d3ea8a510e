package gpu

import (
	"testing"

	"psrt/tiers/table"
)

// TestRoomOfStages: what Slots promises Open can have, and what the stages take of it
// is little, however small it is.
func TestRoomOfStages(t *testing.T) {
	life := table.DefaultLifecycle()
	for _, spec := range []table.Spec{
		{Name: "narrow", ID: 1, Dim: 1, Optimizer: table.Optimizer{Kind: table.SGD}},
		{Name: "wide", ID: 1, Dim: 200, Optimizer: table.Optimizer{Kind: table.Adam}},
		{Name: "life", ID: 1, Dim: 16, Optimizer: table.Optimizer{Kind: table.AdaGrad}, Lifecycle: &life},
	} {
		for bytes := int64(1); bytes < 1<<32; bytes += bytes/3 + 1 {
			for batch := 1; batch < 1<<18; batch *= 3 {
				n := (&Device{}).Slots(&spec, bytes, batch)
				l := layoutOf(&spec, n, batch)
				size := int64(l.bytes(n))
				if n > 0 && size > bytes {
					t.Fatalf("%s: %d rows in batches of %d take %d bytes of %d", spec.Name, n, batch, size, bytes)
				}
				if work := int64(stages * l.stageBytes()); l.piece > minPiece && work > bytes/stagesPart+stages*3*256 {
					t.Fatalf("%s: batches of %d take %d bytes of %d", spec.Name, batch, work, bytes)
				}
			}
		}
	}
}
