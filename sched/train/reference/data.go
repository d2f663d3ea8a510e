package reference

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"psrt/sched/dataset"
)

// Example is one labelled example.
type Example struct {
	Label    float64
	Features []Feature
}

// Feature is one occurrence.
type Feature struct {
	Field int
	Key   uint64
	Value float64
}

// FromBatch takes examples out of the trainer's form.
func FromBatch(b *dataset.Batch) []Example {
	out := make([]Example, b.Len())
	for i := range out {
		out[i].Label = float64(b.Labels[i])
		for j := b.Offsets[i]; j < b.Offsets[i+1]; j++ {
			out[i].Features = append(out[i].Features, Feature{Field: int(b.Fields[j]), Key: b.Keys[j], Value: float64(b.Values[j])})
		}
	}
	return out
}

// ParseLibFFM reads lines of `label field:id:value`.
func ParseLibFFM(r io.Reader) ([]Example, error) {
	var out []Example
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		label, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return nil, fmt.Errorf("reference: line %d: label %q: %w", n, words[0], err)
		}
		e := Example{Label: label}
		for _, word := range words[1:] {
			f, err := parseFeature(word)
			if err != nil {
				return nil, fmt.Errorf("reference: line %d: %q is not field:id:value: %w", n, word, err)
			}
			e.Features = append(e.Features, f)
		}
		out = append(out, e)
	}
	return out, lines.Err()
}

func parseFeature(word string) (f Feature, err error) {
	field, rest, _ := strings.Cut(word, ":")
	key, value, _ := strings.Cut(rest, ":")
	if f.Field, err = strconv.Atoi(field); err != nil {
		return f, err
	}
	if f.Key, err = strconv.ParseUint(key, 10, 64); err != nil {
		return f, err
	}
	f.Value, err = strconv.ParseFloat(value, 64)
	return f, err
}
