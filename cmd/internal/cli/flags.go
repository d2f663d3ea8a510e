package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/csrc/decimal"
)

// FlagError adds the nearest right flag to an unknown one.
func FlagError(c *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return Usagef("unknown flag --%s%s; see %s --help", unknown.GetSpecifiedName(), NearestFlag(c, unknown.GetSpecifiedName()), c.CommandPath())
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		if want := wanted(bad); want != "" {
			return Usagef("--%s %s: want %s; see %s --help", bad.GetFlag().Name, quoted(bad.GetValue()), want, c.CommandPath())
		}
	}
	return Usagef("%w; see %s --help", err, c.CommandPath())
}

// wanted says what a flag of one of pflag's own kinds takes, whose errors are those of
// package strconv; "" of the others, which say it themselves.
func wanted(bad *pflag.InvalidValueError) string {
	kind, large := bad.GetFlag().Value.Type(), errors.Is(bad, strconv.ErrRange)
	switch {
	case large && strings.Contains(kind, "int"):
		return "a number that is not so large"
	case strings.HasPrefix(kind, "int"):
		return "a whole number, such as 4"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number from 0 on, such as 4"
	case strings.HasPrefix(kind, "float"):
		return "a number, such as 0.05"
	case kind == "duration":
		return "a time with its unit, such as 30s, 5m or 1h30m"
	case kind == "bool":
		return "true or false"
	}
	return ""
}

func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n") {
		return strconv.Quote(s)
	}
	return s
}

// NearestFlag says in brackets which flag was probably meant, or nothing.
func NearestFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if best := Nearest(name, names); best != "" {
		return fmt.Sprintf(" (did you mean --%s?)", best)
	}
	return ""
}

// Nearest is the one of names that name is probably a typo of, or "".
func Nearest(name string, names []string) string {
	best, bestDistance := "", 4
	for _, n := range names {
		if d := distance(name, n); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
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

// DecimalFlags has the number flags of a command, and of those below it, take decimal numbers
// alone: package pflag also takes 1_000, 0x10, and 010 for eight.
func DecimalFlags(c *cobra.Command) {
	for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if _, already := f.Value.(decimalValue); already {
				return
			}
			switch f.Value.Type() {
			case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "float32", "float64":
				f.Value = decimalValue{f.Value}
			}
		})
	}
	for _, below := range c.Commands() {
		DecimalFlags(below)
	}
}

// decimalValue is a number flag that takes decimal numbers alone.
type decimalValue struct{ pflag.Value }

func (v decimalValue) Set(s string) error {
	is := decimal.IsWhole(s)
	if strings.HasPrefix(v.Type(), "float") {
		is = decimal.Is(s) || !strings.ContainsAny(s, "_xXpP") // NaN and Inf are refused with the flag's limits
	} else if is { // 010 is ten
		sign := s[:len(s)-len(strings.TrimLeft(s, "+-"))]
		if digits := strings.TrimLeft(s[len(sign):], "0"); digits != "" {
			s = sign + digits
		} else {
			s = "0"
		}
	}
	if !is {
		return &strconv.NumError{Func: "Parse", Num: s, Err: strconv.ErrSyntax}
	}
	return v.Value.Set(s)
}

// Bytes is a flag for a size such as 512MiB.
type Bytes int64

var units = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}, {"", 1}}

func (b *Bytes) Set(s string) error {
	for _, u := range units {
		if digits, ok := strings.CutSuffix(s, u.suffix); ok {
			f, err := decimal.Float(strings.TrimSpace(digits), 64)
			if err != nil || !(f >= 0 && f*float64(u.factor) <= 1<<62) {
				return fmt.Errorf("%q is not a size such as 512MiB or 2GiB", s)
			}
			*b = Bytes(f * float64(u.factor))
			return nil
		}
	}
	return fmt.Errorf("%q is not a size", s)
}

func (b *Bytes) String() string {
	for _, u := range []int{3, 2, 1, 0} {
		if v := int64(*b); v != 0 && v%units[u].factor == 0 {
			return strconv.FormatInt(v/units[u].factor, 10) + units[u].suffix
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

func (b *Bytes) Type() string { return "bytes" }

// Choice is a flag with a closed set of values.
type Choice struct {
	Value   string
	allowed []string
}

// NewChoice makes one; value is the default.
func NewChoice(value string, allowed ...string) *Choice { return &Choice{value, allowed} }

func (c *Choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.named(), ", "))
	}
	c.Value = s
	return nil
}
func (c *Choice) String() string { return c.Value }
func (c *Choice) Type() string   { return strings.Join(c.named(), "|") }

// named are the values that can be written: "" stands for the flag left out.
func (c *Choice) named() []string {
	return slices.DeleteFunc(slices.Clone(c.allowed), func(s string) bool { return s == "" })
}

// Whole is a flag for a whole number from 0 on.
type Whole uint64

func (w *Whole) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("must be a whole number from 0 to %d", uint64(math.MaxUint64))
	}
	*w = Whole(n)
	return nil
}

func (w *Whole) String() string { return strconv.FormatUint(uint64(*w), 10) }

func (w *Whole) Type() string { return "uint" }
