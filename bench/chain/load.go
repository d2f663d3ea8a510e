package chain

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"math"
	"sync"
	"time"

	"psrt/sched/client"
	"psrt/sched/place"
)

// worker is one client, and what it has pushed. Keys of different workers differ, so
// each knows its rows' sums.
type worker struct {
	client *client.Client
	rows   []*client.Rows
	calls  []client.Call
	pushed []int // by rows: acknowledged
	step   uint64
}

// to is where workers go: a map of chains, or a server alone.
type to struct {
	chains *place.Chains
	addr   string
}

func (st *station) worker(ctx context.Context, number int, where to) (*worker, error) {
	cfg := client.Config{Worker: number, Chains: where.chains, Host: st.host, Timeout: patience, Node: -1}
	if where.chains == nil {
		m, err := aloneMap(where.addr)
		if err != nil {
			return nil, err
		}
		cfg.Map = m
	}
	c, err := client.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &worker{client: c}, nil
}

// plan gives the worker sets of rows, of n keys each from first on.
func (w *worker) plan(sets, n int, first uint64) error {
	for range sets {
		r, err := w.client.NewRows(sums)
		if err != nil {
			return err
		}
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = first + uint64(i)
		}
		first += uint64(n)
		if err := r.Plan([][]uint64{keys}, [][]int32{make([]int32, n)}); err != nil {
			return err
		}
		w.rows, w.pushed = append(w.rows, r), append(w.pushed, 0)
	}
	w.calls = make([]client.Call, len(w.rows))
	return nil
}

// grad is what each push adds to an element of a key, with its sign turned.
func grad(key uint64) float32 { return float32(1 + key%7) }

// push sends set i.
func (w *worker) push(i int) error {
	r := w.rows[i]
	g := r.Grads()
	for k, key := range r.Keys() {
		row := g[k*dim : (k+1)*dim]
		for j := range row {
			row[j] = -grad(key)
		}
	}
	w.step++ // the first is 0
	return w.client.Push(r, w.step-1, true, &w.calls[i])
}

// wait is until set i's push is acknowledged.
func (w *worker) wait(i int) error {
	if err := w.client.Wait(&w.calls[i]); err != nil {
		return err
	}
	w.pushed[i]++
	return nil
}

// stream pushes the sets in turns, all of them on their way, until d has passed and at
// least each was once. It returns the pushes and the time between the first's
// acknowledgement and the last's.
func (w *worker) stream(d time.Duration) (pushes int, took time.Duration, err error) {
	for i := range w.rows {
		if err := w.push(i); err != nil {
			return 0, 0, err
		}
	}
	var first, last time.Time
	for n, going := 0, len(w.rows); going > 0; n++ {
		i := n % len(w.rows)
		if err := w.wait(i); err != nil {
			return 0, 0, err
		}
		if last = time.Now(); n == 0 {
			first = last
		} else {
			pushes++
		}
		if last.Sub(first) < d || n < len(w.rows) {
			if err := w.push(i); err != nil {
				return 0, 0, err
			}
		} else {
			going--
		}
	}
	return pushes, last.Sub(first), nil
}

// fill pushes n rows from first on once, in pieces, and look pulls them.
func (w *worker) fill(first uint64, n, piece int) error {
	return w.pieces(first, n, piece, func() error {
		if err := w.push(0); err != nil {
			return err
		}
		return w.client.Wait(&w.calls[0])
	})
}

func (w *worker) look(first uint64, n, piece int) (string, error) {
	sum := crc32.NewIEEE()
	err := w.pieces(first, n, piece, func() error { return w.pull(0, 1, sum) })
	return fmt.Sprintf("%08x", sum.Sum32()), err
}

func (w *worker) pieces(first uint64, n, piece int, each func() error) error {
	for ; n > 0; n -= piece {
		keys := make([]uint64, min(n, piece))
		for i := range keys {
			keys[i] = first + uint64(i)
		}
		first += uint64(len(keys))
		if err := w.rows[0].Plan([][]uint64{keys}, [][]int32{make([]int32, len(keys))}); err != nil {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
	return nil
}

// check pulls all sets, and compares each element with what was acknowledged. The sum is
// over all bytes.
func (w *worker) check() (checksum string, err error) {
	sum := crc32.NewIEEE()
	for i := range w.rows {
		if err := w.pull(i, w.pushed[i], sum); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%08x", sum.Sum32()), nil
}

// pull pulls a set, each row of which was pushed so often.
func (w *worker) pull(i, pushed int, sum hash.Hash) error {
	r := w.rows[i]
	if err := w.client.Pull(r, w.step, client.AnyClock, &w.calls[i]); err != nil {
		return err
	}
	if err := w.client.Wait(&w.calls[i]); err != nil {
		return err
	}
	vals := r.Values()
	line := make([]byte, 0, rowBytes)
	for k, key := range r.Keys() {
		want := float32(pushed) * grad(key)
		line = line[:0]
		for _, v := range vals[k*dim : (k+1)*dim] {
			if v != want {
				return fmt.Errorf("chain: key %d is %g after %d pushes of %g that were acknowledged, want %g: please report it", key, v, pushed, grad(key), want)
			}
			line = binary.LittleEndian.AppendUint32(line, math.Float32bits(v))
		}
		sum.Write(line)
	}
	return nil
}

func (w *worker) close() {
	for _, r := range w.rows {
		r.Close()
	}
	w.client.Close()
}

// event is one pull or push that was answered: when, and how long it took.
type event struct {
	at   time.Time
	took time.Duration
}

// beat is a worker that pulls, or pushes, its sets of rows again and again, all of them at
// a time.
type beat struct {
	w      *worker
	pulls  bool
	mu     sync.Mutex
	events []event
	stop   chan struct{}
	done   chan struct{}
	err    error
}

// begin has the worker go on until end.
func (b *beat) begin() {
	b.stop, b.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(b.done)
		b.err = b.run()
	}()
}

func (b *beat) run() error {
	sets := len(b.w.rows)
	begun := make([]time.Time, sets)
	for n := 0; ; n++ {
		i := n % sets
		if n >= sets {
			if err := b.wait(i); err != nil {
				return err
			}
			now := time.Now()
			b.mu.Lock()
			b.events = append(b.events, event{now, now.Sub(begun[i])})
			b.mu.Unlock()
		}
		select {
		case <-b.stop:
			for k := max(0, n-sets+1); k < n; k++ {
				if err := b.wait(k % sets); err != nil {
					return err
				}
			}
			return nil
		default:
		}
		begun[i] = time.Now()
		if err := b.send(i); err != nil {
			return err
		}
	}
}

func (b *beat) send(i int) error {
	if b.pulls {
		return b.w.client.Pull(b.w.rows[i], b.w.step, client.AnyClock, &b.w.calls[i])
	}
	return b.w.push(i)
}

func (b *beat) wait(i int) error {
	if b.pulls {
		return b.w.client.Wait(&b.w.calls[i])
	}
	return b.w.wait(i)
}

func (b *beat) end() error {
	close(b.stop)
	<-b.done
	return b.err
}

// failed says why the worker has stopped by itself, nil while it goes on.
func (b *beat) failed() error {
	select {
	case <-b.done:
		return b.err
	default:
		return nil
	}
}

// between are the events in a stretch of time.
func (b *beat) between(from, until time.Time) (some []event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if !e.at.Before(from) && e.at.Before(until) {
			some = append(some, e)
		}
	}
	return some
}

// gap is the longest time without an answer in a stretch of time; the first begins with
// the answer before it, the last may not have ended.
func (b *beat) gap(from, until time.Time) (longest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last time.Time
	for _, e := range b.events {
		if !e.at.Before(until) {
			break
		}
		if !e.at.Before(from) && !last.IsZero() {
			longest = max(longest, e.at.Sub(last))
		}
		last = e.at
	}
	return max(longest, until.Sub(last))
}
