package accessor

import (
	"math"
	"math/big"

	"psrt/tiers/table"
)

// naiveRow is a row by the rules as docs/lifecycle.md tells them: plain fields,
// numbers of float64, and counters a second time with 200 bits.
type naiveRow struct {
	show, click, delta, pending        float64
	bigShow, bigClick                  *big.Float
	unseen                             int
	slot                               uint32
	admitted, extended, inSave, served bool
	w, vector                          float64 // the first weight, one of the vector's
	g, vectorG                         float64 // sums of squares
}

// naive is a table that is swept from end to end whenever something happens.
type naive struct {
	l       *table.Lifecycle
	rows    map[uint64]*naiveRow
	graves  map[uint64]bool // served and gone since the last save but those in cut
	cut     map[uint64]bool
	serving map[uint64]float64 // what a server of models has: key to show
	staged  map[uint64]float64
	isDelta bool
}

func newNaive(l *table.Lifecycle) *naive {
	return &naive{l: l, rows: map[uint64]*naiveRow{}, graves: map[uint64]bool{}, serving: map[uint64]float64{}}
}

func exact(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }

func (n *naive) score(r *naiveRow) float64 {
	return n.l.NonclkCoeff*(r.show-r.click) + n.l.ClickCoeff*r.click
}

// born is the row that a first push finds; vector is what its vector will begin
// with.
func (n *naive) born(key uint64, w, vector float64) *naiveRow {
	r := &naiveRow{bigShow: exact(0), bigClick: exact(0), w: w, vector: vector}
	r.admitted = n.l.Admit == table.AdmitAll || n.l.Admit == table.AdmitProbability || n.l.Admit == table.AdmitCount && n.l.AdmitCount <= 0
	r.extended = r.admitted && n.l.EmbedxThreshold <= 0
	n.rows[key] = r
	return r
}

// step is table.PartAdaGrad for one weight.
func step(w, sum *float64, h, lo, hi float64) {
	*w = math.Max(lo, math.Min(hi, *w-0.05*h*math.Sqrt(3/(3+*sum))))
	*sum += h * h
}

func (n *naive) push(r *naiveRow, slot uint32, show, click, grad float64) {
	r.show, r.click = r.show+show, r.click+click
	r.bigShow.Add(r.bigShow, exact(show))
	r.bigClick.Add(r.bigClick, exact(click))
	r.slot, r.unseen = slot, 0
	r.delta += n.l.NonclkCoeff*(show-click) + n.l.ClickCoeff*click
	h := grad
	if n.l.ShowScale && show > 0 {
		h = grad / show
	}
	if r.admitted {
		step(&r.w, &r.g, h, -10, 10)
	}
	if r.extended {
		step(&r.vector, &r.vectorG, h, -1, 1)
	}
	if n.l.Admit == table.AdmitCount && r.show >= n.l.AdmitCount || n.l.Admit == table.AdmitScore && n.score(r) >= n.l.AdmitScore {
		r.admitted = true
	}
	if r.admitted && n.score(r) >= n.l.EmbedxThreshold {
		r.extended = true
	}
}

func (n *naive) delete(key uint64) {
	if r := n.rows[key]; r.served || r.inSave {
		n.graves[key] = true
	}
	delete(n.rows, key)
}

func (n *naive) passes(r *naiveRow, isDelta bool) bool {
	return r.admitted && n.score(r) >= n.l.BaseThreshold && r.unseen <= n.l.DeltaKeepDays &&
		(!isDelta || r.delta >= n.l.DeltaThreshold)
}

func (n *naive) happen(e Event) {
	switch e.Kind {
	case Shrink:
		rate := exact(n.l.ShowClickDecayRate)
		for key, r := range n.rows {
			r.show, r.click = r.show*n.l.ShowClickDecayRate, r.click*n.l.ShowClickDecayRate
			r.bigShow.Mul(r.bigShow, rate)
			r.bigClick.Mul(r.bigClick, rate)
			if n.score(r) < n.l.DeleteThreshold || r.unseen > n.l.DeleteAfterUnseenDays {
				n.delete(key)
			}
		}
	case Day:
		for _, r := range n.rows {
			r.unseen++
		}
	case Evict:
		for key, r := range n.rows {
			if n.score(r) < e.Below {
				n.delete(key)
			}
		}
	case CutDelta, CutBase:
		n.isDelta = e.Kind == CutDelta
		n.cut, n.graves, n.staged = n.graves, map[uint64]bool{}, map[uint64]float64{}
		for key, r := range n.rows {
			if n.passes(r, n.isDelta) {
				r.inSave, r.pending, r.delta = true, r.delta, 0
				n.staged[key] = r.show
			}
		}
	case Saved, Failed:
		n.end(e.Kind == Saved)
	}
}

func (n *naive) end(isGood bool) {
	for _, r := range n.rows {
		if !r.inSave {
			continue
		}
		r.inSave = false
		if isGood {
			r.served = true
		} else {
			r.delta += r.pending
		}
		r.pending = 0
	}
	if !isGood {
		for key := range n.cut {
			n.graves[key] = true
		}
		return
	}
	if !n.isDelta {
		n.serving = map[uint64]float64{}
	}
	for key := range n.cut {
		delete(n.serving, key)
	}
	for key, show := range n.staged {
		n.serving[key] = show
	}
}
