package ssd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errNoRocks says that RocksDB's own benchmark is not there.
var errNoRocks = errors.New("ssd: db_bench, RocksDB's own benchmark, is not installed; apt-get install rocksdb-tools")

// rocksThreads read and change rows: each waits for its reads.
const rocksThreads = 32

// rocks runs RocksDB's own benchmark on a table of the same size with the same
// memory, after the others: it cannot take turns with them. It is set up as
// Pebble is: no log, no compression, bloom filters, past the page cache.
func (r *run) rocks(ctx context.Context) error {
	c := r.cfg
	bench, err := exec.LookPath("db_bench")
	if err != nil {
		return errNoRocks
	}
	dir := filepath.Join(c.Dirs[0], "rocksdb")
	defer os.RemoveAll(dir)
	buffers := c.Memory / 8
	common := []string{"--db=" + dir, fmt.Sprintf("--num=%d", c.Rows), fmt.Sprintf("--value_size=%d", c.RowBytes), "--key_size=8",
		"--compression_type=none", fmt.Sprintf("--cache_size=%d", c.Memory-2*buffers), fmt.Sprintf("--write_buffer_size=%d", buffers),
		"--max_write_buffer_number=2", "--bloom_bits=10", "--disable_wal=1", "--use_direct_reads=1",
		"--use_direct_io_for_flush_and_compaction=1", "--max_background_jobs=2", fmt.Sprintf("--seed=%d", c.Seed%(1<<31)), "--histogram=0"}
	for _, x := range []struct {
		ours, name string
		args       []string
	}{
		{"", "fillseq", nil},
		{"read", "multireadrandom", []string{"--use_existing_db=1", "--multiread_batched=1", "--batch_size=128", fmt.Sprintf("--threads=%d", rocksThreads)}},
		{"read, add, write", "updaterandom", []string{"--use_existing_db=1", fmt.Sprintf("--threads=%d", rocksThreads)}},
		{"", "overwrite", []string{"--use_existing_db=1"}},
		{"write", "overwrite", []string{"--use_existing_db=1"}}, // by now it has something to merge
	} {
		args := append(append([]string{"--benchmarks=" + x.name}, common...), x.args...)
		if x.name != "fillseq" {
			args = append(args, fmt.Sprintf("--duration=%d", max(1, int(c.RocksDB/time.Second))))
		}
		rate, micros, err := runRocks(ctx, bench, x.name, args)
		if err != nil {
			return err
		}
		if x.ours == "" {
			continue
		}
		r.note("%s, rocksdb: %.1f thousand rows/s, %.2f us CPU a row (%s of db_bench, by itself, for %v)", x.ours, rate/1e3, micros, x.name, c.RocksDB)
		if mine := r.rates[x.ours]; mine > 0 {
			r.note("%s: psrt is %.1f times as fast as rocksdb", x.ours, mine/rate)
		}
	}
	return nil
}

// runRocks gives operations a second, and what one takes of a processor.
func runRocks(ctx context.Context, bench, name string, args []string) (rate, micros float64, err error) {
	cmd := exec.CommandContext(ctx, bench, args...)
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		s := text.String()
		return 0, 0, fmt.Errorf("db_bench %s: %w: %s", name, err, s[max(0, len(s)-300):])
	}
	rate, n, err := parseRocks(name, text.String())
	if err != nil {
		return 0, 0, err
	}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		micros = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3 / n
	}
	return rate, micros, nil
}

var rocksLine = regexp.MustCompile(`(?m)^(\w+)\s*:\s+[\d.]+ micros/op ([\d.]+) ops/sec ([\d.]+) seconds ([\d.]+) operations`)

// parseRocks finds what db_bench says of a benchmark.
func parseRocks(name, text string) (rate, operations float64, err error) {
	for _, m := range rocksLine.FindAllStringSubmatch(text, -1) {
		if m[1] != name {
			continue
		}
		rate, err := strconv.ParseFloat(m[2], 64)
		n, err2 := strconv.ParseFloat(m[4], 64)
		if err == nil && err2 == nil && rate > 0 && n > 0 {
			return rate, n, nil
		}
	}
	return 0, 0, fmt.Errorf("db_bench does not tell the rate of %s: %s", name, text[max(0, len(text)-300):])
}
