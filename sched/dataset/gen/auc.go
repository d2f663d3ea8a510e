package gen

// curve counts labels by logit, in steps so fine that ties between rows of
// different logit change the AUC by less than 1e-6.
type curve struct {
	counts [2][]uint64
}

const (
	curveSteps = 1 << 18
	curveRange = 20.0 // logits beyond are in the last step
)

func newCurve() *curve {
	return &curve{[2][]uint64{make([]uint64, curveSteps), make([]uint64, curveSteps)}}
}

func (c *curve) add(logit float64, label byte) {
	x := min(max((logit+curveRange)/(2*curveRange), 0), 1)
	c.counts[label][min(int(x*curveSteps), curveSteps-1)]++
}

// auc is the chance that a positive row has a higher logit than a negative one,
// ties counted half. Where one kind is absent there is none: false.
func (c *curve) auc() (auc float64, ok bool) {
	var negatives, positives, wins float64
	for i := range c.counts[0] {
		n, p := float64(c.counts[0][i]), float64(c.counts[1][i])
		wins += float64(p * (negatives + n/2))
		negatives += n
		positives += p
	}
	if negatives == 0 || positives == 0 {
		return 0, false
	}
	return wins / negatives / positives, true
}
