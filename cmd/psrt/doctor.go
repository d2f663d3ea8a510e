package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"psrt/sched/doctor"
)

func newDoctor() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "doctor", Short: "What this machine offers, and what would make it faster",
		Long: `One line for each thing that psrt can use: ok, warn or missing, the figure, and the
command that mends it. Nothing is changed.`,
		Example: `  psrt doctor
  psrt doctor --json`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	c.RunE = func(c *cobra.Command, _ []string) error {
		found := doctor.Here()
		if asJSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{"findings": found})
		}
		for _, f := range found {
			line := fmt.Sprintf("%-8s %-40s %s", f.State, f.Name, f.Figure)
			if f.Mend != "" {
				line += "; try: " + f.Mend
			}
			fmt.Fprintln(c.OutOrStdout(), line)
		}
		return nil
	}
	return c
}
