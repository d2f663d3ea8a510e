package metric

import (
	"fmt"
	"math"
)

// The two tasks.
const (
	CTR        = "ctr"
	Regression = "regression"
)

// Clip keeps log loss finite: probabilities count as at least Clip and at
// most 1-Clip. A float32 sigmoid reaches 1 exactly from a logit of 17 on.
const Clip = 1e-7

// Accumulator counts a stream of predictions. Its memory is bounded, some
// 128 KiB for each octave of scores met. Not safe for concurrent use.
type Accumulator struct {
	task     string
	examples uint64
	invalid  uint64 // examples whose prediction is not finite, or absurdly large
	right    uint64 // ctr: on the right side of 1/2
	scores   histogram
	// Sums over the valid examples.
	logLoss, squares, distances, labels, preds fixed
	// Of a regression: the squares of labels, and how many were too large to be added.
	labelSquares fixed
	unsquared    uint64
}

// NewAccumulator starts counting for a task, CTR or Regression.
func NewAccumulator(task string) *Accumulator { return &Accumulator{task: task} }

// Add counts predictions with their labels.
//
// Preconditions: len(preds) == len(labels).
func (a *Accumulator) Add(preds, labels []float32) {
	if len(preds) != len(labels) {
		panic(fmt.Sprintf("metric: %d predictions for %d labels", len(preds), len(labels)))
	}
	a.examples += uint64(len(preds))
	for i, p := range preds {
		if a.task == Regression {
			a.addValue(float64(p), float64(labels[i]))
		} else {
			a.addProbability(p, labels[i] > 0.5)
		}
	}
}

func (a *Accumulator) addValue(pred, label float64) {
	// The square is the largest of the sums; where it fits, the others do.
	d := pred - label
	if !(math.Abs(pred) <= maxAddend) || !(math.Abs(label) <= maxAddend) || !a.squares.add(d*d) {
		a.invalid++
		return
	}
	a.distances.add(math.Abs(d))
	a.labels.add(label)
	if !a.labelSquares.add(label * label) {
		a.unsquared++
	}
	a.preds.add(pred)
}

func (a *Accumulator) addProbability(p float32, positive bool) {
	if !(p >= 0 && p <= 1) {
		a.invalid++
		return
	}
	a.scores.add(p, positive)
	a.preds.add(float64(p))
	distance := float64(p)
	if positive {
		distance = 1 - distance
	}
	a.distances.add(distance)
	a.squares.add(distance * distance)
	q := min(max(float64(p), Clip), 1-Clip)
	if positive {
		a.labels.hi++
		a.logLoss.add(-math.Log(q))
	} else {
		a.logLoss.add(-math.Log1p(-q))
	}
	if p > 0.5 == positive {
		a.right++
	}
}

// Merge adds what another accumulator has counted.
func (a *Accumulator) Merge(b *Accumulator) error {
	if a.task != b.task {
		return fmt.Errorf("metric: counts of task %q cannot be added to counts of task %q", b.task, a.task)
	}
	a.examples += b.examples
	a.invalid += b.invalid
	a.right += b.right
	b.scores.each(func(bucket int, c counts) {
		mine := a.scores.at(bucket)
		mine.positives += c.positives
		mine.negatives += c.negatives
	})
	mine := a.sums()
	for i, s := range b.sums() {
		mine[i].merge(*s)
	}
	a.labelSquares.merge(b.labelSquares)
	a.unsquared += b.unsquared
	return nil
}

func (a *Accumulator) sums() [5]*fixed {
	return [5]*fixed{&a.logLoss, &a.squares, &a.distances, &a.labels, &a.preds}
}
