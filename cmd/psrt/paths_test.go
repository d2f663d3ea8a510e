package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/tiers/ckpt"
)

// refusedArgs runs a command line in this process that must be refused as bad usage,
// with all of want in the error.
func refusedArgs(t *testing.T, args string, want ...string) {
	t.Helper()
	root := newRoot()
	root.SetArgs(strings.Fields(args))
	err := root.Execute()
	var bad interface{ BadInput() bool }
	if !errors.As(err, &bad) || !bad.BadInput() {
		t.Errorf("psrt %s: %v, want bad usage", args, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("psrt %s: %v, want %q", args, err, w)
		}
	}
}

func putFile(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// TestOutputsSpoilNothing: no output replaces what the same command reads or writes.
func TestOutputsSpoilNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	putFile(t, "data/a.libffm", "1 0:1:1\n0 0:2:1\n")
	putFile(t, "model/MANIFEST.json", "")
	putFile(t, "s.yaml", "")
	for link, to := range map[string]string{"link": "data", "b.libffm": "data/a.libffm"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link("data/a.libffm", "hard"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"train --data data --out data", "what is read would be written over"},
		{"train --data data --out link", "what is read would be written over"},
		{"train --data data --out data/model", "among the data"},
		{"train --data data --out link/x/y", "among the data"},
		{"train --data data/a.libffm --out data", "the data lie in"},
		{"train --data data/a.libffm --out ./data/../data", "the data lie in"},
		{"train --data b.libffm --out data", "the data lie in"},
		{"train --data s.yaml --test data --out data/m", "among the data"},
		{"train --data s.yaml --valid data --checkpoint data/c", "among the data"},
		{"train --data s.yaml --valid data --serving data", "written over"},
		{"train --data data/* --json=data/r.json", "match the pattern"},
		{"train --data data --report data/r.html", "among the data"},
		{"train --data data/a.libffm --report hard", "written over"},
		{"train --data data/a.libffm --trace b.libffm", "written over"},
		{"train --data data/a.libffm --schema s.yaml --json=s.yaml", "written over"},
		{"train --data data --out m --checkpoint m", "both would be written"},
		{"train --data data --checkpoint c --serving c/", "both would be written"},
		{"train --data data --checkpoint s3://b/x --serving s3://b/x", "both would be written"},
		{"train --data data --json=r --report ./r", "both would be written"},
		{"train --data data --tensorboard m --out m", "both would be written"},
		{"train --data data --json=model/MANIFEST.json --out model", "a file of the model"},
		{"eval --model model --data data --json=data/a.libffm", "among the data"},
		{"eval --model model --data data/a.libffm --json=hard", "written over"},
		{"eval --model model --data data --json=model/MANIFEST.json", "a file of the model"},
		{"predict --model model --data data/a.libffm --out hard", "written over"},
		{"predict --model model --data data --out scores --json=scores", "both would be written"},
		{"predict --model model --data data --emit e --out e.ids.npy", "both would be written"},
		{"export --checkpoint model --out model", "what is read would be written over"},
		{"export --checkpoint model@2 --out model", "what is read would be written over"},
		{"export --checkpoint model/sub --out model", "what is read lies in"},
		{"export --checkpoint model --out data --data data", "written over"},
		{"import --text data --out data", "written over"},
		{"import --text data --out data/m", "among the data"},
		{"gen criteo --out x --json=x", "both would be written"},
		{"serve --token-file s.yaml --ready-file s.yaml", "written over"},
		{"checkpoint ls model --json=model/MANIFEST.json", "a file of the model"},
		{"plan s.yaml --json=s.yaml", "written over"},
	} {
		refusedArgs(t, c.args, c.want)
	}
	// What is fine is not refused: checkPaths alone is asked, nothing runs.
	for _, args := range []string{
		"train --data data --out model --report model/report.html --json --config s.yaml",
		"train --data data/a.libffm --out new/model --checkpoint new/model/ck --serving new/served",
		"train --data data --report /dev/null --json=/dev/null --trace /dev/null",
		"train --data data --checkpoint s3://b/x --serving s3://b/y",
		"train --data data/a.libffm --checkpoint data",
		"serve --load model --save model --ssd /tmp --pmem x",
		"eval --model model --data data --json=model/eval.json",
		"export --checkpoint model --out model/serving",
	} {
		root := newRoot()
		c, rest, err := root.Find(strings.Fields(args))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err == nil {
			err = checkPaths(c, c.Flags().Args())
		}
		if err != nil {
			t.Errorf("psrt %s: %v", args, err)
		}
	}
	putFile(t, "job.yaml", "data: data\nout: data/model\n")
	refusedArgs(t, "train --config job.yaml", "among the data")
}

// TestOutIsForModels: a model is put where nothing else is taken for it.
func TestOutIsForModels(t *testing.T) {
	t.Chdir(t.TempDir())
	putFile(t, "a.libffm", "1 0:1:1\n0 0:2:1\n")
	putFile(t, "tables.yaml", "tables: [{name: a, dim: 2, rule: sgd}]\n")
	putFile(t, "token", strings.Repeat("x", 32))
	putFile(t, "export/EXPORT.json", "")
	putFile(t, "foreign/notes.txt", "")
	putFile(t, "history/HEAD", "")
	for dir, want := range map[string]string{"export": "holds an export", "foreign": "has notes.txt in it", "history": "holds the history"} {
		refusedArgs(t, "train --data a.libffm --out "+dir, "--out: ", want)
		refusedArgs(t, "import --text missing --out "+dir, "--out: ", want)
		refusedArgs(t, "serve --token-file token --tables tables.yaml --listen 127.0.0.1:0 --save "+dir, "--save: ", want)
	}
	if made, err := filepath.Glob("*/.*"); err != nil || len(made) > 0 {
		t.Errorf("%v was made, %v", made, err)
	}
}

// TestSchemes: an address is refused by every flag that takes a path, and no flag with
// text in it is forgotten.
func TestSchemes(t *testing.T) {
	t.Chdir(t.TempDir())
	// What takes text that is no path of this machine.
	other := []string{"at", "audit-run", "checkpoint-compress", "checkpoint-every", "coordinator", "device", "emit-fields", "emit-id", "fields", "host-label", "host",
		"dense-device", "hbm-device", "interface", "listen", "live", "metrics", "metrics-by", "numa", "pass", "peers", "pipe-command", "rack", "rendezvous", "run", "split"}
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			all(sub)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			use := pathOf(c, f)
			if use == 0 {
				if f.Value.Type() == "string" && !slices.Contains(other, f.Name) {
					t.Errorf("%s --%s takes text: is it a path? then put it into flagPaths, else into this test", c.CommandPath(), f.Name)
				}
				return
			}
			place := slices.Contains(placeFlags, f.Name)
			for _, name := range []string{"hdfs://node/x", "gs://b/x", "file:///tmp/x", "s3://b/x"} {
				if err := f.Value.Set(name); err != nil {
					t.Fatal(err)
				}
				err := checkPaths(c, nil)
				if fine := place && strings.HasPrefix(name, "s3:"); fine != (err == nil) || err != nil && !strings.Contains(err.Error(), "--"+f.Name+" "+name) {
					t.Errorf("%s --%s %s: %v", c.CommandPath(), f.Name, name, err)
				}
			}
			if err := f.Value.Set(""); err != nil {
				t.Fatal(err)
			}
		})
	}
	all(newRoot())
	for _, args := range []string{"export verify s3://b/x", "audit s3://b/x", "plan s3://b/x", "man s3://b/x", "checkpoint ls hdfs://n/x", "checkpoint diff s3://b/x gs://n/x"} {
		refusedArgs(t, args, "://")
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v was made, %v", made, err)
	}
	if !ckpt.IsDirectory("s3:/x") {
		t.Error("s3:/x is no address")
	}
}
