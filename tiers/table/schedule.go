package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"psrt/csrc/decimal"
)

// Schedule says when what a Lifecycle describes is done during training: psrt train
// reads it from the same file.
type Schedule struct {
	// Day is when a day ends: DayPass, after a duration ("1h"), or after a number
	// of examples ("1000000").
	Day string `yaml:"day" json:"day"`
	// ShrinkEvery and ServingEvery are days; 0 is never.
	ShrinkEvery  int `yaml:"shrink_every" json:"shrink_every"`
	ServingEvery int `yaml:"serving_every" json:"serving_every"`
	// ServingBaseEvery is how many saves for serving a base comes after, counting
	// itself: 1 is bases only.
	ServingBaseEvery int    `yaml:"serving_base_every" json:"serving_base_every"`
	ServingQuantize  string `yaml:"serving_quantize" json:"serving_quantize"`
}

// DayPass is a day that ends with each pass over the data.
const DayPass = "pass"

// DefaultSchedule is what holds where a file says nothing.
func DefaultSchedule() Schedule {
	return Schedule{Day: DayPass, ShrinkEvery: 1, ServingEvery: 1, ServingBaseEvery: 7}
}

// Length is the length of a day in examples or in time; both 0 is a pass.
func (s *Schedule) Length() (examples int64, every time.Duration) {
	examples, err := strconv.ParseInt(s.Day, 10, 64)
	if err == nil {
		return examples, 0
	}
	every, _ = time.ParseDuration(s.Day)
	return 0, every
}

// Validate says what is wrong with it, or nil.
func (s *Schedule) Validate() error {
	if examples, every := s.Length(); s.Day != DayPass && examples <= 0 && every <= 0 {
		return fmt.Errorf("lifecycle: day %q, must be %s, a time above 0 such as 1h, or a number of examples above 0", s.Day, DayPass)
	}
	for _, f := range []struct {
		name        string
		v, least    int
		unit, never string
	}{{"shrink_every", s.ShrinkEvery, 0, "days", " (0 = never)"}, {"serving_every", s.ServingEvery, 0, "days", " (0 = never)"},
		{"serving_base_every", s.ServingBaseEvery, 1, "saves", " (1 = bases only)"}} {
		if f.v < f.least || f.v > maxEvery {
			return fmt.Errorf("lifecycle: %s %d, must be %d to %d %s%s", f.name, f.v, f.least, maxEvery, f.unit, f.never)
		}
	}
	switch s.ServingQuantize {
	case "", "fp16", "int8":
		return nil
	}
	return fmt.Errorf("lifecycle: serving_quantize %q, must be fp16, int8 or nothing (weights as they are)", s.ServingQuantize)
}

const maxEvery = 1 << 20

// ParseAccessor reads what ParseLifecycle does, and a schedule beside it.
func ParseAccessor(text []byte) (*Lifecycle, Schedule, error) {
	s := DefaultSchedule()
	given, err := oneDocument(text)
	if err != nil {
		return nil, s, err
	}
	mine := map[string]any{}
	for name := range fields(s) {
		if v, isGiven := given[name]; isGiven {
			mine[name] = v
			delete(given, name)
		}
	}
	if d, isGiven := mine["day"]; isGiven {
		mine["day"] = fmt.Sprint(d) // a number of examples is a word, too
	}
	l := DefaultLifecycle()
	for _, part := range []struct {
		of map[string]any
		to any
	}{{given, &l}, {mine, &s}} {
		b, err := json.Marshal(part.of)
		if err == nil {
			err = strictJSON(b, part.to)
		}
		if err != nil {
			return nil, s, plainly(err)
		}
	}
	if err := s.Validate(); err != nil {
		return nil, s, err
	}
	return &l, s, l.validate(Optimizer{})
}

// oneDocument is a file's names and values; none of an empty file.
func oneDocument(text []byte) (map[string]any, error) {
	if len(text) > maxLifecycleBytes {
		return nil, fmt.Errorf("lifecycle: settings of %d bytes, at most %d", len(text), maxLifecycleBytes)
	}
	var given map[string]any
	d, root := yaml.NewDecoder(bytes.NewReader(text)), yaml.Node{}
	err := d.Decode(&root)
	if err == nil {
		if n := notDecimal(&root); n != nil {
			return nil, fmt.Errorf("lifecycle: line %d: %s is not a decimal number; write it with digits, a point and an exponent alone, and no leading zero", n.Line, n.Value)
		}
		err = root.Decode(&given)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("lifecycle: this is no list of `name: value` in YAML or JSON: %w", oneLine(err))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("lifecycle: settings of more than one document; leave out what follows `---`")
	}
	return given, refuseZeros(given)
}

// notDecimal finds a number that YAML takes and people may mean otherwise, such as 1_000, 0x10 or 010, which is eight for YAML.
func notDecimal(n *yaml.Node) *yaml.Node {
	tag := n.ShortTag()
	if n.Kind == yaml.ScalarNode && (tag == "!!int" || tag == "!!float") && !decimal.IsPlain(n.Value) && !strings.ContainsAny(n.Value, "nN") {
		return n
	}
	for _, c := range n.Content {
		if found := notDecimal(c); found != nil {
			return found
		}
	}
	return nil
}

// oneLine is an error without line breaks.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
}

// plainly is what JSON has against settings, in the words of who wrote them.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("lifecycle: %s is a %s, want a value of type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if _, name, isUnknown := strings.Cut(err.Error(), "unknown field "); isUnknown {
		return fmt.Errorf("lifecycle: there is no setting %s; docs/lifecycle.md lists them: %s", name, strings.Join(settings(), ", "))
	}
	return fmt.Errorf("lifecycle: %s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "lifecycle: "), "json: "))
}

// settings are the names that a file may have.
func settings() (names []string) {
	for _, v := range []any{Lifecycle{}, Schedule{}} {
		for name := range fields(v) {
			names = append(names, name)
		}
	}
	return names
}

// String lists what holds, as Spec.Effective does.
func (s Schedule) String() string {
	var out []string
	for name, v := range fields(s) {
		if v != "" {
			out = append(out, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return strings.Join(out, " ")
}
