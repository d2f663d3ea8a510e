package blktest

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
	"psrt/tiers/blk"
)

// Factory opens a device on an empty directory; again opens the same directory
// once more after the device was closed.
type Factory func(t *testing.T) (d blk.Device, again func() blk.Device)

// Run holds the factory's devices to the rules of blk.Device.
func Run(t *testing.T, open Factory) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, d blk.Device, again func() blk.Device)
	}{
		{"WritesAreRead", writesAreRead},
		{"ManyInFlight", manyInFlight},
		{"DepthIsABound", depthIsABound},
		{"Names", names},
		{"NamesInTheBackground", namesInTheBackground},
		{"SurvivesClose", survivesClose},
		{"Discard", discard},
		{"Refuses", refuses},
		{"OnResult", onResult},
		{"WaitEnds", waitEnds},
		{"Buffers", buffers},
		{"CloseInFlight", closeInFlight},
		{"Describes", describes},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, again := open(t)
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				if err := d.Close(); err != nil {
					t.Errorf("second Close: %v", err)
				}
			})
			c.run(t, d, again)
		})
	}
}

// fill makes bytes that tell where they belong.
func fill(b []byte, rng *rand.Rand) {
	for i := 0; i+8 <= len(b); i += 8 {
		v := rng.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
}

func writesAreRead(t *testing.T, d blk.Device, _ func() blk.Device) {
	rng := seedtest.Rand(t)
	unit := d.Block()
	f := Create(t, d, "a", int64(64*unit))
	buf := Buffer(t, d, 16*unit)
	want := make([]byte, 64*unit)
	for range 100 {
		n := (1 + rng.IntN(8)) * unit
		at := rng.IntN(64-n/unit+1) * unit
		if rng.IntN(2) == 0 {
			fill(buf[:n], rng)
			copy(want[at:], buf[:n])
			Must(t, d, blk.Request{Op: blk.Write, File: f, Offset: int64(at), Buf: buf[:n]})
			continue
		}
		into := buf[8*unit:][:n]
		Must(t, d, blk.Request{Op: blk.Read, File: f, Offset: int64(at), Buf: into})
		if !bytes.Equal(into, want[at:at+n]) {
			t.Fatalf("%d bytes at %d are not what was written", n, at)
		}
	}
}

func manyInFlight(t *testing.T, d blk.Device, _ func() blk.Device) {
	rng := seedtest.Rand(t)
	unit := d.Block()
	blocks := 3*d.Depth() + 5
	f := Create(t, d, "a", int64(blocks*unit))
	src, dst := Buffer(t, d, blocks*unit), Buffer(t, d, blocks*unit)
	fill(src, rng)
	var writes, reads []blk.Request
	for _, i := range rng.Perm(blocks) {
		at := i * unit
		writes = append(writes, blk.Request{Op: blk.Write, File: f, Offset: int64(at), Buf: src[at : at+unit]})
		reads = append(reads, blk.Request{Op: blk.Read, File: f, Offset: int64(at), Buf: dst[at : at+unit]})
	}
	Must(t, d, writes...)
	Must(t, d, blk.Request{Op: blk.Sync, File: f})
	Must(t, d, reads...)
	if !bytes.Equal(src, dst) {
		t.Fatal("bytes read are not those written")
	}
}

func depthIsABound(t *testing.T, d blk.Device, _ func() blk.Device) {
	unit := d.Block()
	f := Create(t, d, "a", int64(unit))
	n := d.Depth() + 3
	buf := Buffer(t, d, n*unit)
	rs := make([]blk.Request, n)
	for i := range rs {
		rs[i] = blk.Request{Op: blk.Read, File: f, Buf: buf[i*unit : (i+1)*unit], ID: uint64(i)}
	}
	taken, err := d.Submit(rs)
	if err != nil || taken != d.Depth() {
		t.Fatalf("Submit of %d took %d (%v), want the depth %d", n, taken, err, d.Depth())
	}
	if again, err := d.Submit(rs[taken:]); err != nil || again != 0 {
		t.Fatalf("Submit at full depth took %d (%v)", again, err)
	}
	collect(t, d, taken)
}

// collect takes n results.
func collect(t *testing.T, d blk.Device, n int) []blk.Result {
	t.Helper()
	var all []blk.Result
	out := make([]blk.Result, 5)
	deadline := time.Now().Add(Patience)
	for len(all) < n {
		k := d.Poll(out)
		all = append(all, out[:k]...)
		if k == 0 {
			if err := d.Wait(deadline); err != nil {
				t.Fatalf("Wait after %d of %d results: %v", len(all), n, err)
			}
		}
	}
	if k := d.Poll(out); k > 0 || len(all) > n {
		t.Fatalf("%d results for %d requests", len(all)+k, n)
	}
	return all
}

func names(t *testing.T, d blk.Device, _ func() blk.Device) {
	size := int64(4 * d.Block())
	a, b := Create(t, d, "a", size), Create(t, d, "b", 2*size)
	_, err := d.Create("a", size)
	wantErr(t, "Create of a name that exists", err, fs.ErrExist)
	_, _, err = d.Open("c")
	wantErr(t, "Open of a name that does not exist", err, fs.ErrNotExist)
	wantErr(t, "Rename of nothing", d.Rename("c", "d"), fs.ErrNotExist)
	wantErr(t, "Remove of nothing", d.Remove("c"), fs.ErrNotExist)

	buf := Buffer(t, d, d.Block())
	fill(buf, seedtest.Rand(t))
	want := bytes.Clone(buf)
	Must(t, d, blk.Request{Op: blk.Write, File: a, Buf: buf})
	if err := d.Rename("a", "b"); err != nil {
		t.Fatal(err)
	}
	list(t, d, "b")
	f, n, err := d.Open("b")
	if err != nil || n != size {
		t.Fatalf("Open after Rename: %d bytes, %v; want %d", n, err, size)
	}
	// The old b lives on under its number.
	Must(t, d, blk.Request{Op: blk.Read, File: b, Buf: buf})
	if !bytes.Equal(buf, make([]byte, len(buf))) {
		t.Error("the replaced file changed under its number")
	}
	Must(t, d, blk.Request{Op: blk.Read, File: f, Buf: buf})
	if !bytes.Equal(buf, want) {
		t.Error("the renamed file does not hold what was written")
	}
	for _, file := range []int{a, b, f} {
		if err := d.CloseFile(file); err != nil {
			t.Error(err)
		}
	}
	wantErr(t, "CloseFile of a closed one", d.CloseFile(a), blk.ErrRequest)
	if err := d.Remove("b"); err != nil {
		t.Error(err)
	}
	list(t, d)
}

func list(t *testing.T, d blk.Device, want ...string) {
	t.Helper()
	got, err := d.List()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("List: %q, %v; want %q", got, err, want)
	}
}

func namesInTheBackground(t *testing.T, d blk.Device, _ func() blk.Device) {
	unit := int64(d.Block())
	var rs []blk.Request
	for i := range 4 {
		rs = append(rs, blk.Request{Op: blk.Make, Name: fmt.Sprintf("f%d", i), Len: unit * int64(i+1)})
	}
	made := Do(t, d, rs...)
	buf := Buffer(t, d, int(unit))
	for i, r := range made {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		Must(t, d, blk.Request{Op: blk.Write, File: r.N, Offset: unit * int64(i), Buf: buf})
		if _, n, err := d.Open(rs[i].Name); err != nil || n != rs[i].Len {
			t.Errorf("made %s: %d bytes, %v; want %d", rs[i].Name, n, err, rs[i].Len)
		}
	}
	again := Do(t, d, blk.Request{Op: blk.Make, Name: "f3", Len: unit}, blk.Request{Op: blk.Unlink, Name: "none"})
	wantErr(t, "Make of a name that exists", again[0].Err, fs.ErrExist)
	wantErr(t, "Unlink of nothing", again[1].Err, fs.ErrNotExist)
	for i := 1; i < 4; i++ {
		Must(t, d, blk.Request{Op: blk.Unlink, Name: rs[i].Name})
	}
	list(t, d, "f0")
}

func survivesClose(t *testing.T, d blk.Device, again func() blk.Device) {
	unit := d.Block()
	f := Create(t, d, "a", int64(8*unit))
	buf := Buffer(t, d, unit)
	fill(buf, seedtest.Rand(t))
	want := bytes.Clone(buf)
	Must(t, d, blk.Request{Op: blk.Write, File: f, Offset: int64(3 * unit), Buf: buf})
	Must(t, d, blk.Request{Op: blk.Sync, File: f})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Submit([]blk.Request{{Op: blk.Sync, File: f}}); err == nil {
		t.Error("Submit on a closed device succeeds")
	}
	if d.Poll(make([]blk.Result, 1)) != 0 {
		t.Error("Poll on a closed device finds something")
	}
	e := again()
	f, size, err := e.Open("a")
	if err != nil || size != int64(8*unit) {
		t.Fatalf("Open: %d bytes, %v", size, err)
	}
	got := Buffer(t, e, unit)
	Must(t, e, blk.Request{Op: blk.Read, File: f, Offset: int64(3 * unit), Buf: got})
	if !bytes.Equal(got, want) {
		t.Error("the bytes are gone")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func discard(t *testing.T, d blk.Device, _ func() blk.Device) {
	const unit = 4096 // file systems punch whole blocks of theirs
	f := Create(t, d, "a", 16*unit)
	buf := Buffer(t, d, 16*unit)
	fill(buf, seedtest.Rand(t))
	want := bytes.Clone(buf)
	Must(t, d, blk.Request{Op: blk.Write, File: f, Buf: buf})
	Must(t, d, blk.Request{Op: blk.Discard, File: f, Offset: 4 * unit, Len: 8 * unit})
	Must(t, d, blk.Request{Op: blk.Sync, File: f})
	Must(t, d, blk.Request{Op: blk.Read, File: f, Buf: buf})
	clear(want[4*unit : 12*unit])
	if !bytes.Equal(buf, want) {
		t.Error("discarded blocks are no zeros, or others changed")
	}
	Must(t, d, blk.Request{Op: blk.Write, File: f, Offset: 5 * unit, Buf: buf[:unit]})
	if _, n, err := d.Open("a"); err != nil || n != 16*unit {
		t.Errorf("the file has %d bytes (%v), want %d still", n, err, 16*unit)
	}
}

func refuses(t *testing.T, d blk.Device, _ func() blk.Device) {
	unit := d.Block()
	f := Create(t, d, "a", int64(8*unit))
	buf := Buffer(t, d, 16*unit)
	good := blk.Request{Op: blk.Read, File: f, Buf: buf[:unit], ID: 7}
	for _, c := range []struct {
		what string
		r    blk.Request
	}{
		{"no memory", blk.Request{Op: blk.Read, File: f}},
		{"a length that is no block", blk.Request{Op: blk.Read, File: f, Buf: buf[:unit-1]}},
		{"an offset that is no block", blk.Request{Op: blk.Write, File: f, Offset: 1, Buf: buf[:unit]}},
		{"a negative offset", blk.Request{Op: blk.Write, File: f, Offset: int64(-unit), Buf: buf[:unit]}},
		{"beyond the end", blk.Request{Op: blk.Read, File: f, Offset: int64(8 * unit), Buf: buf[:unit]}},
		{"across the end", blk.Request{Op: blk.Write, File: f, Offset: int64(7 * unit), Buf: buf[:2*unit]}},
		{"unaligned memory", blk.Request{Op: blk.Read, File: f, Buf: buf[8 : 8+unit]}},
		{"foreign memory", blk.Request{Op: blk.Read, File: f, Buf: foreign(t, unit)}},
		{"no file", blk.Request{Op: blk.Read, File: 99, Buf: buf[:unit]}},
		{"a negative file", blk.Request{Op: blk.Sync, File: -1}},
		{"discard of nothing", blk.Request{Op: blk.Discard, File: f}},
		{"discard across the end", blk.Request{Op: blk.Discard, File: f, Offset: int64(4 * unit), Len: int64(8 * unit)}},
		{"discard that overflows", blk.Request{Op: blk.Discard, File: f, Offset: int64(4 * unit), Len: math.MaxInt64 - int64(unit) + 1}},
		{"an unknown operation", blk.Request{Op: 99, File: f}},
		{"a name with a slash", blk.Request{Op: blk.Make, Name: "b/c", Len: int64(unit)}},
		{"a hidden name", blk.Request{Op: blk.Unlink, Name: ".lock"}},
		{"a parent's name", blk.Request{Op: blk.Unlink, Name: ".."}},
		{"no name", blk.Request{Op: blk.Unlink}},
		{"a file of no length", blk.Request{Op: blk.Make, Name: "b"}},
		{"a file of half a block", blk.Request{Op: blk.Make, Name: "b", Len: int64(unit / 2)}},
	} {
		taken, err := d.Submit([]blk.Request{good, c.r, good})
		wantErr(t, c.what, err, blk.ErrRequest)
		if taken != 1 {
			t.Errorf("%s: took %d requests, want the one before", c.what, taken)
		}
		for _, r := range collect(t, d, taken) {
			if r.ID != 7 || r.Err != nil {
				t.Errorf("%s: the request before it ended with %+v", c.what, r)
			}
		}
	}
	_, err := d.Create("b", int64(unit)+1)
	wantErr(t, "Create of half a block", err, blk.ErrRequest)
	_, err = d.Create("../b", int64(unit))
	wantErr(t, "Create elsewhere", err, blk.ErrRequest)
	_, _, err = d.Open(".lock")
	wantErr(t, "Open of a hidden name", err, blk.ErrRequest)
	wantErr(t, "Rename to a hidden name", d.Rename("a", ".a"), blk.ErrRequest)
	list(t, d, "a")
}

// foreign is aligned memory that the device did not give.
func foreign(t *testing.T, size int) []byte {
	a, err := mem.New(mem.Config{Size: size, Node: -1, Purpose: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a.Bytes()
}

func onResult(t *testing.T, d blk.Device, _ func() blk.Device) {
	bell := make(chan struct{}, 1)
	d.OnResult(func() {
		select {
		case bell <- struct{}{}:
		default:
		}
	})
	unit := d.Block()
	f := Create(t, d, "a", int64(64*unit))
	buf := Buffer(t, d, 64*unit)
	var out [3]blk.Result
	for round := range 50 {
		n := 1 + round%min(d.Depth(), 20)
		rs := make([]blk.Request, n)
		for i := range rs {
			rs[i] = blk.Request{Op: blk.Read, File: f, Offset: int64(i * unit), Buf: buf[i*unit : (i+1)*unit]}
		}
		if round%20 == 0 {
			rs[0] = blk.Request{Op: blk.Make, Name: fmt.Sprintf("b%d", round), Len: int64(unit)}
		}
		if taken, err := d.Submit(rs); taken != n || err != nil {
			t.Fatalf("Submit took %d of %d: %v", taken, n, err)
		}
		for done := 0; done < n; {
			k := d.Poll(out[:])
			if done += k; k == len(out) || done == n {
				continue
			}
			select {
			case <-bell:
			case <-time.After(Patience):
				t.Fatalf("round %d: %d of %d results, and nobody calls", round, done, n)
			}
		}
	}
}

func waitEnds(t *testing.T, d blk.Device, _ func() blk.Device) {
	wantErr(t, "Wait with nothing in flight", d.Wait(time.Now().Add(Patience)), blk.ErrIdle)
	wantErr(t, "Wait with nothing in flight and no time", d.Wait(time.Time{}), blk.ErrIdle)
	f := Create(t, d, "a", int64(d.Block()))
	if n, err := d.Submit([]blk.Request{{Op: blk.Sync, File: f}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	collect(t, d, 1)
	wantErr(t, "Wait after all results", d.Wait(time.Now().Add(Patience)), blk.ErrIdle)
}

func buffers(t *testing.T, d blk.Device, _ func() blk.Device) {
	_, err := d.Buffers(0)
	wantErr(t, "Buffers of nothing", err, blk.ErrRequest)
	f := Create(t, d, "a", 4096)
	var once sync.Once
	for i := range blk.MaxBuffers {
		b := Buffer(t, d, 4096*(1+i%3))
		if len(b) != 4096*(1+i%3) || mem.Address(b)%4096 != 0 {
			t.Fatalf("buffer %d: %d bytes at %#x", i, len(b), mem.Address(b))
		}
		Must(t, d, blk.Request{Op: blk.Read, File: f, Buf: b[:4096]})
		once.Do(func() { fill(b, seedtest.Rand(t)) })
	}
	_, err = d.Buffers(4096)
	wantErr(t, "one buffer too many", err, blk.ErrRequest)
}

func closeInFlight(t *testing.T, d blk.Device, _ func() blk.Device) {
	unit := d.Block()
	n := min(d.Depth(), 16)
	f := Create(t, d, "a", int64(n*unit))
	buf := Buffer(t, d, n*unit)
	rs := []blk.Request{{Op: blk.Make, Name: "b", Len: int64(unit)}}
	for i := range n - 1 {
		rs = append(rs, blk.Request{Op: blk.Write, File: f, Offset: int64(i * unit), Buf: buf[i*unit : (i+1)*unit]})
	}
	if taken, err := d.Submit(rs); taken != n || err != nil {
		t.Fatal(taken, err)
	}
	if n > 1 {
		wantErr(t, "CloseFile with requests in flight", d.CloseFile(f), blk.ErrRequest)
	}
}

func describes(t *testing.T, d blk.Device, _ func() blk.Device) {
	if d.Block() != 512 && d.Block() != 4096 {
		t.Errorf("Block is %d", d.Block())
	}
	if d.Depth() < 1 {
		t.Errorf("Depth is %d", d.Depth())
	}
	free, total, err := d.Space()
	if err != nil || free <= 0 || total < free {
		t.Errorf("Space: %d of %d, %v", free, total, err)
	}
	if d.String() == "" {
		t.Error("String is empty")
	}
	t.Log(d)
}
