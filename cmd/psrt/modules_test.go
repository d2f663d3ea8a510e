package main

import (
	"os"
	"strings"
	"testing"
)

// One YAML library reads schemas and --config: two would differ in what they
// take for a number or a key. What other modules bring for themselves reads
// nothing of ours.
func TestOneYAMLLibrary(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "yaml") && !strings.HasSuffix(strings.TrimSpace(line), "// indirect") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	if len(found) != 1 {
		t.Errorf("go.mod requires %d YAML libraries, want one: %q", len(found), found)
	}
}
