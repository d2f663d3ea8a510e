package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"psrt/rdma/feature"
	"psrt/sched/train"
)

// layout is where the same model is trained.
type layout struct {
	transport        string
	servers, threads int
	onDisk           bool // but for what fits into little memory
}

func (l layout) String() string {
	where := "in memory"
	if l.onDisk {
		where = "on disks"
	}
	return fmt.Sprintf("%s, %d servers, %d threads, %s", l.transport, l.servers, l.threads, where)
}

// layouts are all of the given transports, the first one that the others are held against.
func layouts(transports ...string) (all []layout) {
	for _, onDisk := range []bool{false, true} {
		for _, transport := range transports {
			for _, servers := range []int{1, 3} {
				for _, threads := range []int{1, 4} {
					all = append(all, layout{transport, servers, threads, onDisk})
				}
			}
		}
	}
	return all
}

// What a server's memory is taken by beside rows, about: for each row in memory, each
// row, each announced use, and once for buffers.
const (
	matrixFrame = 72
	matrixIndex = 24
	matrixUse   = 29
	matrixFixed = 2200 << 10
	matrixSlabs = 6000 // rows by which that may be too much: memory comes in slabs
	matrixSmall = 20_000
	matrixLarge = 1_000_000
)

// matrixBudget is the memory of one of so many servers in which 1 % of the rows fit, or
// those of two batches where these are more.
func matrixBudget(rows, rowBytes, batchRows, servers int) int {
	fit := max(rows/100, 2*batchRows)
	return (fit*(rowBytes+matrixFrame)+rows*matrixIndex)/servers + 12*batchRows*matrixUse + matrixFixed
}

// TestDigestMatrix: under bsp a model is the same, bit for bit, over every transport (verbs
// where there is an RDMA device), on one server or three, all in memory or on disks below
// it, by one thread or four. PSRT_DIGEST_ROWS=1000000 is for rows of data, of whose
// table less than 3 % are in memory then: 1 % by the budget, and slabs and buffers that
// were not full. The default is small, and these hold 7 to 18 % of its table. Where a
// million examples of the whole model would take a day, as in the emulated lab,
// PSRT_DIGEST_DIM=4 has a factorization machine of that dimension instead, and
// PSRT_DIGEST_OVER=shm,verbs only these transports.
func TestDigestMatrix(t *testing.T) {
	data := matrixSmall
	if s := os.Getenv("PSRT_DIGEST_ROWS"); s != "" {
		var err error
		if data, err = strconv.Atoi(s); err != nil {
			t.Fatalf("PSRT_DIGEST_ROWS: %v", err)
		}
	}
	const fields = 4
	batch := max(64, data/1024)
	dir := t.TempDir()
	file := filepath.Join(dir, "rows.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", strconv.Itoa(data), "--fields", strconv.Itoa(fields), "--vocab", strconv.Itoa(3*data), "--zipf", "0.8", "--out", file); o.code != 0 {
		t.Fatal(o.stderr)
	}
	over := []string{"shm", "tcp"}
	if feature.NewProber("").Check(feature.RDMADevice) == nil {
		over = append(over, "verbs")
	}
	if s := os.Getenv("PSRT_DIGEST_OVER"); s != "" {
		over = strings.Split(s, ",")
	}
	model := []string{"--model", "deepfm", "--hidden", "16", "--dim", "32"}
	if s := os.Getenv("PSRT_DIGEST_DIM"); s != "" {
		model = []string{"--model", "fm", "--dim", s}
	}
	cells := layouts(over...)
	var want train.Result
	run := func(t *testing.T, l layout) {
		args := append([]string{"train", "--data", file, "--format", "libffm", "--optimizer", "adagrad",
			"--sync", "bsp", "--batch", strconv.Itoa(batch), "--workers", "2", "--lanes", "1", "--quiet", "--json",
			"--transport", l.transport, "--servers", strconv.Itoa(l.servers), "--threads", strconv.Itoa(l.threads)}, model...)
		if l.onDisk {
			budget := matrixBudget(int(want.Features), want.ServerUse[0].Tables[0].RowBytes, batch*fields, l.servers)
			disk := filepath.Join(dir, fmt.Sprintf("%s-%d-%d", l.transport, l.servers, l.threads))
			defer os.RemoveAll(disk) // those of all runs might not fit
			args = append(args, "--mem-budget", strconv.Itoa(budget), "--ssd", disk)
		}
		o := psrtWithin(t, 2*time.Minute+time.Duration(data/1000)*time.Second, args...)
		var res train.Result
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || o.code != 0 {
			t.Fatalf("%s: exit %d: %v: %s", l, o.code, err, o.stderr)
		}
		if l == cells[0] {
			want = res
		}
		if res.Digest != want.Digest || res.Features != want.Features || res.Examples != int64(data) {
			t.Errorf("%s: %d examples made %d rows of digest %s, %s: %d rows of %s", l, res.Examples, res.Features, res.Digest, cells[0], want.Features, want.Digest)
		}
		if !strings.Contains(res.Transport, l.transport) {
			t.Errorf("%s: it went by %s", l, res.Transport)
		}
		if !l.onDisk {
			t.Logf("%s: %.12s, %.1f s; all %d rows in memory", l, res.Digest, o.took.Seconds(), res.Features)
			return
		}
		s := res.Storage
		if s == nil || s.Rows != res.Features || s.Reads == 0 {
			t.Fatalf("%s: %+v", l, s)
		}
		share := 100 * float64(s.RowsInMemory) / float64(s.Rows)
		t.Logf("%s: %.12s, %.1f s; %d of %d rows (%.1f %%) in memory, %d read, %d written", l, res.Digest, o.took.Seconds(), s.RowsInMemory, s.Rows, share, s.Reads, s.Writes)
		switch {
		case data >= matrixLarge && share >= 3:
			t.Errorf("%s: %.2f %% of the rows are in memory, want less than 3 %%", l, share)
		case data < matrixLarge && s.RowsInMemory > s.Rows/40+matrixSlabs:
			t.Errorf("%s: %d of %d rows are in memory, want at most %d", l, s.RowsInMemory, s.Rows, s.Rows/40+matrixSlabs)
		}
	}
	run(t, cells[0])
	for _, l := range cells[1:] {
		t.Run(l.String(), func(t *testing.T) {
			if data <= matrixSmall {
				t.Parallel()
			}
			run(t, l)
		})
	}
}
