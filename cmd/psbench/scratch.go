package main

import (
	"os"
	"strings"

	"psrt/cmd/internal/cli"
)

// scratch makes a folder in each of the named directories; remove takes them
// away again, with what is in them.
func scratch(dirs, prefix string) (made []string, remove func(), err error) {
	remove = func() {
		for _, d := range made {
			_ = os.RemoveAll(d) // what cannot be removed is seen in the directory
		}
	}
	if dirs == "" {
		return nil, nil, cli.Usagef("--dirs is missing: name a directory on each disk to measure, such as --dirs /ssd/a,/ssd/b")
	}
	for _, dir := range strings.Split(dirs, ",") {
		d, err := os.MkdirTemp(dir, prefix)
		if err != nil {
			remove()
			return nil, nil, cli.Usagef("--dirs: %w", err)
		}
		made = append(made, d)
	}
	return made, remove, nil
}
