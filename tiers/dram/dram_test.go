package dram

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
	"psrt/tiers/tierstest"
)

func open(t testing.TB, spec table.Spec, seed uint64, cfg Config) *Table {
	t.Helper()
	tab, err := New(spec, seed, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	})
	return tab
}

var anywhere = Config{Node: -1}

func testSpec(dim int) table.Spec {
	return table.Spec{Name: "t", ID: 1, Dim: dim, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
}

func TestAgainstReference(t *testing.T) {
	tierstest.Run(t, func(t *testing.T, spec table.Spec, seed uint64) tierstest.Table {
		return open(t, spec, seed, anywhere)
	})
}

// TestGrowth follows a table through many growths of the index and slabs: row
// numbers stay, rows are what they were born, and order does not matter.
func TestGrowth(t *testing.T) {
	const n, batch, dim = 300000, 5000, 3
	r := seedtest.Rand(t)
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i) << 7
	}
	keys[0], keys[1] = ^uint64(0), 0
	r.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	a, b := open(t, testSpec(dim), 9, anywhere), open(t, testSpec(dim), 9, anywhere)
	rows, again := make([]uint32, n), make([]uint32, n)
	for at := 0; at < n; at += batch {
		if made, err := a.Lookup(keys[at:at+batch], rows[at:at+batch], true); err != nil || made != batch {
			t.Fatalf("%d rows made, want %d: %v", made, batch, err)
		}
	}
	if _, err := a.Lookup(keys, again, false); err != nil || !slices.Equal(rows, again) {
		t.Fatalf("row numbers changed while the table grew: %v", err)
	}
	slices.Reverse(keys)
	if _, err := b.Lookup(keys, again, true); err != nil {
		t.Fatal(err)
	}
	if a.Digest() != b.Digest() || a.Len() != n {
		t.Errorf("digest %v of %d rows in one order, %v in another", a.Digest(), a.Len(), b.Digest())
	}
	other := open(t, testSpec(dim), 10, anywhere)
	if _, err := other.Lookup(keys, again, true); err != nil {
		t.Fatal(err)
	}
	if other.Digest() == a.Digest() {
		t.Error("another seed gave the same digest")
	}
	seen := 0
	a.Range(func(uint64, []float32) bool { seen++; return true })
	if seen != n {
		t.Errorf("range gave %d rows of %d", seen, n)
	}
}

// TestBudget: at the budget Lookup fails, says so, and loses nothing.
func TestBudget(t *testing.T) {
	tab := open(t, testSpec(32), 1, Config{Node: -1, MaxBytes: 8 << 20})
	var keys []uint64
	for i := range uint64(100000) {
		keys = append(keys, i)
	}
	rows := make([]uint32, len(keys))
	made, err := tab.Lookup(keys, rows, true)
	if !errors.Is(err, ErrBudget) || made == 0 || made != tab.Len() {
		t.Fatalf("%d rows made of %d, error %v", made, tab.Len(), err)
	}
	for _, part := range []string{`"t"`, "8388608 of 8388608"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	if st := tab.Stats(); st.Reserved > 8<<20 || st.Bytes > st.Reserved {
		t.Errorf("%+v is beyond the budget", st)
	}
	if rows[made-1] == table.NoRow || rows[made] != table.NoRow || rows[len(rows)-1] != table.NoRow {
		t.Error("keys reached have rows and the others table.NoRow: not so")
	}
	before := tab.Digest()
	if made, err := tab.Lookup(keys[:made], rows, true); err != nil || made != 0 {
		t.Errorf("known keys at the budget: %d made, %v", made, err)
	}
	if _, err := tab.Lookup(keys[len(keys)-1:], rows, true); !errors.Is(err, ErrBudget) {
		t.Errorf("a new key at the budget: %v", err)
	}
	if refused := tab.Apply([]uint32{0}, make([]float32, 32)); refused != 0 || tab.Digest() != before {
		t.Errorf("%d refused; digest %v, was %v", refused, tab.Digest(), before)
	}
}

// TestRowNumbersEnd: the last row number is not table.NoRow, and then an error
// comes, not a wrap.
func TestRowNumbersEnd(t *testing.T) {
	tab := open(t, testSpec(1), 1, anywhere)
	tab.limit = 3
	rows := make([]uint32, 5)
	made, err := tab.Lookup([]uint64{5, 6, 7, 8, 9}, rows, true)
	if made != 3 || err == nil || !slices.Equal(rows, []uint32{0, 1, 2, table.NoRow, table.NoRow}) {
		t.Errorf("%d made, rows %v, error %v", made, rows, err)
	}
}

// TestBytesPerRow holds a table of 256-byte rows to 1.15 x its payload.
func TestBytesPerRow(t *testing.T) {
	const n = 200000
	tab := open(t, testSpec(32), 1, anywhere)
	keys, rows := make([]uint64, 1000), make([]uint32, 1000)
	for at := 0; at < n; at += len(keys) {
		for i := range keys {
			keys[i] = uint64(at + i)
		}
		if _, err := tab.Lookup(keys, rows, true); err != nil {
			t.Fatal(err)
		}
		payload := float64(tab.Len() * tab.Spec().RowBytes())
		if ratio := float64(tab.Stats().Bytes-4*unitBytes) / payload; at > n/10 && ratio > 1.10 {
			t.Fatalf("%d rows take %.3f x their payload beside four segments", tab.Len(), ratio)
		}
	}
	t.Logf("%+v: %.3f x the payload", tab.Stats(), float64(tab.Stats().Bytes)/float64(n*256))
}

func TestNoAllocationPerBatch(t *testing.T) {
	tab := open(t, testSpec(16), 1, anywhere)
	keys, rows, dst := make([]uint64, 500), make([]uint32, 500), make([]float32, 500*16)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if _, err := tab.Lookup(keys, rows, true); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(50, func() {
		if _, err := tab.Lookup(keys, rows, true); err != nil {
			t.Fatal(err)
		}
		tab.Gather(rows, dst)
		tab.Apply(rows, dst)
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func TestLoadChecksTheLength(t *testing.T) {
	tab := open(t, testSpec(16), 1, anywhere)
	if err := tab.Load(7, make([]float32, 16)); err == nil || !strings.Contains(err.Error(), "want 32") {
		t.Errorf("a row without its state: %v", err)
	}
	if tab.Len() != 0 {
		t.Error("the refused row was made")
	}
}

func TestClosed(t *testing.T) {
	tab, err := New(testSpec(4), 1, anywhere)
	if err != nil {
		t.Fatal(err)
	}
	rows := []uint32{0}
	if _, err := tab.Lookup([]uint64{1}, rows, true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tab.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tab.Lookup([]uint64{1}, rows, true); !errors.Is(err, ErrClosed) {
		t.Errorf("lookup in a closed table: %v", err)
	}
	dst := []float32{1, 1, 1, 1}
	tab.Gather(rows, dst)
	if !slices.Equal(dst, make([]float32, 4)) || tab.Apply(rows, dst) != 1 || tab.Len() != 0 {
		t.Error("a closed table still gives rows")
	}
}

func TestLargestRow(t *testing.T) {
	s := testSpec(table.MaxDim)
	s.Optimizer.Kind = table.Adam
	tab := open(t, s, 1, anywhere)
	keys, rows := make([]uint64, 50), make([]uint32, 50)
	for i := range keys {
		keys[i] = math.MaxUint64 - uint64(i)
	}
	if made, err := tab.Lookup(keys, rows, true); err != nil || made != 50 {
		t.Fatal(made, err)
	}
	if refused := tab.Apply(rows, make([]float32, 50*table.MaxDim)); refused != 0 {
		t.Errorf("%d refused", refused)
	}
}

// TestLoadRows: rows loaded together are those loaded one by one, over rows that
// are there, in places of deleted ones, and twice in one call.
func TestLoadRows(t *testing.T) {
	r := seedtest.Rand(t)
	s := table.Spec{Name: "t", ID: 3, Dim: 5, Optimizer: table.Optimizer{Kind: table.Adam}}
	var tables [2]*Table
	for i := range tables {
		x, err := New(s, 1, Config{Node: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		tables[i] = x
	}
	together, single := tables[0], tables[1]
	together.Reserve(r.IntN(1000))
	width := s.RowFloats()
	for range 50 {
		keys := make([]uint64, r.IntN(300))
		rows := make([]float32, len(keys)*width)
		for i := range keys {
			keys[i] = r.Uint64N(500)
		}
		for i := range rows {
			rows[i] = r.Float32()
		}
		for range r.IntN(20) {
			k := r.Uint64N(500)
			if together.Delete(k) != single.Delete(k) {
				t.Fatal("one table has a row that the other has not")
			}
		}
		if err := together.LoadRows(keys, rows); err != nil {
			t.Fatal(err)
		}
		for i, k := range keys {
			if err := single.Load(k, rows[i*width:(i+1)*width]); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := together.Digest(), single.Digest(); a != b {
			t.Fatalf("digest %s together, %s one by one", a, b)
		}
	}
	if err := together.LoadRows(make([]uint64, 2), make([]float32, width)); err == nil {
		t.Fatal("two keys with the floats of one row were taken")
	}
}
