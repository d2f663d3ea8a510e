package ibperf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Result is one line of a tool's table.
type Result struct {
	Bytes, Iterations int
	// Of a latency test, in microseconds.
	Min, Typical, Avg, P99 float64
	// Of a bandwidth test: GB/s (1e9 bytes), and million messages a second.
	Peak, Average, Rate float64
}

// ErrOutput marks output without the table.
var ErrOutput = errors.New("ibperf: the output holds no table that is understood")

// errZero marks a table of zeros.
var errZero = fmt.Errorf("%w: it is all zeros", ErrOutput)

// columns by the names in a table's heading, which differ between versions in
// blanks and brackets only.
var columns = map[string]func(*Result) *float64{
	"t_min[usec]":     func(r *Result) *float64 { return &r.Min },
	"t_typical[usec]": func(r *Result) *float64 { return &r.Typical },
	"t_avg[usec]":     func(r *Result) *float64 { return &r.Avg },
	"99%":             func(r *Result) *float64 { return &r.P99 },
	"peak[gb/sec]":    func(r *Result) *float64 { return &r.Peak },
	"average[gb/sec]": func(r *Result) *float64 { return &r.Average },
	"msgrate[mpps]":   func(r *Result) *float64 { return &r.Rate },
}

// parse reads the table of a tool run with --report_gbits.
func parse(out io.Reader) (Result, error) {
	var heading []string
	for s := bufio.NewScanner(out); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if strings.HasPrefix(line, "#bytes") {
			heading = names(line)
			continue
		}
		if heading == nil || line == "" {
			continue
		}
		cells := strings.Fields(line)
		if len(cells) < len(heading) {
			continue // a warning between heading and figures
		}
		return row(heading, cells)
	}
	return Result{}, ErrOutput
}

// names of the columns. "BW peak[Gb/sec]" is one column, as are "99% percentile[usec]".
func names(line string) []string {
	line = strings.ToLower(line)
	for _, word := range []string{"bw "} {
		line = strings.ReplaceAll(line, word, "")
	}
	line = strings.ReplaceAll(line, "99% percentile[usec]", "99%")
	line = strings.ReplaceAll(line, "99.9% percentile[usec]", "99.9%")
	return strings.Fields(line)
}

func row(heading, cells []string) (r Result, err error) {
	if r.Bytes, err = strconv.Atoi(cells[0]); err == nil {
		r.Iterations, err = strconv.Atoi(cells[1])
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrOutput, err)
	}
	found := 0
	for i, name := range heading {
		field := columns[name]
		if field == nil {
			continue
		}
		if *field(&r), err = strconv.ParseFloat(cells[i], 64); err != nil {
			return r, fmt.Errorf("%w: column %s: %w", ErrOutput, name, err)
		}
		found++
	}
	r.Peak, r.Average = r.Peak/8, r.Average/8 // bits
	if found >= 3 && r.Typical == 0 && r.Average == 0 {
		return r, errZero
	}
	if found < 3 {
		return r, fmt.Errorf("%w: heading %q", ErrOutput, strings.Join(heading, " "))
	}
	return r, nil
}
