package clock

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Mode is how stale reads of a table may be: 0 is BSP, Async ASP, a bound SSP. Where
// Least is below Most the bound moves between them; see Adapt.
type Mode struct{ Least, Most int }

// Fixed is the mode with one bound.
func Fixed(staleness int) Mode { return Mode{staleness, staleness} }

// mostSteps bounds what ParseMode takes: a worker so far behind has no part in the model.
const mostSteps = 1 << 20

// ParseMode reads bsp, asp, ssp:N or ssp:MIN-MAX.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "bsp":
		return Fixed(0), nil
	case "asp":
		return Fixed(Async), nil
	}
	if steps, ok := strings.CutPrefix(s, "ssp:"); ok {
		return ParseBound(steps)
	}
	return Mode{}, fmt.Errorf("clock: %q is none of bsp, asp, ssp:N and ssp:MIN-MAX", s)
}

// ParseBound reads N or MIN-MAX.
func ParseBound(s string) (Mode, error) {
	low, high, two := strings.Cut(s, "-")
	if !two {
		high = low
	}
	least, err := strconv.ParseUint(low, 10, 31)
	most, err2 := strconv.ParseUint(high, 10, 31)
	m := Mode{int(least), int(most)}
	if err != nil || err2 != nil || m.Check() != nil || two && least == most {
		return Mode{}, fmt.Errorf("clock: %q is no staleness: want a number of steps up to %d, or the least and the most, as in 1-8", s, mostSteps)
	}
	return m, nil
}

// Check refuses what no Parse gives.
func (m Mode) Check() error {
	if m == Fixed(Async) || m.Least >= 0 && m.Least <= m.Most && m.Most <= mostSteps {
		return nil
	}
	return fmt.Errorf("clock: a staleness of %d to %d steps, want 0 to %d, the least first, or %d for none", m.Least, m.Most, mostSteps, Async)
}

// BSP says whether updates of a step are held back until it is whole.
func (m Mode) BSP() bool { return m.Most == 0 }

// Moves says whether the bound does.
func (m Mode) Moves() bool { return m.Least < m.Most }

// String is what ParseMode reads.
func (m Mode) String() string {
	switch {
	case m.Most < 0:
		return "asp"
	case m.BSP():
		return "bsp"
	}
	return "ssp:" + m.Steps()
}

// Steps is what ParseBound reads.
func (m Mode) Steps() string {
	if m.Moves() {
		return fmt.Sprintf("%d-%d", m.Least, m.Most)
	}
	return strconv.Itoa(m.Most)
}

// MarshalText is String.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseMode.
func (m *Mode) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMode(string(b))
	return err
}

// ByTable is modes by the names of tables.
type ByTable map[string]Mode

// String is what --table-sync reads.
func (t ByTable) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		all = append(all, name+"="+t[name].String())
	}
	return strings.Join(all, ",")
}
