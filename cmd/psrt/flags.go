package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"psrt/cmd/internal/cli"
)

// applyConfig sets the flags that the YAML file names and the command line
// does not.
func applyConfig(c *cobra.Command, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return cli.Usagef("--config: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(b, &node); err != nil {
		return cli.Usagef("--config %s: %w", path, err)
	}
	if len(node.Content) == 0 {
		return nil
	}
	m := node.Content[0]
	if m.Kind != yaml.MappingNode {
		return cli.Usagef("--config %s:%d: want lines `flag: value`", path, m.Line)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		f := c.Flags().Lookup(key.Value)
		if f == nil || f.Hidden || f.Name == "config" {
			return cli.Usagef("--config %s:%d: unknown key %q%s", path, key.Line, key.Value, strings.ReplaceAll(cli.NearestFlag(c, key.Value), "--", ""))
		}
		if before, twice := lines[f.Name]; twice {
			return cli.Usagef("--config %s:%d: %s is there already, in line %d: leave one of them out", path, key.Line, f.Name, before)
		}
		lines[f.Name] = key.Line
		if f.Changed {
			continue
		}
		text, err := flagText(f, value)
		if err != nil {
			return cli.Usagef("--config %s:%d: %s: %w", path, value.Line, key.Value, err)
		}
		if text == nil {
			continue
		}
		if err := c.Flags().Set(f.Name, *text); err != nil {
			return cli.Usagef("--config %s:%d: %s: %s", path, value.Line, key.Value, wrongValue(f, *text, err))
		}
		if err := cli.GivenFlag(f); err != nil {
			return cli.Usagef("--config %s:%d: %w", path, value.Line, err)
		}
	}
	return checkPaths(c, nil)
}

// flagText is a value of a configuration as it is written behind a flag; nil leaves the flag
// out.
func flagText(f *pflag.Flag, value *yaml.Node) (*string, error) {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	text := value.Value
	switch {
	case value.Kind == yaml.SequenceNode:
		parts, err := scalars(value.Content)
		if err != nil {
			return nil, err
		}
		text = strings.Join(parts, ",")
	case value.Kind == yaml.MappingNode && strings.Contains(f.Value.Type(), "="): // NAME=VALUE,...
		parts, err := scalars(value.Content)
		if err != nil {
			return nil, err
		}
		var pairs []string
		for i := 0; i+1 < len(parts); i += 2 {
			pairs = append(pairs, parts[i]+"="+parts[i+1])
		}
		text = strings.Join(pairs, ",")
	case value.Kind == yaml.MappingNode:
		return nil, fmt.Errorf("want one value, or a list, not names with values")
	case value.Tag == "!!null":
		return nil, fmt.Errorf("there is no value: give one, or leave the line out")
	case value.Tag == "!!bool" && f.Value.Type() == "string" && f.NoOptDefVal != "":
		// The flag may stand without a value.
		yes := false
		if err := value.Decode(&yes); err != nil || !yes {
			return nil, err
		}
		text = f.NoOptDefVal
	}
	return &text, nil
}

// scalars are the values of a list that has no lists in it.
func scalars(nodes []*yaml.Node) (texts []string, err error) {
	for _, v := range nodes {
		if v.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("want plain values in it, line %d has none", v.Line)
		}
		texts = append(texts, v.Value)
	}
	return texts, nil
}

// wrongValue says why a flag does not take a value, without Go's words for it.
func wrongValue(f *pflag.Flag, text string, err error) string {
	var number *strconv.NumError
	kind := f.Value.Type()
	switch wrong := (*pflag.InvalidValueError)(nil); {
	case kind == "duration":
		return fmt.Sprintf("%q is no time such as 10s or 5m", text)
	case kind == "bool":
		return fmt.Sprintf("%q is neither true nor false", text)
	case errors.As(err, &number) && errors.Is(err, strconv.ErrRange):
		return fmt.Sprintf("%q is out of range", text)
	case errors.As(err, &number) && strings.HasPrefix(kind, "float"):
		return fmt.Sprintf("%q is no number", text)
	case errors.As(err, &number):
		return fmt.Sprintf("%q is no whole number", text)
	case errors.As(err, &wrong):
		return fmt.Sprintf("%q: %v", text, errors.Unwrap(wrong))
	}
	return err.Error()
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
