package serve

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"psrt/tiers/policy"
)

// checkStorage refuses what rows on disks cannot be.
func (c *Config) checkStorage() error {
	s := c.Storage
	switch {
	case s == nil && c.Tables != nil && len(c.Tables.Memory) > 0:
		return &InputError{Path: "--tables", Msg: "tables with `memory:` are for rows on disks; give --ssd, or leave memory out"}
	case s == nil:
		return nil
	case len(s.Dirs) == 0:
		return errors.New("serve: rows on disks without a directory")
	case c.MaxBytes <= 0:
		return &InputError{Path: "--ssd", Msg: "rows on disks need a bound of the memory; give --mem-budget"}
	case c.NewTables || c.Tables == nil:
		return &InputError{Path: "--ssd", Msg: "the memory is shared out among the tables at the start; describe all of them in --tables, and leave --new-tables out"}
	}
	s.Memory = c.Tables.Memory
	return policy.Check(s.Policy)
}

// sizes are the units of a size in the tables file.
var sizes = []struct {
	unit  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"", 1}}

// size reads bytes such as 512MiB.
func size(to *int64, what string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		for _, u := range sizes {
			digits, found := strings.CutSuffix(n.Value, u.unit)
			v, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
			if found && err == nil && n.Kind == yaml.ScalarNode && v > 0 && v <= (1<<50)/u.bytes {
				*to = v * u.bytes
				return nil
			}
		}
		return at(n, "%s", fmt.Sprintf("%s is %s, want bytes such as 512MiB or 4GiB", what, kindOf(n)))
	}
}
