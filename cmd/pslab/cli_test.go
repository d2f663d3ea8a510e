package main

import (
	"bytes"
	"strings"
	"testing"

	"psrt/cmd/internal/cli"
)

// TestMistakes are command lines that are refused before any machine is booted.
func TestMistakes(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"run":                            {cli.Usage, "no command given"},
		"exec --numa":                    {cli.Usage, "no command given"},
		"test":                           {cli.Usage, "no package given"},
		"run --timout 3s -- true":        {cli.Usage, "--timeout"},
		"run --accel xen -- true":        {cli.Usage, "auto, kvm, tcg"},
		"run --memory much -- true":      {cli.Usage, "not a size"},
		"run --share /no/such -- true":   {cli.Usage, "not a folder"},
		"run --vm --memory 64M -- true":  {cli.Failed, "512"},
		"run --numa --cpus 3 true":       {cli.Failed, "even number"},
		"bot":                            {cli.Usage, "unknown command"},
		"test ./no/such/package/at/all/": {cli.Failed, "no/such/package"},
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(line))
		var said bytes.Buffer
		root.SetOut(&said)
		root.SetErr(&said)
		if code := cli.Exit(&said, "pslab", root.Execute()); code != want.code || !strings.Contains(said.String(), want.says) {
			t.Errorf("pslab %s: code %d, %q; want %d and %q in it", line, code, said.String(), want.code, want.says)
		}
	}
}

// TestCommandsFlagsAreItsOwn: what follows the program is not for pslab.
func TestCommandsFlagsAreItsOwn(t *testing.T) {
	c := newExec()
	if err := c.ParseFlags([]string{"--numa", "prog", "--timeout", "-test.v"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Flags().Args(), " "); got != "prog --timeout -test.v" {
		t.Errorf("the command is %q", got)
	}
}
