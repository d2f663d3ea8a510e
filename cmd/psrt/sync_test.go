package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// Tables have modes of their own: dense values in step and rows that are not; both in bsp
// are the job in bsp; and a bound that moves stays within what it was given.
func TestTableSync(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "train.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", "20000", "--fields", "6", "--vocab", "300", "--seed", "3", "--out", data); o.code != 0 {
		t.Fatal(o.stderr)
	}
	run := func(args string) (res train.Result, rows, dense psmsg.SyncStats) {
		t.Helper()
		o := psrt(t, append([]string{"train", "--data", data, "--model", "deepfm", "--hidden", "16", "--dim", "8", "--batch", "200", "--servers", "2", "--workers", "3", "--threads", "1", "--quiet", "--json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || o.code != 0 {
			t.Fatalf("%s: exit %d: %v: %s", args, o.code, err, o.stderr)
		}
		if len(res.TableSync) != 2 {
			t.Fatalf("%s: of tables %+v", args, res.TableSync)
		}
		for _, s := range res.TableSync {
			if s.Table == train.DenseTable {
				dense = s
			} else {
				rows = s
			}
		}
		if got := rows.Seen.Pulls() + dense.Seen.Pulls(); got != res.StalenessSeen.Pulls() {
			t.Errorf("%s: %d pulls by table, %d in all", args, got, res.StalenessSeen.Pulls())
		}
		return res, rows, dense
	}
	bsp, _, _ := run("--sync bsp")
	if both, rows, dense := run("--table-sync embedding=bsp,dense=bsp"); both.Digest != bsp.Digest || rows.Mode != "bsp" || dense.Mode != "bsp" {
		t.Errorf("both tables in bsp, %+v and %+v, give another model than the job in bsp", rows, dense)
	}
	if _, rows, dense := run("--table-sync dense=bsp"); len(dense.Seen) != 1 || dense.Mode != "bsp" || rows.Mode != "asp" || rows.Seen.Pulls() == 0 {
		t.Errorf("dense values in bsp were stale by %v, rows by %v", dense.Seen, rows.Seen)
	}
	if _, rows, dense := run("--sync bsp --table-sync embedding=ssp:2"); len(dense.Seen) != 1 || rows.Mode != "ssp:2" || len(rows.Seen) > 3 {
		t.Errorf("rows were stale by %v (ssp:2), dense values by %v (bsp)", rows.Seen, dense.Seen)
	}
	if _, rows, dense := run("--sync ssp --staleness 0 --table-sync embedding=asp"); len(dense.Seen) != 1 || rows.Mode != "asp" {
		t.Errorf("a staleness of 0 is bsp: dense values were stale by %v, rows are in %s", dense.Seen, rows.Mode)
	}
	if res, rows, dense := run("--sync ssp --staleness 0-3"); rows.Mode != "ssp:0-3" || max(len(rows.Seen), len(dense.Seen)) > 4 || rows.Bound > 3 || *res.Staleness != 3 {
		t.Errorf("a bound of 0 to 3: %+v, %+v", rows, dense)
	}
}

func TestTableSyncFlags(t *testing.T) {
	data := write(t, t.TempDir(), "train.libffm", rows(200, 1))
	for _, c := range []struct{ args, says string }{
		{"--table-sync rows=bsp", "no such table"},
		{"--table-sync dense", "want TABLE=MODE"},
		{"--table-sync dense=sometimes", "none of bsp, asp, ssp:N"},
		{"--table-sync dense=ssp:3-1", "is no staleness"},
		{"--sync ssp --staleness 3-1", "is no staleness"},
		{"--staleness 1-3", "staleness 3 is for --sync ssp"},
		{"--staleness -1", "is no staleness"},
		{"--table-sync dense=bsp --dense allreduce --workers 2", "never stale there"},
		{"--table-sync embedding=bsp --hot-rows 10", "every pull of bsp"},
	} {
		if o := psrt(t, append([]string{"train", "--data", data}, strings.Fields(c.args)...)...); o.code != 2 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, o.code, c.says, o.stderr)
		}
	}
}
