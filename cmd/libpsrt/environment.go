package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"psrt/sched/kv"
)

// envStallAfter is a configuration's stall_after where that says nothing: for who runs
// a trainer and cannot change it.
const envStallAfter = "PSRT_STALL_AFTER"

// envAudit is likewise a configuration's audit.
const envAudit = "PSRT_AUDIT"

// envRead is likewise a configuration's read.
const envRead = "PSRT_READ"

// envHotRows is likewise a configuration's hot_rows, and with a colon its hot_staleness.
const envHotRows = "PSRT_HOT_ROWS"

// environment adds to a client's configuration what its process is told beside. A library does
// not write to its host's output unless somebody asks it to.
func environment(cfg *kv.Config, get func(string) string) error {
	if text := get(envStallAfter); text != "" && cfg.StallAfter == 0 && !cfg.Has("stall_after") {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return &kv.Error{Code: kv.BadConfig, Err: fmt.Errorf("%s is %q, want a time such as 10s, or 0: never", envStallAfter, text)}
		}
		cfg.StallAfter = kv.Duration(d)
	}
	if cfg.Audit == "" && !cfg.Has("audit") {
		cfg.Audit = get(envAudit)
	}
	if text := get(envRead); text != "" && cfg.Read == "" {
		if text != kv.ReadHead && text != kv.ReadAny {
			return &kv.Error{Code: kv.BadConfig, Err: fmt.Errorf("%s is %q, want %s or %s", envRead, text, kv.ReadHead, kv.ReadAny)}
		}
		cfg.Read = text
	}
	if text := get(envHotRows); text != "" && cfg.HotRows == 0 && !cfg.Has("hot_rows") {
		rows, steps, said := strings.Cut(text, ":")
		n, err := strconv.Atoi(rows)
		old := 0
		if said && err == nil {
			old, err = strconv.Atoi(steps)
		}
		if err != nil || n < 1 || said && old < 1 {
			return &kv.Error{Code: kv.BadConfig, Err: fmt.Errorf("%s is %q, want a number of rows such as 10000, or rows and steps such as 10000:4, each at least 1", envHotRows, text)}
		}
		cfg.HotRows, cfg.HotStaleness = n, max(old, cfg.HotStaleness)
	}
	cfg.Say = func(line string) { fmt.Fprintln(os.Stderr, "psrt: "+line) }
	return nil
}
