package schedtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden transcripts anew")

func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.script")
	if err != nil || len(scripts) < 5 {
		t.Fatal(scripts, err)
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".script"), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Run(string(script))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(got, "BROKEN") {
				t.Error(got)
			}
			golden := strings.TrimSuffix(path, ".script") + ".golden"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("transcript is\n%s\nwant\n%s\n(go test -rewrite writes it anew)", got, want)
			}
		})
	}
}

func TestBadScripts(t *testing.T) {
	const lane = "lane workers=2 staleness=0 leaves=2\n"
	for script, says := range map[string]string{
		"dance":                               "line 1: dance: no such command",
		"pull 0 0":                            "no lane yet",
		lane + "pull 0":                       "line 2: pull 0: 1 arguments, want 2",
		lane + "pull 2 0":                     "there are 2 workers",
		lane + "pull x 0":                     "invalid syntax",
		lane + "push 0 0 1 x":                 "invalid syntax",
		"lane workers=3 staleness=0 leaves=2": "use at most 2 workers",
		"lane workers=x staleness=0 leaves=2": "invalid syntax",
		"key 0":                               "no servers yet",
		"servers":                             "0 arguments, want 1",
		"servers a":                           "invalid syntax",
		"servers 1xx":                         "invalid syntax",
		"servers 1 1":                         "two servers have ID 1",
		"servers 1\nkey -1":                   "invalid syntax",
	} {
		if _, err := Run(script); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", script, err, says)
		}
	}
}
