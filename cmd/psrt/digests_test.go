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
	onDisk           bool // all but 1 % of the rows
}

func (l layout) String() string {
	where := "in memory"
	if l.onDisk {
		where = "1 % in memory"
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
)

// matrixBudget is the memory of one of so many servers in which 1 % of the rows fit, or
// those of two batches where these are more.
func matrixBudget(rows, rowBytes, batchRows, servers int) int {
	fit := max(rows/100, 2*batchRows)
	return (fit*(rowBytes+matrixFrame)+rows*matrixIndex)/servers + 12*batchRows*matrixUse + matrixFixed
}

// TestDigestMatrix: under bsp a model is the same, bit for bit, over every transport, on
// one server or three, all in memory or 1 % of it, by one thread or four.
// PSRT_DIGEST_ROWS=1000000 is for rows of data (20000); where there is an RDMA device,
// verbs is held against shm.
func TestDigestMatrix(t *testing.T) {
	data := 20_000
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
	cells := layouts("shm", "tcp")
	if feature.NewProber("").Check(feature.RDMADevice) == nil {
		cells = append([]layout{{"shm", 1, 1, false}}, layouts("verbs")...)
	}
	var want train.Result
	for i, l := range cells {
		args := []string{"train", "--data", file, "--format", "libffm", "--model", "deepfm", "--hidden", "16", "--dim", "32", "--optimizer", "adagrad",
			"--sync", "bsp", "--batch", strconv.Itoa(batch), "--workers", "2", "--lanes", "1", "--quiet", "--json",
			"--transport", l.transport, "--servers", strconv.Itoa(l.servers), "--threads", strconv.Itoa(l.threads)}
		if l.onDisk {
			budget := matrixBudget(int(want.Features), want.ServerUse[0].Tables[0].RowBytes, batch*fields, l.servers)
			args = append(args, "--mem-budget", strconv.Itoa(budget), "--ssd", filepath.Join(dir, "rows"))
		}
		o := psrtWithin(t, 2*time.Minute+time.Duration(data/1000)*time.Second, args...)
		var res train.Result
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || o.code != 0 {
			t.Fatalf("%s: exit %d: %v: %s", l, o.code, err, o.stderr)
		}
		if i == 0 {
			want = res
		}
		if res.Digest != want.Digest || res.Features != want.Features || res.Examples != int64(data) {
			t.Errorf("%s: %d examples made %d rows of digest %s, %s: %d rows of %s", l, res.Examples, res.Features, res.Digest, cells[0], want.Features, want.Digest)
		}
		if !strings.Contains(res.Transport, l.transport) {
			t.Errorf("%s: it went by %s", l, res.Transport)
		}
		if !l.onDisk {
			t.Logf("%s: %.12s, %.1f s", l, res.Digest, o.took.Seconds())
			continue
		}
		s := res.Storage
		if s == nil || s.Rows != res.Features || s.RowsInMemory > s.Rows/40+matrixSlabs || s.Reads == 0 {
			t.Fatalf("%s: %+v", l, s)
		}
		t.Logf("%s: %.12s, %.1f s; %.1f %% of %d rows in memory, %d read, %d written", l, res.Digest, o.took.Seconds(), 100*float64(s.RowsInMemory)/float64(s.Rows), s.Rows, s.Reads, s.Writes)
	}
}
