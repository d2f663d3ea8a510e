package yamlkeys

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"psrt/csrc/decimal"
)

// Decode reads text into a pointer to a struct, where what text leaves out stays as it is.
// It gives io.EOF where there is nothing to read, a *Key where there is one too many, and
// else an error in the words of the file.
func Decode(text []byte, into any) error {
	var root yaml.Node
	switch err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&root); {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return errors.New("not YAML: " + plain(err))
	}
	if k := unknown(root.Content[0], reflect.TypeOf(into)); k != nil {
		return k
	}
	if n, t := notDecimal(root.Content[0], reflect.TypeOf(into)); n != nil {
		return fmt.Errorf("line %d: there is %q where %s should be", n.Line, n.Value, wanted(t.String()))
	}
	if err := root.Decode(into); err != nil {
		return errors.New(plain(err))
	}
	return nil
}

// notDecimal finds a number that YAML takes and people do not mean: 1_000, 0x10, 010 for eight, and
// 1.7 where a whole number should be, which would become 1. t is the type of n.
func notDecimal(n *yaml.Node, t reflect.Type) (*yaml.Node, reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()) {
		return nil, nil // it reads what it likes
	}
	switch {
	case n.Kind == yaml.ScalarNode && !written(n, t):
		return n, t
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, c := range n.Content {
			if bad, t := notDecimal(c, t.Elem()); bad != nil {
				return bad, t
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if field, _ := fieldOf(t, n.Content[i].Value); field != nil {
				if bad, t := notDecimal(n.Content[i+1], field); bad != nil {
					return bad, t
				}
			}
		}
	}
	return nil, nil
}

// written reports whether a scalar is written as numbers of type t are, if t is a number and the
// scalar is one for YAML: all else is for the decoder to judge.
func written(n *yaml.Node, t reflect.Type) bool {
	tag := n.ShortTag()
	if t == reflect.TypeFor[time.Duration]() || tag != "!!int" && tag != "!!float" {
		return true
	}
	switch kind := t.Kind(); {
	case kind == reflect.Float32 || kind == reflect.Float64:
		return decimal.IsPlain(n.Value) || strings.ContainsAny(n.Value, "nN") // not .inf and .nan, which have messages of their own
	case kind < reflect.Int || kind > reflect.Uint64:
		return true
	}
	if decimal.IsWhole(n.Value) {
		return decimal.IsPlain(n.Value) // whatever its size: the decoder bounds it
	}
	x, err := decimal.Float(n.Value, 64)
	return err == nil && x == math.Trunc(x)
}
