package report

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Change is one row that both reports have.
type Change struct {
	Op       string
	Bytes    int
	Unit     string
	Old, New float64 // microseconds (median) or GB/s (average)
	// Speed is the new speed over the old: 1 is as before, less is slower.
	Speed  float64
	Slower bool // by more than the tolerance
}

// Comparison of two reports.
type Comparison struct {
	Unit      string // "" where rows are of both kinds
	Tolerance float64
	Changes   []Change
	// Missing counts rows of the old report that the new one has not.
	Missing int
}

// Slower counts the rows that are slower by more than the tolerance.
func (c *Comparison) Slower() int {
	n := 0
	for _, ch := range c.Changes {
		if ch.Slower {
			n++
		}
	}
	return n
}

// Compare sets now beside old. tolerance 0.1 allows 10 % less speed. The two
// must be of one suite and transport and have a row in common.
func Compare(old, now *Report, tolerance float64) (*Comparison, error) {
	if old.Suite != now.Suite || old.Transport != now.Transport {
		return nil, fmt.Errorf("the old report is of %s over %s, this one of %s over %s; compare like with like",
			old.Suite, old.Transport, now.Suite, now.Transport)
	}
	c := &Comparison{Tolerance: tolerance}
	rows := now.byName()
	for i := range old.Rows {
		was := &old.Rows[i]
		is := rows[name{was.Op, was.Bytes}]
		if is == nil {
			c.Missing++
			continue
		}
		ch := Change{Op: was.Op, Bytes: was.Bytes, Unit: "GB/s"}
		switch {
		case was.Latency != nil && is.Latency != nil:
			ch.Unit = "us"
			ch.Old, ch.New = was.Latency.Typical, is.Latency.Typical
			ch.Speed = ch.Old / ch.New
		case was.Bandwidth != nil && is.Bandwidth != nil:
			ch.Old, ch.New = was.Bandwidth.Avg, is.Bandwidth.Avg
			ch.Speed = ch.New / ch.Old
		}
		if !(ch.Old > 0 && ch.New > 0) {
			return nil, fmt.Errorf("%s of %d bytes: figures %g and %g cannot be compared; measure the old report again", ch.Op, ch.Bytes, ch.Old, ch.New)
		}
		ch.Slower = ch.Speed < 1-tolerance
		c.Changes = append(c.Changes, ch)
	}
	if len(c.Changes) == 0 {
		return nil, fmt.Errorf("the old report has none of this run's rows; give the same --sizes")
	}
	c.Unit = c.Changes[0].Unit
	for _, ch := range c.Changes {
		if ch.Unit != c.Unit {
			c.Unit = ""
			break
		}
	}
	return c, nil
}

// name is what a row is found by.
type name struct {
	op    string
	bytes int
}

// byName finds rows; of several with one name the first.
func (r *Report) byName() map[name]*Row {
	rows := make(map[name]*Row, len(r.Rows))
	for i := range r.Rows {
		n := name{r.Rows[i].Op, r.Rows[i].Bytes}
		if rows[n] == nil {
			rows[n] = &r.Rows[i]
		}
	}
	return rows
}

// maxUnchanged is up to how many rows those that are no slower are shown, too.
const maxUnchanged = 100

// Text writes the comparison for people.
func (c *Comparison) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	unit := ""
	if c.Unit != "" {
		unit = "[" + c.Unit + "]"
	}
	fmt.Fprintf(t, "op\tbytes\told%s\tnew%s\tspeed\t\t\n", unit, unit)
	for _, ch := range c.Changes {
		mark := ""
		if ch.Slower {
			mark = "SLOWER"
		} else if len(c.Changes) > maxUnchanged {
			continue
		}
		f := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", ch.Op, ch.Bytes, f(ch.Old), f(ch.New), f(ch.Speed), mark)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if c.Missing > 0 {
		if _, err := fmt.Fprintf(w, "%d rows of the old report were not measured now\n", c.Missing); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d rows slower than before by more than %g %%\n", c.Slower(), len(c.Changes), 100*c.Tolerance)
	return err
}
