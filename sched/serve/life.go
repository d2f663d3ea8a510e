package serve

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"psrt/tiers/table"
)

// readLifecycle takes the settings of docs/lifecycle.md; nothing, or {}, is all
// defaults.
func readLifecycle(n *yaml.Node) (*table.Lifecycle, error) {
	l := table.DefaultLifecycle()
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return &l, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, at(n, "lifecycle is %s, want lines `setting: value`, or {} for all defaults", kindOf(n))
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, at(n, "lifecycle: %v", err)
	}
	got, err := table.ParseLifecycle(text)
	if err != nil {
		return nil, at(n, "%s", strings.Join(strings.Fields(err.Error()), " "))
	}
	return got, nil
}

// lives says whether any table has a lifecycle.
func (t *Tables) lives() bool {
	return slices.ContainsFunc(t.Specs, func(s table.Spec) bool { return s.Lifecycle != nil })
}

// noteLives tells what holds for the tables that have one, once.
func (s *Server) noteLives() {
	for _, t := range s.cfg.Tables.Specs {
		if t.Lifecycle != nil {
			s.cfg.Log("table " + t.Name + ": lifecycle: " + t.Effective())
		}
	}
}
