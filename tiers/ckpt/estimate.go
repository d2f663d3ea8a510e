package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync/atomic"
	"time"
)

// RowCount is the number of a table's rows, for reserving memory; exact unless
// a delta's writer did not say, in which case it is an upper bound.
func (m *Model) RowCount(tableID uint32) (rows int64, exact bool) {
	held, stated := int64(0), m.Kind == KindDelta
	for i := range m.Parts {
		if p := &m.Parts[i]; !p.Dense && p.Table == tableID {
			if p.Holds == nil {
				stated = false
				break
			}
			held += *p.Holds
		}
	}
	if stated {
		return held, true
	}
	links := 0
	for i := len(m.chain) - 1; i >= 0 && m.chain[i].Spec(tableID) != nil; i-- {
		rows += m.chain[i].Rows(tableID)
		links++
	}
	return rows, links == 1
}

// RowsIn is about how many rows of a table are in some slots, of which a part's
// have an even share of its rows.
func (m *Model) RowsIn(tableID uint32, want []Range) int {
	of := &m.Manifest
	if _, exact := m.RowCount(tableID); !exact {
		of = m.chain[0]
	}
	n := 0.0
	for i := range of.Parts {
		p := &of.Parts[i]
		if p.Dense || p.Table != tableID {
			continue
		}
		rows := p.Records
		if p.Holds != nil {
			rows = *p.Holds
		}
		n += float64(rows) * float64(common(p.Covers, want)) / float64(max(1, common(p.Covers, p.Covers)))
	}
	return int(n)
}

// common is how many numbers two lists of ranges, each in order, share.
func common(a, b []Range) (n int64) {
	for len(a) > 0 && len(b) > 0 {
		n += max(0, min(a[0].Last, b[0].Last)-max(a[0].First, b[0].First))
		if a[0].Last < b[0].Last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return n
}

// Estimate is how long a model takes to load.
type Estimate struct {
	Bytes  int64 // to be read
	Parts  int
	Passes int // over the part of a chain that is read most often; 1 unless ids exceed their budget
	Time   time.Duration
}

// EstimateLoad predicts a load of the rows of some slots (nil: all) and of all
// dense vectors, by so many workers at a measured rate: bytes / rate, and as
// overhead what opening took.
func (m *Model) EstimateLoad(bytesPerSecond float64, workers int, want []Range) Estimate {
	e := Estimate{Passes: 1}
	for i := range m.Tables {
		groups, err := m.groups(m.Tables[i].ID, want)
		if err != nil {
			continue // only for a table that is not there
		}
		n := int64(max(1, min(workers, len(groups))))
		for _, g := range groups {
			passes := g.passes(m.keyBudget / n)
			e.Passes = max(e.Passes, passes)
			for _, s := range g {
				e.Bytes += s.part.Bytes * int64(passes)
				e.Parts++
			}
		}
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Dense {
			e.Bytes += p.Bytes
			e.Parts++
		}
	}
	e.Time = m.opening + time.Duration(float64(e.Bytes)/max(1, bytesPerSecond)*float64(time.Second))
	return e
}

// MeasureRead reads at most so many bytes of the model, workers parts at once,
// as Rows does but without looking at them, and gives the bytes a second that
// the disk or store delivers. With cold it asks the machine to forget what it
// has of the files first.
func (m *Model) MeasureRead(ctx context.Context, workers int, atMost int64, cold bool) (float64, error) {
	var left, read atomic.Int64
	left.Store(atMost)
	var tasks []func(context.Context) error
	for _, of := range m.chain {
		for i := range of.Parts {
			name := path.Join(of.Generation, of.Parts[i].File)
			tasks = append(tasks, func(ctx context.Context) error { return m.drain(ctx, name, &left, &read, cold) })
		}
	}
	begun := time.Now()
	err := inParallel(ctx, workers, tasks)
	if err != nil {
		return 0, err
	}
	if read.Load() == 0 {
		return 0, fmt.Errorf("ckpt: %s has no bytes to measure a rate by", m.dir)
	}
	return float64(read.Load()) / max(time.Since(begun).Seconds(), 1e-9), nil
}

// drain reads a file while any of the bytes to be read are left.
func (m *Model) drain(ctx context.Context, name string, left, read *atomic.Int64, cold bool) error {
	if left.Load() <= 0 {
		return nil
	}
	r, err := m.fs.Open(ctx, name)
	if err != nil {
		return explain("opening", m.fs.Path(name), err)
	}
	defer r.Close()
	if cold {
		r.Forget()
	}
	a := newReadAhead(r, 0, r.Size())
	defer a.stop()
	buf := make([]byte, blockBytes)
	for left.Load() > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := a.Read(buf)
		read.Add(int64(n))
		left.Add(-int64(n))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return explain("reading", m.fs.Path(name), err)
		}
	}
	return nil
}
