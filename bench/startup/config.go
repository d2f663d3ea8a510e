package startup

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"psrt/bench/cable"
	"psrt/bench/child"
)

// ErrNoLink: this machine, or this user, cannot have hosts of its own.
var ErrNoLink = cable.ErrNoLink

// Parts of a run.
const (
	Launch    = "launch"
	Preflight = "preflight"
)

// Parts are all of them.
var Parts = []string{Launch, Preflight}

// Config of one run.
type Config struct {
	Parts            []string
	Servers, Workers int // of the job that psrt starts itself
	Hosts            int // of the preflight, a rank on each
	Rounds           int
	Seed             uint64
	Dir              string // of the data; what is in it is the caller's to remove

	// Psrt is the program that is measured.
	Psrt child.Command
	// Part is the program again: with a role as its last argument it must call
	// ServePart.
	Part child.Command
}

const (
	maxRanks  = 64
	maxHosts  = 64
	maxRounds = 100
	// examples of the data: they are the batch, so that an epoch is a step.
	examples = 1024
	fields   = 8
	// patience is with one job. It takes seconds; a machine may be busy with others.
	patience = 5 * time.Minute

	launchBar    = 1500 * time.Millisecond
	preflightBar = 2 * time.Second
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("start: "+format, args...) }
	if len(c.Parts) == 0 {
		return bad("no part, want some of %v", Parts)
	}
	for i, p := range c.Parts {
		if !slices.Contains(Parts, p) || slices.Contains(c.Parts[:i], p) {
			return bad("part %q, want some of %v, each once", p, Parts)
		}
	}
	for _, x := range []struct {
		what           string
		v, least, most int
	}{
		{"servers", c.Servers, 1, maxRanks},
		{"workers", c.Workers, 1, maxRanks},
		{"hosts", c.Hosts, 2, maxHosts},
		{"rounds", c.Rounds, 1, maxRounds},
	} {
		if x.v < x.least || x.v > x.most {
			return bad("%d %s, want %d to %d", x.v, x.what, x.least, x.most)
		}
	}
	if c.Psrt.Path == "" {
		return bad("no psrt to start; name the program")
	}
	return nil
}

func (c *Config) data() string  { return filepath.Join(c.Dir, "data.libffm") }
func (c *Config) token() string { return filepath.Join(c.Dir, "token") }

// args are of a job of one step.
func (c *Config) args(servers, workers int) []string {
	return append(slices.Clone(c.Psrt.Args), "train", "--data", c.data(), "--model", "fm", "--dim", "4", "--batch", fmt.Sprint(examples), "--epochs", "1",
		"--sync", "bsp", "--seed", fmt.Sprint(c.Seed), "--servers", fmt.Sprint(servers), "--workers", fmt.Sprint(workers), "--threads", "1", "--json")
}
