package accessor

import (
	"fmt"

	"psrt/csrc/kernels"
)

// Mode is what a save is for.
type Mode int

// The modes. There is no mode 4.
const (
	ModeAll   Mode = 0 // everything
	ModeDelta Mode = 1 // for serving: what has changed enough
	ModeBase  Mode = 2 // for serving: what is worth it
	ModeDaily Mode = 3 // everything, once a day, after a shrink; a Day follows it
	ModeBatch Mode = 5 // everything: where to go back to from a batch
)

// Validate refuses a number that is no mode.
func (m Mode) Validate() error {
	switch m {
	case ModeAll, ModeDelta, ModeBase, ModeDaily, ModeBatch:
		return nil
	}
	return fmt.Errorf("lifecycle: save mode %d, must be 0 (all), 1 (delta), 2 (base), 3 (daily) or 5 (batch)", m)
}

// keeps says whether a save has a row.
func (l *life) keeps(m Mode, c *Counters) bool {
	if m != ModeDelta && m != ModeBase {
		return true
	}
	r := &l.rules
	return c.flags&kernels.Admitted != 0 && r.Score(c.Show, c.Click) >= r.BaseThreshold &&
		int64(c.UnseenDays) <= int64(r.DeltaKeepDays) && (m == ModeBase || c.DeltaScore >= r.DeltaThreshold)
}
