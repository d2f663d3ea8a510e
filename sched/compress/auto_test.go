package compress

import (
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// line is a simulated worker: seconds of computing, of packing and unpacking the
// gradients by code, and of the link; computing and the link go on beside each other.
type line struct {
	compute, link float64
	work          [3]float64
	jitter        float64
}

func (l line) step(c Code, r *rand.Rand) float64 {
	size := [3]float64{1, .52, .28}[c]
	t := max(l.compute+l.work[c], l.link*size+l.work[c])
	return t * math.Exp(r.NormFloat64()*l.jitter)
}

// Over a fast link auto costs next to nothing; over a slow one it finds what is faster.
func TestAuto(t *testing.T) {
	r := seedtest.Rand(t)
	for name, c := range map[string]struct {
		l    line
		want Code
	}{
		"fast link":        {line{.1, .01, [3]float64{0, .004, .004}, 0}, Floats},
		"fast, jitter":     {line{.1, .01, [3]float64{0, .004, .004}, .1}, Floats},
		"dear codes":       {line{.1, .02, [3]float64{0, .2, .4}, .1}, Floats},
		"no difference":    {line{.1, .05, [3]float64{}, .1}, Floats},
		"slow link":        {line{.05, .2, [3]float64{0, .004, .004}, .1}, Byte},
		"slow, more noise": {line{.05, .2, [3]float64{0, .004, .004}, .3}, Byte},
		"half is enough":   {line{.1, .18, [3]float64{0, .002, .03}, .1}, Half},
	} {
		t.Run(name, func(t *testing.T) {
			const steps, runs = 6000, 8
			own, plain := 0.0, 0.0
			right := 0
			for range runs {
				var a Auto
				now := 0.0
				for range steps {
					took := c.l.step(a.Next(now), r)
					now += took
				}
				own += now
				for range steps {
					plain += c.l.step(Floats, r)
				}
				if a.Taken() == c.want {
					right++
				}
			}
			if own > plain*1.02 {
				t.Errorf("auto took %.1f s, no compression %.1f s", own, plain)
			}
			if right < runs-2 && name != "no difference" {
				t.Errorf("%v was found in %d of %d runs", c.want, right, runs)
			}
			if c.want != Floats && own > plain*.8 {
				t.Errorf("auto took %.1f s of %.1f s", own, plain)
			}
		})
	}
}

// A link that becomes fast again makes it go back.
func TestAutoGoesBack(t *testing.T) {
	r := seedtest.Rand(t)
	slow, fast := line{.05, .2, [3]float64{0, .01, .01}, .05}, line{.05, .005, [3]float64{0, .01, .01}, .05}
	var a Auto
	now := 0.0
	for range 3000 {
		now += slow.step(a.Next(now), r)
	}
	if a.Taken() == Floats {
		t.Fatal("nothing was found over a slow link")
	}
	for range 20000 {
		now += fast.step(a.Next(now), r)
	}
	if a.Taken() != Floats {
		t.Errorf("%v over a fast link", a.Taken())
	}
}
