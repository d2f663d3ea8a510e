package ckpt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Layouts is what parts cover, once for all that cover the same: slots are
// scattered over lanes, and every table has the same lanes. In a file of a
// history it stands for the parts' Covers: first to last, the latter included, as
// "0-3,5,9-12".

// packed is the manifest as it is in a file.
func (m *Manifest) packed() *Manifest {
	if !m.ofHistory() {
		return m
	}
	p := *m
	p.Parts, p.Layouts = slices.Clone(m.Parts), nil
	known := map[string]int{}
	for i := range p.Parts {
		s := spellRanges(p.Parts[i].Covers)
		at, ok := known[s]
		if !ok {
			at = len(p.Layouts)
			known[s], p.Layouts = at, append(p.Layouts, s)
		}
		p.Parts[i].Covers, p.Parts[i].Layout = nil, &at
	}
	return &p
}

// unpack is packed's inverse. Parts share their ranges.
func (m *Manifest) unpack() error {
	if !m.ofHistory() {
		if m.Layouts != nil {
			return fmt.Errorf("format %d has layouts", m.Format)
		}
		return nil
	}
	layouts := make([][]Range, len(m.Layouts))
	for i, s := range m.Layouts {
		var err error
		if layouts[i], err = parseRanges(s); err != nil {
			return fmt.Errorf("layout %d: %w", i, err)
		}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Layout == nil || *p.Layout < 0 || *p.Layout >= len(layouts) || p.Covers != nil {
			return fmt.Errorf("part %s has none of the %d layouts", p.File, len(layouts))
		}
		p.Covers, p.Layout = layouts[*p.Layout], nil
	}
	m.Layouts = nil
	return nil
}

func spellRanges(ranges []Range) string {
	var b []byte
	for _, r := range ranges {
		if r.First >= r.Last {
			continue // covers nothing
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, r.First, 10)
		if r.Last-1 > r.First {
			b = strconv.AppendInt(append(b, '-'), r.Last-1, 10)
		}
	}
	return string(b)
}

func parseRanges(s string) ([]Range, error) {
	if s == "" {
		return nil, nil
	}
	ranges := make([]Range, 0, strings.Count(s, ",")+1)
	for one := range strings.SplitSeq(s, ",") {
		first, last, both := strings.Cut(one, "-")
		if !both {
			last = first
		}
		// 62 bits, so that one more is no overflow.
		a, err := strconv.ParseUint(first, 10, 62)
		b, err2 := strconv.ParseUint(last, 10, 62)
		if err != nil || err2 != nil || b < a {
			return nil, fmt.Errorf("%q is no range", one)
		}
		ranges = append(ranges, Range{int64(a), int64(b) + 1})
	}
	return ranges, nil
}
