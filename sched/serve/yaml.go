package serve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"psrt/csrc/decimal"
)

// InputError is a fault in what the user gave: the file's line, the value, the
// remedy.
type InputError struct {
	Path string
	Line int // 0: the file as a whole
	Msg  string
}

func (e *InputError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Path, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Msg)
}

// BadInput says that the user's input is at fault.
func (e *InputError) BadInput() bool { return true }

// at makes an error of a node; the path is filled in by ParseTables.
func at(n *yaml.Node, format string, args ...any) error {
	return &InputError{Line: n.Line, Msg: fmt.Sprintf(format, args...)}
}

// field reads the value of one key.
type field struct {
	name string
	read func(*yaml.Node) error
}

// mapping reads a node whose keys are fields; others, and any of them twice, are
// refused.
func mapping(n *yaml.Node, what string, fields ...field) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "%s is %s, want lines `key: value`", what, kindOf(n))
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		j := slices.Index(names, key.Value)
		if j < 0 {
			return at(key, "%s has no key %q; known are %s", what, key.Value, strings.Join(names, ", "))
		}
		if line := seen[key.Value]; line > 0 {
			return at(key, "%s: %s is there twice, first in line %d; leave one out", what, key.Value, line)
		}
		seen[key.Value] = key.Line
		if err := fields[j].read(n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func sequence(n *yaml.Node, what string, each func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return at(n, "%s is %s, want a list: lines that begin with -", what, kindOf(n))
	}
	for _, c := range n.Content {
		if err := each(c); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "empty"
	}
	return strconv.Quote(n.Value)
}

func text(to *string, what string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			return at(n, "%s is %s, want a word", what, kindOf(n))
		}
		*to = n.Value
		return nil
	}
}

// whole reads an integer in [low, high].
func whole[T int | int64 | uint32 | uint64](to *T, what string, low, high T) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		v, err := strconv.ParseUint(n.Value, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || v < uint64(low) || v > uint64(high) {
			return at(n, "%s is %s, want a whole number from %d to %d", what, kindOf(n), low, high)
		}
		*to = T(v)
		return nil
	}
}

// real reads a float32 that is finite and not negative; its limits are those of
// table.Spec.
func real(to *float32, what string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		v, err := decimal.Float(n.Value, 32)
		if n.Kind != yaml.ScalarNode || err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return at(n, "%s is %s, want a number such as 0.05, not negative", what, kindOf(n))
		}
		*to = float32(v)
		return nil
	}
}
