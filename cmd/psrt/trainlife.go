package main

import (
	"os"

	"psrt/cmd/internal/cli"
	"psrt/tiers/table"
)

// readLifecycle reads the settings of --accessor.
func readLifecycle(path string) (*table.Lifecycle, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Usagef("--accessor: %w", err)
	}
	l, err := table.ParseLifecycle(text)
	if err != nil {
		return nil, cli.Usagef("--accessor %s: %w", path, err)
	}
	return l, nil
}
