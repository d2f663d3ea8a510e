package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"psrt/rdma/feature"
	"psrt/sched/train"
)

var rewrite = flag.Bool("rewrite", false, "write docs/support.md anew")

// supportRows is the length of the data of one run.
const supportRows = 4000

// supportMemory is for a server's rows and the buffers of its disks (1.7 MiB), too little
// for all rows.
const supportMemory = 2700 << 10

// cell is where a feature is tried.
type cell struct{ transport, tier, sync string }

func (c cell) String() string { return c.transport + "/" + c.tier + "/" + c.sync }

// The flags of each tier and sync mode, in the order of the page. DIR is a run's own.
var (
	transports = []string{"shm", "tcp", "quic", "verbs"}
	tierNames  = []string{"memory", "ssd", "hbm"}
	tierFlags  = map[string]string{"memory": "", "ssd": "--ssd DIR/rows --mem-budget BUDGET", "hbm": "--hbm-budget 1MiB --hbm-device host"}
	syncNames  = []string{"bsp", "ssp", "asp"}
	syncAs     = map[string]string{"bsp": "--sync bsp", "ssp": "--sync ssp --staleness 3", "asp": "--sync asp"}
)

// supported is one feature: flags that ask for it, and what shows that it was there.
type supported struct {
	name, flags string
	ranks       string // "": two servers and two workers
	data        string // "": a file; else what --data is, of DIR/data
	like        string // under bsp, the model is that of this feature; "": one of its own
	varies      bool   // under bsp, the model depends on times, or on how much memory lanes have
	passes      int    // 0: one
	parts       int    // of a server's memory, which each have their buffers; 0: one
	check       func(t *testing.T, r *supportRun)
}

// supportRun is a run that has ended well.
type supportRun struct {
	dir, data string
	args      []string
	res       train.Result
}

// cells are all places of a feature over some transports.
func cells(over []string) (all []cell) {
	for _, transport := range over {
		for _, tier := range tierNames {
			for _, sync := range syncNames {
				all = append(all, cell{transport, tier, sync})
			}
		}
	}
	return all
}

// cover chooses few cells that have every transport, tier and sync mode that any of
// them has. Other cells come first for another start.
func cover(of []cell, start int) (chosen []cell) {
	missing := map[string]bool{}
	for _, c := range of {
		missing[c.transport], missing[c.tier], missing[c.sync] = true, true, true
	}
	for len(missing) > 0 {
		best, most := cell{}, 0
		for i := range of {
			c, n := of[(i+start*5)%len(of)], 0
			for _, v := range []string{c.transport, c.tier, c.sync} {
				if missing[v] {
					n++
				}
			}
			if n > most {
				best, most = c, n
			}
		}
		if most == 0 {
			break
		}
		for _, v := range []string{best.transport, best.tier, best.sync} {
			delete(missing, v)
		}
		chosen = append(chosen, best)
	}
	return chosen
}

// supportArgs are psrt's for a feature in a cell.
func (f *supported) args(c cell, dir, data string) []string {
	ranks, where := f.ranks, "DIR/data/rows.libffm"
	if ranks == "" {
		ranks = "--servers 2 --workers 2"
	}
	if f.data != "" {
		where = f.data
	}
	line := strings.Join([]string{"train --data", where, "--format libffm --model fm --dim 32 --batch 200 --threads 1 --lanes 1 --seed 7 --quiet --json",
		"--transport", c.transport, tierFlags[c.tier], syncAs[c.sync], ranks, f.flags}, " ")
	line = strings.ReplaceAll(line, "DIR/data", data)
	return strings.Fields(strings.NewReplacer("DIR", dir, "BUDGET", fmt.Sprint(max(1, f.parts)*supportMemory)).Replace(line))
}

// refusal is why psrt refuses these arguments, "" where it does not.
func refusal(args []string) string {
	f, c := &trainFlags{}, &cobra.Command{}
	f.register(c)
	if err := c.ParseFlags(args[1:]); err != nil {
		return err.Error()
	}
	if _, _, err := f.asked(context.Background(), c); err != nil {
		return err.Error()
	}
	return ""
}

// supportMatrix calls each for every feature with the cells that make test runs of it,
// and make full, and gives the page that says so.
func supportMatrix(t *testing.T, data string, each func(f *supported, few, many []cell)) *supportPage {
	t.Helper()
	page, dir := newSupportPage(), t.TempDir()
	for i, f := range features() {
		var accepted []cell
		for _, c := range cells(transports) {
			if why := refusal(f.args(c, dir, data)); why != "" {
				page.refuse(f.name, c, strings.NewReplacer(data, "DIR/data", dir, "DIR").Replace(why))
			} else {
				accepted = append(accepted, c)
			}
		}
		few, many := f.choose(accepted, i)
		page.plan(f.name, few, many)
		each(f, few, many)
	}
	return page
}

// TestSupportPage: docs/support.md says what TestSupport runs, and what psrt refuses.
func TestSupportPage(t *testing.T) {
	page := supportMatrix(t, supportData(t), func(f *supported, few, _ []cell) {
		// What make test holds against each other of a feature that promises a digest.
		compared := slices.DeleteFunc(slices.Clone(few), func(c cell) bool { return c.sync != train.BSP || c.transport == "verbs" })
		if n := len(compared); n > 0 && !f.varies && (n < 2 || compared[0].transport == compared[1].transport || compared[0].tier == compared[1].tier) {
			t.Errorf("%s: digests of %v are compared; want two cells or more of other transports and tiers", f.name, compared)
		}
	})
	page.compare(t, filepath.Join("..", "..", "docs", "support.md"))
}

// TestSupport runs every feature over every transport, with rows in every tier, in every
// sync mode: in few cells; in all with PSRT_SUPPORT=all; and with PSRT_SUPPORT=verbs in
// all that are over verbs and those few of other transports that they are held against.
// verbs takes an RDMA device.
func TestSupport(t *testing.T) {
	which, over := os.Getenv("PSRT_SUPPORT"), transports[:3]
	if feature.NewProber("").Check(feature.RDMADevice) == nil {
		over = transports
	} else if which == "verbs" {
		t.Fatal("PSRT_SUPPORT=verbs, and there is no RDMA device here: bin/pslab test runs it where there are two")
	}
	data, seen := supportData(t), &digests{}
	supportMatrix(t, data, func(f *supported, few, many []cell) {
		for _, c := range many {
			if slices.Contains(over, c.transport) && (which == "all" || which == c.transport || slices.Contains(few, c)) {
				t.Run(f.name+"/"+c.String(), func(t *testing.T) {
					t.Parallel() // each waits for its processes more than it computes
					f.try(t, c, data, seen)
				})
			}
		}
	})
}

// choose is what make test runs of a feature's cells, and what make full does: of a
// feature that promises a digest two in bsp, whose transports and tiers are others, and
// one in another mode, where there is one; verbs is slow where the tests have it.
func (f *supported) choose(accepted []cell, i int) (few, many []cell) {
	var plain, verbs []cell
	for _, c := range accepted {
		if c.transport == "verbs" {
			verbs = append(verbs, c)
		} else {
			plain = append(plain, c)
		}
	}
	if few = cover(plain, i); !f.varies {
		few = compared(plain, few, i)
	}
	many = plain
	if more := cover(verbs, i); len(more) > 0 {
		one := max(0, slices.IndexFunc(more, func(c cell) bool { return c.sync == train.BSP }))
		few, many = append(few, more[one]), slices.Concat(plain, more)
	}
	return few, many
}

// compared are chosen cells of which one that is in another mode than bsp is in bsp
// instead, where that is accepted: two have digests to hold against each other then.
func compared(of, chosen []cell, start int) []cell {
	other := []string{train.SSP, train.ASP}[start%2]
	for i, c := range chosen {
		if c.sync == other && slices.Contains(of, cell{c.transport, c.tier, train.BSP}) {
			chosen[i].sync = train.BSP
		}
	}
	return chosen
}

// supportData is a folder with what features read.
func supportData(t *testing.T) string {
	dir := t.TempDir()
	file := filepath.Join(dir, "rows.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", fmt.Sprint(supportRows), "--fields", "6", "--vocab", "20000", "--zipf", "0.8", "--seed", "3", "--out", file); o.code != 0 {
		t.Fatal(o.stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	in := write(t, filepath.Join(dir, "in"), "rows.libffm", string(text))
	if long := time.Now().Add(-time.Hour); os.Chtimes(in, long, long) != nil { // a stream need not wait whether more is written
		t.Fatal(in)
	}
	write(t, dir, "life.yaml", "embedx_threshold: 2\n")
	return dir
}

// digests are those that models have had, by feature. Jobs end side by side.
type digests struct {
	mu  sync.Mutex
	was map[string]string
	in  map[string]cell
}

// compare holds a digest against that of the same model elsewhere.
func (d *digests) compare(t *testing.T, model, digest string, c cell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.was == nil {
		d.was, d.in = map[string]string{}, map[string]cell{}
	}
	if was, ok := d.was[model]; !ok {
		d.was[model], d.in[model] = digest, c
	} else if digest != was {
		t.Errorf("digest %s; that of %s in %s, or of what is to be the same, is %s", digest, model, d.in[model], was)
	}
}

// try runs a feature in one cell.
func (f *supported) try(t *testing.T, c cell, data string, seen *digests) {
	r := &supportRun{dir: t.TempDir(), data: data}
	r.args = f.args(c, r.dir, data)
	o := psrt(t, r.args...)
	if o.code != 0 {
		t.Fatalf("psrt %s: exit %d: %s", strings.Join(r.args, " "), o.code, o.stderr)
	}
	r.res = resultOf(t, o.stdout)
	if want := int64(supportRows * max(1, f.passes)); r.res.Examples != want || r.res.Features == 0 || r.res.Sync != c.sync || !strings.Contains(r.res.Transport, c.transport) {
		t.Errorf("%d examples, want %d; %d rows, %s over %s", r.res.Examples, want, r.res.Features, r.res.Sync, r.res.Transport)
	}
	if loss := r.res.LogLoss; r.res.AUC != nil && (loss == nil || math.IsNaN(*loss) || *loss > .8) {
		t.Errorf("log loss %v", loss)
	}
	if s := r.res.Storage; c.tier == "ssd" && (s == nil || s.Writes == 0 && f.name != "lr") {
		t.Errorf("no row came to the disk: %+v", s)
	}
	if d := r.res.ServerUse[0].Tables[0].Tiers; c.tier == "hbm" && (d == nil || d.DeviceHits == 0) {
		t.Errorf("no row was found on the device: %+v", d)
	}
	if c.sync == "bsp" && !f.varies {
		seen.compare(t, cmp.Or(f.like, f.name), r.res.Digest, c)
	}
	if f.check != nil {
		f.check(t, r)
	}
}
