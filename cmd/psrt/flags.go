package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
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
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		f := c.Flags().Lookup(key.Value)
		if f == nil || f.Hidden || f.Name == "config" {
			return cli.Usagef("--config %s:%d: unknown key %q%s", path, key.Line, key.Value, strings.ReplaceAll(cli.NearestFlag(c, key.Value), "--", ""))
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
			return cli.Usagef("--config %s:%d: %s: %w", path, value.Line, key.Value, err)
		}
	}
	return nil
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
