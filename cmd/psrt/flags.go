package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// flagError adds the nearest right flag to an unknown one.
func flagError(c *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return usagef("unknown flag --%s%s; see psrt %s --help", unknown.GetSpecifiedName(), nearest(c, unknown.GetSpecifiedName()), c.Name())
	}
	return usagef("%w; see psrt %s --help", err, c.Name())
}

// nearest says which flag was probably meant.
func nearest(c *cobra.Command, name string) string {
	best, bestDistance := "", 4
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if d := distance(name, f.Name); !f.Hidden && d < bestDistance {
			best, bestDistance = f.Name, d
		}
	})
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean --%s?)", best)
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// applyConfig sets the flags that the YAML file names and the command line
// does not.
func applyConfig(c *cobra.Command, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return usagef("--config: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(b, &node); err != nil {
		return usagef("--config %s: %w", path, err)
	}
	if len(node.Content) == 0 {
		return nil
	}
	m := node.Content[0]
	if m.Kind != yaml.MappingNode {
		return usagef("--config %s:%d: want lines `flag: value`", path, m.Line)
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		f := c.Flags().Lookup(key.Value)
		if f == nil || f.Hidden || f.Name == "config" {
			return usagef("--config %s:%d: unknown key %q%s", path, key.Line, key.Value, strings.ReplaceAll(nearest(c, key.Value), "--", ""))
		}
		if f.Changed {
			continue
		}
		text := value.Value
		if value.Kind == yaml.SequenceNode {
			var parts []string
			for _, v := range value.Content {
				parts = append(parts, v.Value)
			}
			text = strings.Join(parts, ",")
		}
		if err := c.Flags().Set(f.Name, text); err != nil {
			return usagef("--config %s:%d: %s: %w", path, value.Line, key.Value, err)
		}
	}
	return nil
}

// bytesValue is a size such as 512MiB.
type bytesValue int64

var units = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}, {"", 1}}

func (b *bytesValue) Set(s string) error {
	for _, u := range units {
		if digits, ok := strings.CutSuffix(s, u.suffix); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
			if err != nil || f < 0 || f*float64(u.factor) > 1<<62 {
				return fmt.Errorf("%q is not a size such as 512MiB or 2GiB", s)
			}
			*b = bytesValue(f * float64(u.factor))
			return nil
		}
	}
	return fmt.Errorf("%q is not a size", s)
}

func (b *bytesValue) String() string {
	for _, u := range []int{3, 2, 1, 0} {
		if v := int64(*b); v != 0 && v%units[u].factor == 0 {
			return strconv.FormatInt(v/units[u].factor, 10) + units[u].suffix
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d bytes", n)
}

func (b *bytesValue) Type() string { return "bytes" }

// choice is a flag with a closed set of values.
type choice struct {
	value   string
	allowed []string
}

func newChoice(value string, allowed ...string) *choice { return &choice{value, allowed} }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}
func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

// paths splits comma lists.
func paths(s string) []string {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
