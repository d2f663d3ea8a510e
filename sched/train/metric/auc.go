package metric

import "slices"

// AUC is the exact area under the ROC curve: the share of pairs of a positive
// (label above 1/2) and a negative that the scores order rightly, a tie
// counting half. ok is false where there are no such pairs, or where a score
// is NaN.
//
// Preconditions: len(scores) == len(labels).
func AUC(scores, labels []float32) (auc float64, ok bool) {
	type example struct {
		score    float32
		positive bool
	}
	sorted := make([]example, len(scores))
	for i, s := range scores {
		if s != s {
			return 0, false
		}
		sorted[i] = example{s, labels[i] > 0.5}
	}
	slices.SortFunc(sorted, func(a, b example) int {
		switch {
		case a.score < b.score:
			return -1
		case a.score > b.score:
			return 1
		}
		return 0
	})
	var count pairs
	for i := 0; i < len(sorted); {
		var positives, negatives uint64
		for first := sorted[i].score; i < len(sorted) && sorted[i].score == first; i++ {
			if sorted[i].positive {
				positives++
			} else {
				negatives++
			}
		}
		count.add(positives, negatives)
	}
	return count.auc()
}

// pairs counts pairs of a positive and a negative, fed by ascending score.
type pairs struct {
	positives, negatives uint64
	right, tied          float64
}

// add takes the examples of one score, or of one bucket of scores.
func (c *pairs) add(positives, negatives uint64) {
	c.right += float64(positives) * float64(c.negatives)
	c.tied += float64(positives) * float64(negatives)
	c.positives += positives
	c.negatives += negatives
}

func (c *pairs) auc() (auc float64, ok bool) {
	all := float64(c.positives) * float64(c.negatives)
	if all == 0 {
		return 0, false
	}
	return (c.right + c.tied/2) / all, true
}

// bound is how far auc may be off when scores within an add were not all
// equal: each such pair counts half, and should count between 0 and 1.
func (c *pairs) bound() float64 {
	return c.tied / 2 / (float64(c.positives) * float64(c.negatives))
}
