package yamlkeys

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is one that a struct has no field for.
type Key struct {
	Name         string
	Line, Column int // from 1
	Known        []string
}

func (k *Key) Error() string {
	return fmt.Sprintf("key %q is unknown%s; known are %s", k.Name, Meant(k.Name, k.Known), strings.Join(k.Known, ", "))
}

// unknown finds the first key that is no field of t, at any depth; nil: all are.
func unknown(n *yaml.Node, t reflect.Type) *Key {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, c := range n.Content {
			if k := unknown(c, t.Elem()); k != nil {
				return k
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Tag == "!!merge" {
				continue
			}
			field, names := fieldOf(t, key.Value)
			if field == nil {
				return &Key{Name: key.Value, Line: key.Line, Column: key.Column, Known: names}
			}
			if k := unknown(n.Content[i+1], field); k != nil {
				return k
			}
		}
	}
	return nil
}

// fieldOf is the type of a struct's field, nil where there is none; names are all of them.
func fieldOf(t reflect.Type, key string) (field reflect.Type, names []string) {
	for f := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(f).Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		names = append(names, name)
		if name == key {
			field = t.Field(f).Type
		}
	}
	return field, names
}

// Meant is ", did you mean X" for the nearest of names, if one is near.
func Meant(word string, names []string) string {
	if best := Nearest(word, names); best != "" {
		return fmt.Sprintf(", did you mean %q?", best)
	}
	return ""
}

// Nearest returns the one of names that word was probably meant to be, "" for none: the fewest
// edits, whatever the case.
func Nearest(word string, names []string) string {
	best, distance := "", 1+len(word)/2
	for _, name := range names {
		if d := edits(strings.ToLower(word), strings.ToLower(name)); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
