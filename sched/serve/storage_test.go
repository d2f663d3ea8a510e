package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/client"
	"psrt/sched/server"
	"psrt/tiers/blk"
	"psrt/tiers/policy"
)

// manyTables describes n tables, the first with more.
func manyTables(n int, more ...string) string {
	var b strings.Builder
	b.WriteString("tables:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: t%04d, dim: %d, rule: %s%s}\n", i, 2+i%7, []string{"sum", "adagrad", "adam", "assign"}[i%4], more[min(i, len(more)-1)])
	}
	return b.String()
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// pushPull is push and pull with one working set, which it closes.
func (tr *trainer) pushPull(name string, keys []uint64, grads []float32) []float32 {
	tr.t.Helper()
	rep := tr.table(name, nil)
	r, err := tr.NewRows(rep.Spec)
	if err != nil {
		tr.t.Fatal(rep.Refused, err)
	}
	defer r.Close()
	index := [][]int32{make([]int32, len(keys))}
	if err := r.Plan([][]uint64{keys}, index); err != nil {
		tr.t.Fatal(err)
	}
	for i, at := range index[0] {
		for j := range rep.Spec.Dim {
			r.Grads()[int(at)*rep.Spec.Dim+j] = grads[i]
		}
	}
	var call client.Call
	tr.do(tr.Push(r, tr.step, false, &call), &call)
	tr.do(tr.Pull(r, tr.step, 0, &call), &call)
	return slices.Clone(r.Values())
}

// TestThousandTables: a server has so many, in memory and on disks, with no thread
// and no file for each, and both end with the same rows.
func TestThousandTables(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 150
	}
	const hot = ", memory: 600KiB"
	text := manyTables(n, hot, hot, hot, hot, "")
	dirs := []string{t.TempDir(), t.TempDir()}
	files, routines := openFiles(t), runtime.NumGoroutine()
	inMemory := start(t, Config{Tables: tables(t, manyTables(n, "")), Staleness: asp})
	onDisks := start(t, Config{Tables: tables(t, text), Staleness: asp, MaxBytes: int64(n) * 256 << 10,
		Storage: &server.Storage{Dirs: dirs, Policy: policy.NameS3FIFO}})
	if more := openFiles(t) - files; more > 100 {
		t.Errorf("%d files are open for %d tables", more, n)
	}
	if more := runtime.NumGoroutine() - routines; more > 60 {
		t.Errorf("%d goroutines run for %d tables", more, n)
	}
	r := seedtest.Rand(t)
	all := []*trainer{inMemory.join(t), onDisks.join(t)}
	keys := make([]uint64, 14000)
	for i := range keys {
		keys[i] = r.Uint64N(1 << 40)
	}
	for i := range 200 {
		name := fmt.Sprintf("t%04d", r.IntN(n))
		if i%2 == 0 {
			name = fmt.Sprintf("t%04d", r.IntN(4))
		}
		from := r.IntN(len(keys) - 400)
		some, grads := keys[from:from+400], make([]float32, 400)
		for i := range grads {
			grads[i] = r.Float32()
		}
		a, b := all[0].pushPull(name, some, grads), all[1].pushPull(name, some, grads)
		if !slices.Equal(a, b) {
			t.Fatalf("table %s is not the same in memory and on disks", name)
		}
	}
	if a, b := inMemory.digest(t), onDisks.digest(t); a != b {
		t.Errorf("digest %s in memory, %s on disks", a, b)
	}
	st, err := onDisks.server.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Tables) != n || st.TableBytes > int64(n)*256<<10 || st.Disks == nil || st.Disks.Rows == 0 {
		t.Errorf("%d tables in %d bytes, disks %+v", len(st.Tables), st.TableBytes, st.Disks)
	}
	if more := openFiles(t) - files; more > 150 {
		t.Errorf("%d files are open", more)
	}
	for _, tr := range all {
		tr.leave()
	}
	if err := onDisks.stop(); err != nil {
		t.Error(err)
	}
	for _, d := range dirs {
		if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
			t.Errorf("%d things are left in a directory (%v)", len(left), err)
		}
	}
}

// TestStorageRestart: what was on disks is scratch. A server that is started anew,
// with other lanes, has what was loaded, and takes the directories of one that was
// killed; a second server at the same time does not get them.
func TestStorageRestart(t *testing.T) {
	dir, model := t.TempDir(), filepath.Join(t.TempDir(), "model")
	text := "tables:\n  - {name: big, dim: 16, rule: sum, memory: 600KiB}\n  - {name: small, dim: 2, rule: sum}\n"
	// A killed server of four lanes has left this.
	for lane := range 4 {
		stale := filepath.Join(dir, fmt.Sprintf("psrt-server0-lane%d", lane))
		if err := os.MkdirAll(stale, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(stale, "data-00000000-000001"), []byte("what is left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Tables: tables(t, text), Staleness: asp, MaxBytes: 16 << 20, Save: model, Storage: &server.Storage{Dirs: []string{dir}}}
	first := start(t, cfg)
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != cfg2lanes {
		t.Errorf("directories %v (%v), want those of %d lanes", left, err, cfg2lanes)
	}
	tr := first.join(t)
	var keys []uint64
	for i := range 3000 {
		keys = append(keys, uint64(i)*7919)
	}
	ones := make([]float32, 3000)
	for i := range ones {
		ones[i] = float32(i)
	}
	for at := 0; at < 3000; at += 500 {
		tr.push("big", false, keys[at:at+500], ones[at:at+500]...)
	}
	want := first.digest(t)

	second := cfg
	second.Listen, second.Token, second.Lanes, second.Clients, second.Node = "127.0.0.1:0", testToken, 2, 8, -1
	_, err := New(second)
	var locked *blk.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("a second server on the same directories: %v", err)
	}
	tr.leave()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	cfg.Load, cfg.Lanes = model, 3
	again := start(t, cfg)
	if got := again.digest(t); got != want {
		t.Errorf("digest %s after a restart, want %s", got, want)
	}
	if got := again.join(t).pull("big", keys[2990:]...); !slices.Equal(got, ones[2990:]) {
		t.Errorf("rows after a restart are %v", got)
	}
}

const cfg2lanes = 2 // start's

// TestStorageRefused: what cannot be is said before anything is opened.
func TestStorageRefused(t *testing.T) {
	at := &server.Storage{Dirs: []string{t.TempDir()}}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Tables: tables(t, sums), Storage: at}, "--mem-budget"},
		{Config{Tables: tables(t, sums), Storage: at, MaxBytes: 1 << 20, NewTables: true}, "leave --new-tables out"},
		{Config{Storage: at, MaxBytes: 1 << 20, NewTables: true}, "describe all of them"},
		{Config{Tables: tables(t, "tables:\n  - {name: a, dim: 2, rule: sum, memory: 1MiB}\n")}, "give --ssd"},
		{Config{Tables: tables(t, sums), Storage: at, MaxBytes: 1 << 20}, "raise"},
		{Config{Tables: tables(t, sums), Storage: &server.Storage{Dirs: at.Dirs, Policy: "fifo"}, MaxBytes: 1 << 30}, `"fifo"`},
		{Config{Tables: tables(t, "tables:\n  - {name: a, dim: 2, rule: sum, memory: 1GiB}\n"), Storage: at, MaxBytes: 64 << 20}, "raise --mem-budget"},
	} {
		c.cfg.Listen, c.cfg.Token, c.cfg.Lanes, c.cfg.Clients, c.cfg.Node = "127.0.0.1:0", testToken, 2, 1, -1
		_, err := New(c.cfg)
		says(t, err, c.want)
	}
	for _, bad := range []string{"12QiB", "0", "-1", "1.5GiB", "99999999TiB", "[]"} {
		_, err := ParseTables("f", []byte("tables:\n  - {name: a, dim: 2, rule: sum, memory: "+bad+"}\n"))
		says(t, err, "want bytes such as 512MiB")
	}
}

// A memory that is too small is refused with the least that works, and nearly that much is
// too little: of the process, and of a table that has `memory:`.
func TestLeastMemory(t *testing.T) {
	wide := "tables:\n  - {name: a, dim: 4096, rule: adam}\n  - {name: b, dim: 1, rule: sum, memory: 200KiB}\n"
	for name, c := range map[string]struct {
		tables, table string
		bytes         int64
	}{
		"one":   {sums, "", 1 << 20},
		"none":  {sums, "", 1},
		"wide":  {wide, "", 4 << 20},
		"many":  {manyTables(300, ""), "", 2 << 20},
		"given": {strings.Replace(wide, "200KiB", "20KiB", 1), "b", 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			try := func(text string, bytes int64) (small *server.MemoryError) {
				t.Helper()
				s, err := New(Config{Listen: "127.0.0.1:0", Token: testToken, Lanes: 2, Clients: 1, Node: -1, Staleness: asp,
					Tables: tables(t, text), MaxBytes: bytes, Storage: &server.Storage{Dirs: []string{t.TempDir()}, Policy: policy.NameS3FIFO}})
				switch {
				case err == nil:
					over, cancel := context.WithCancel(context.Background())
					cancel()
					if err := s.Run(over, func() {}); err != nil {
						t.Error(err)
					}
				case !errors.As(err, &small):
					t.Fatal(err)
				}
				return small
			}
			small := try(c.tables, c.bytes)
			if small == nil || small.Table != c.table || !small.BadInput() {
				t.Fatalf("%d bytes: %+v", c.bytes, small)
			}
			if c.table != "" {
				c.tables = strings.Replace(c.tables, "20KiB", fmt.Sprint(small.Least), 1)
			} else {
				c.bytes = small.Least
			}
			if again := try(c.tables, c.bytes); again != nil {
				t.Errorf("%d bytes are said to work: %v", small.Least, again)
			}
			if less := small.Least * 9 / 10; c.table == "" && name != "many" && try(c.tables, less) == nil { // many tables have larger buffers of disks
				t.Errorf("%d bytes work, %d are said to be the least", less, small.Least)
			}
		})
	}
}
