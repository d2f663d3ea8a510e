package model

import "psrt/tiers/table"

// RowInit says how a new sparse row starts: the weight at zero, the embedding
// at random.
func (m *Model) RowInit() table.Init {
	if m.embedding() == 0 {
		return table.Init{Kind: table.InitZero}
	}
	return table.Init{ZeroPrefix: m.weights(), Kind: table.InitNormal, Scale: RowScale}
}
