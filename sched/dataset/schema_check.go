package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"psrt/sched/yamlkeys"
)

var (
	columnKinds = []string{"numeric", "categorical", "multi", "label", "ignored"}
	transforms  = []string{"none", "log", "standardize", "bucketize"}
)

// Validate says what is wrong with a schema and what would be right.
func (s *Schema) Validate() error {
	if len(s.Columns) == 0 {
		return fmt.Errorf("schema has no columns; list them with name and kind")
	}
	if len(s.separator()) > 8 || strings.ContainsAny(s.separator(), "\"\n\r") {
		return fmt.Errorf("separator %q: must be 1 to 8 bytes without quotes and line ends", s.Separator)
	}
	if _, err := s.header(); err != nil {
		return err
	}
	if s.Rest != "" && s.Rest != "ignored" {
		return fmt.Errorf("rest: %q, must be \"ignored\" or absent", s.Rest)
	}
	seen := make(map[string]bool)
	labels, features := 0, 0
	for i := range s.Columns {
		c := &s.Columns[i]
		if c.Name == "" {
			return fmt.Errorf("column %d has no name", i+1)
		}
		if seen[c.Name] {
			return fmt.Errorf("two columns are named %q", c.Name)
		}
		seen[c.Name] = true
		if err := c.validate(); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
		switch c.Kind {
		case "label":
			labels++
		case "ignored":
		default:
			features++
		}
	}
	switch {
	case labels != 1:
		return fmt.Errorf("schema has %d columns of kind label, must have one", labels)
	case features == 0:
		return fmt.Errorf("schema has no column to learn from; give some the kind numeric, categorical or multi")
	case features > maxFields:
		return fmt.Errorf("schema has %d feature columns, at most %d are possible", features, maxFields)
	}
	return nil
}

func (c *Column) validate() error {
	if !slices.Contains(columnKinds, c.Kind) {
		return fmt.Errorf("kind %q is unknown%s; known are %s", c.Kind, yamlkeys.Meant(c.Kind, columnKinds), strings.Join(columnKinds, ", "))
	}
	if c.Transform != "" && !slices.Contains(transforms, c.Transform) {
		return fmt.Errorf("transform %q is unknown%s; known are %s", c.Transform, yamlkeys.Meant(c.Transform, transforms), strings.Join(transforms, ", "))
	}
	foreign := func(given bool, key, kind string) error {
		if given && c.Kind != kind {
			return fmt.Errorf("%s belongs to columns of kind %s, this one is %s", key, kind, c.Kind)
		}
		return nil
	}
	for _, err := range []error{
		foreign(c.Transform != "", "transform", "numeric"),
		foreign(c.Mean != nil || c.Std != nil, "mean/std", "numeric"),
		foreign(c.Boundaries != nil || c.Buckets != 0, "boundaries/buckets", "numeric"),
		foreign(c.Separator != "" || c.Weight != "", "separator/weight", "multi"),
		foreign(c.Positive != nil || c.Negative != nil || c.PositiveAbove != nil, "positive/negative", "label"),
	} {
		if err != nil {
			return err
		}
	}
	for _, x := range append([]*float64{c.Mean, c.Std, c.PositiveAbove}, pointers(c.Boundaries)...) {
		if x != nil && (math.IsNaN(*x) || math.IsInf(*x, 0)) {
			return fmt.Errorf("%v among mean, std, boundaries, positive_above; they must be finite", *x)
		}
	}
	switch {
	case c.Std != nil && !(*c.Std > 0):
		return fmt.Errorf("std is %v, must be above 0", *c.Std)
	case !slices.IsSorted(c.Boundaries) || len(c.Boundaries) > maxBuckets:
		return fmt.Errorf("boundaries must ascend, and be at most %d", maxBuckets)
	case c.Buckets < 0 || c.Buckets > maxBuckets:
		return fmt.Errorf("buckets is %d, must be 2 to %d", c.Buckets, maxBuckets)
	case c.Transform == "bucketize" && c.Boundaries == nil && c.Buckets < 2:
		return fmt.Errorf("bucketize needs boundaries: [..] or buckets: N with N of 2 or more")
	case c.Weight != "" && c.Weight != "mean" && c.Weight != "one":
		return fmt.Errorf("weight %q is unknown; known are mean (1/n for each of n values) and one", c.Weight)
	case c.PositiveAbove != nil && (c.Positive != nil || c.Negative != nil):
		return fmt.Errorf("give positive_above or positive/negative, not both")
	case c.Negative != nil && c.Positive == nil:
		return fmt.Errorf("negative without positive; name the cells that mean 1 too")
	}
	return nil
}

func pointers(s []float64) []*float64 {
	p := make([]*float64, len(s))
	for i := range s {
		p[i] = &s[i]
	}
	return p
}

const maxBuckets = 1 << 16

func (s *Schema) separator() string {
	switch s.Separator {
	case "":
		return ","
	case "tab", `\t`:
		return "\t"
	case "space":
		return " "
	}
	return s.Separator
}

func (s *Schema) trim() bool { return s.Trim == nil || *s.Trim }

// header is "yes", "no" or "auto".
func (s *Schema) header() (string, error) {
	switch strings.ToLower(s.Header) {
	case "true", "yes":
		return "yes", nil
	case "false", "no":
		return "no", nil
	case "", "auto":
		return "auto", nil
	}
	return "", fmt.Errorf("header: %q, must be true, false or auto", s.Header)
}

// headerOpen reports whether the first line of each file says if it is a header.
func (s *Schema) headerOpen() bool {
	mode, err := s.header()
	return err == nil && mode == "auto"
}

// clone copies what sniffing fills in, so that the caller's schema stays his.
func (s *Schema) clone() *Schema {
	t := *s
	t.Columns = slices.Clone(s.Columns)
	return &t
}
