package settle

import "math"

// Evidence that ends a measurement. What is plain to see takes few windows, and what is
// much worse should not go on; a close call takes many.
const (
	early   = 4  // windows after which a difference of many errors is enough
	many    = 5  // standard errors; so few windows know theirs badly
	judged  = 16 // windows before a trial, and after which a difference of a few is enough
	few     = 2
	longest = 4 * judged // windows after which the mean is judged as it is
)

// tally is windows' measurements together, and how far the windows were from each other.
type tally struct {
	Window
	count   int     // of windows
	mean    float64 // of the windows' times of a step
	squares float64 // of their distances from it (Welford, Technometrics 4, 1962)
}

func (t *tally) add(w Window) {
	t.Window.add(w)
	t.count++
	from := w.each() - t.mean
	t.mean += from / float64(t.count)
	t.squares += from * (w.each() - t.mean)
}

// forget begins the measuring anew.
func (t *tally) forget() { *t = tally{} }

// variance is that of the mean.
func (t *tally) variance() float64 { return t.squares / float64(t.count-1) / float64(t.count) }

// verdict is what a trial has shown so far.
type verdict int

const (
	unknown verdict = iota // nothing yet
	less                   // steps take less
	notLess                // they do not
	alike                  // nobody can say, and it matters little
)

// less says whether a step takes less than this part of what it took before.
func (t *tally) less(before *tally, part float64) verdict {
	if t.count < early || before.count < early {
		return unknown
	}
	by := before.each()*part - t.each()
	errors := math.Abs(by) / math.Sqrt(t.variance()+part*part*before.variance())
	switch {
	case errors > many, t.count >= judged && errors > few, t.count >= longest && by > 0:
		if by > 0 {
			return less
		}
		return notLess
	case t.count >= longest:
		return alike
	}
	return unknown
}
