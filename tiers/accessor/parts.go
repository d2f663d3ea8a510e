package accessor

import (
	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

// partsOf lays out the rows of a table with a lifecycle.
func partsOf(s table.Spec) kernels.Parts {
	l := s.Lifecycle
	embed, _ := s.PartStates()
	p := kernels.Parts{
		Dim: int32(s.Dim), VectorState: int32(s.Dim + embed), Life: int32(s.LifeAt()),
		Nonclk: l.NonclkCoeff, Click: l.ClickCoeff, ExtendAt: l.EmbedxThreshold,
	}
	switch l.Admit {
	case table.AdmitCount:
		p.AdmitBy, p.AdmitAt = kernels.AdmitShow, l.AdmitCount
	case table.AdmitScore:
		p.AdmitBy, p.AdmitAt = kernels.AdmitScore, l.AdmitScore
	}
	if l.ShowScale {
		p.ShowScale = 1
	}
	for i, part := range []table.PartRule{l.Embed.WithDefaults(false), l.Embedx.WithDefaults(true)} {
		p.Rules[i] = partRule(part, partOptimizer(part, s.Optimizer))
		if part.IsBounded() {
			p.Bounded[i], p.Lo[i], p.Hi[i] = 1, part.WeightBounds[0], part.WeightBounds[1]
		}
	}
	return p
}

// partOptimizer is the table's optimizer as a part without a rule of its own uses
// it.
func partOptimizer(p table.PartRule, o table.Optimizer) table.Optimizer {
	o = o.WithDefaults()
	if p.LearningRate != 0 {
		o.LR = p.LearningRate
	}
	return o
}

func partRule(p table.PartRule, o table.Optimizer) kernels.Rule {
	r := kernels.Rule{LR: p.LearningRate, Beta: p.InitialG2Sum, Beta1: p.Beta1DecayRate, Beta2: p.Beta2DecayRate, Eps: p.AdaEpsilon}
	switch p.Rule {
	case table.PartNaive:
		r.Kind = kernels.SGD
	case table.PartAdaGrad:
		r.Kind = kernels.PastAdaGrad
	case table.PartStdAdaGrad:
		r.Kind = kernels.PastAdaGradEach
	case table.PartAdam:
		r.Kind = kernels.Adam
	case table.PartSharedAdam:
		r.Kind = kernels.SharedAdam
	default:
		return RuleOf(o)
	}
	return r
}

// bearParts is the rest of Born for a table with a lifecycle: initial values of
// parts with rules of their own, the state of both, and the words. The vector
// lies there from birth, hidden until the row is extended: what it begins with
// depends on the key alone, so nobody sees when it was drawn.
func (a *Accessor) bearParts(key uint64, row []float32) {
	p, l := &a.life.parts, &a.life.rules
	dim := a.spec.Dim
	ends := [3]int{dim, int(p.VectorState), int(p.Life)}
	for i, part := range []table.PartRule{l.Embed.WithDefaults(false), l.Embedx.WithDefaults(true)} {
		w, state := row[i:dim], row[ends[i]:ends[i+1]]
		if i == 0 {
			w = row[:1]
		}
		if part.Rule == "" {
			o := partOptimizer(part, a.opt)
			newState(&o, w, state)
			continue
		}
		a.uniformFrom(key, i, w, part.InitialRange)
		clear(state)
		switch n := len(w); part.Rule {
		case table.PartAdam:
			fill(state[min(2*n, len(state)):], 1) // the powers of the betas
		case table.PartSharedAdam:
			fill(state[min(2, len(state)):], 1)
		}
	}
	a.life.begin(row[p.Life:])
}

// uniformFrom draws elements first, first+1, ... of a key's stream in [-r, r).
func (a *Accessor) uniformFrom(key uint64, first int, w []float32, r float32) {
	at := mix(a.root^mix(key+golden)) + uint64(first)*golden
	for i := range w {
		at += golden
		w[i] = r * uniform(mix(at))
		if r == 0 {
			w[i] = 0 // not -0
		}
	}
}
