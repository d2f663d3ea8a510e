package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  psrt version --json",
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(os.Stdout).Encode(map[string]string{"version": version, "commit": commit, "go": runtime.Version(), "arch": runtime.GOARCH})
			}
			fmt.Printf("psrt %s (%s, %s)\n", version, commit, runtime.Version())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return doc.GenManTree(c.Root(), &doc.GenManHeader{Title: "PSRT", Section: "1", Source: "psrt " + version}, args[0])
		},
	}
}
