package accessor

import (
	"fmt"
	"math"

	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

// Flags of a row beside kernels.Admitted and kernels.Extended.
const (
	inSave    uint32 = 1 << 2 // the save that has begun has this row; pending is its delta_score
	served    uint32 = 1 << 3 // a good save has had this row
	flagsMask        = kernels.Admitted | kernels.Extended | inSave | served
)

// life is how rows of one table live.
type life struct {
	rules   table.Lifecycle
	parts   kernels.Parts
	history History
	graves  Graves
	gone    uint64
	lagging []uint32
	reborn  []uint32
}

func newLife(s table.Spec) *life {
	return &life{rules: *s.Lifecycle, parts: partsOf(s)}
}

// Counters are a row's words.
type Counters struct {
	Show, Click, DeltaScore float64
	// Pending is the delta_score that the save has which is not known to be good.
	Pending    float64
	Seq        uint32 // events taken in
	UnseenDays uint32
	Slot       uint32
	flags      uint32
}

// Admitted says whether the row's weights live at all.
func (c Counters) Admitted() bool { return c.flags&kernels.Admitted != 0 }

// Extended says whether the vector lives, too.
func (c Counters) Extended() bool { return c.flags&kernels.Extended != 0 }

// InSave says whether the save that has begun and not ended has the row.
func (c Counters) InSave() bool { return c.flags&inSave != 0 }

// Served says whether a save for serving that went well has had the row.
func (c Counters) Served() bool { return c.flags&served != 0 }

func word(w []float32, at int) uint32 { return math.Float32bits(w[at]) }

func putWord(w []float32, at int, v uint32) { w[at] = math.Float32frombits(v) }

func decodeCounters(w []float32) Counters {
	slot := word(w, kernels.LifeSlot)
	return Counters{
		Show: kernels.Counter(w[kernels.LifeShow:]), Click: kernels.Counter(w[kernels.LifeClick:]),
		DeltaScore: kernels.Counter(w[kernels.LifeDelta:]), Pending: kernels.Counter(w[kernels.LifePending:]),
		Seq: word(w, kernels.LifeSeq), UnseenDays: word(w, kernels.LifeUnseen), Slot: slot >> 8, flags: slot & 0xff,
	}
}

func (c *Counters) encode(w []float32) {
	kernels.PutCounter(w[kernels.LifeShow:], c.Show)
	kernels.PutCounter(w[kernels.LifeClick:], c.Click)
	kernels.PutCounter(w[kernels.LifeDelta:], c.DeltaScore)
	kernels.PutCounter(w[kernels.LifePending:], c.Pending)
	putWord(w, kernels.LifeSeq, c.Seq)
	putWord(w, kernels.LifeUnseen, c.UnseenDays)
	putWord(w, kernels.LifeSlot, c.Slot<<8|c.flags)
}

// begin writes the words of a new row.
func (l *life) begin(words []float32) {
	c := Counters{Seq: uint32(l.history.Len())}
	if l.parts.AdmitBy == kernels.AdmitAlways || l.parts.AdmitAt <= 0 {
		c.flags |= kernels.Admitted
		if l.rules.EmbedxThreshold <= 0 {
			c.flags |= kernels.Extended
		}
	}
	c.encode(words)
}

// check says what is wrong with words from outside, or nil.
func (l *life) check(words []float32) error {
	c := decodeCounters(words)
	for _, f := range []struct {
		name string
		v    float64
	}{{"show", c.Show}, {"click", c.Click}, {"delta_score", c.DeltaScore}, {"pending delta_score", c.Pending}} {
		if math.IsNaN(f.v) || math.IsInf(f.v, 0) {
			return fmt.Errorf("lifecycle: a row's %s is %v", f.name, f.v)
		}
	}
	if c.Show < 0 || c.Click < 0 {
		return fmt.Errorf("lifecycle: a row was shown %v times and clicked %v times", c.Show, c.Click)
	}
	if int64(c.Seq) > int64(l.history.Len()) {
		return fmt.Errorf("lifecycle: a row has seen %d events, the table's history has %d; restore the history before rows", c.Seq, l.history.Len())
	}
	if c.flags&^flagsMask != 0 {
		return fmt.Errorf("lifecycle: a row has flags %#x, known are %#x", c.flags, flagsMask)
	}
	return nil
}

// settle brings words up to date by the events they have missed, each with the
// arithmetic a sweep at its time would have done. It returns false if one of them
// ended the row: then the words stay as they were before that event, so that the
// row is found dead again.
func (l *life) settle(words []float32) (isAlive bool) {
	return l.settleTo(uint32(l.history.Len()), words)
}

// settleTo is settle by the first n events.
func (l *life) settleTo(n uint32, words []float32) (isAlive bool) {
	if word(words, kernels.LifeSeq) >= n {
		return true
	}
	c := decodeCounters(words)
	for ; c.Seq < n; c.Seq++ {
		if !l.take(&c, int(c.Seq)) {
			c.encode(words)
			return false
		}
	}
	c.encode(words)
	return true
}

// take applies event i to c, or returns false and leaves it where it ends the row.
func (l *life) take(c *Counters, i int) bool {
	r := &l.rules
	switch k := l.history.kinds[i]; k {
	case Day:
		c.UnseenDays++
	case Shrink:
		show, click := c.Show*r.ShowClickDecayRate, c.Click*r.ShowClickDecayRate
		if r.Score(show, click) < r.DeleteThreshold || int64(c.UnseenDays) > int64(r.DeleteAfterUnseenDays) {
			return false
		}
		c.Show, c.Click = show, click
	case Evict:
		return !(r.Score(c.Show, c.Click) < l.history.below(i))
	case CutDelta, CutBase:
		mode := ModeBase
		if k == CutDelta {
			mode = ModeDelta
		}
		if l.keeps(mode, c) {
			c.Pending, c.DeltaScore = c.DeltaScore, 0
			c.flags |= inSave
		}
	case Saved, Failed:
		if c.flags&inSave == 0 {
			break
		}
		if k == Failed {
			c.DeltaScore += c.Pending
		} else {
			c.flags |= served
		}
		c.Pending = 0
		c.flags &^= inSave
	}
	return true
}
