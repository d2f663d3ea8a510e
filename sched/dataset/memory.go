package dataset

import (
	"io"
)

// store holds a share's parsed rows, exactly sized, batch after batch.
type store struct {
	steps []*Step
	bytes int64
}

// Bytes of a row: label and offset; of an occurrence: key, field and value.
const (
	rowBytes        = 4 + 4
	occurrenceBytes = 8 + 2 + 4
)

// load runs the pipeline once and keeps everything.
func (r *Reader) load() (*store, error) {
	limit := r.opts.MaxBytes
	why := "the limit given"
	if limit == 0 {
		limit, why = availableBytes()/2, "half of the memory available"
	}
	p := startPipeline(r.ctx, r.src, r.share, r.opts, r.pool)
	defer p.close()
	st := &store{}
	for {
		step, err := p.next()
		if err == io.EOF {
			return st, nil
		}
		if err != nil {
			return nil, err
		}
		st.bytes += step.bytes()
		if st.bytes > limit {
			return nil, fileError("", nil, "the rows of this worker take more than %s in memory (%s) after %d examples; use --dataset queue, or more workers",
				bytesText(limit), why, step.FirstRow)
		}
		st.steps = append(st.steps, step.compact())
		step.Release()
	}
}

func (s *Step) bytes() int64 {
	var n int64
	for i := range s.Leaves {
		n += int64(len(s.Leaves[i].Labels))*rowBytes + int64(len(s.Leaves[i].Keys))*occurrenceBytes
	}
	return n
}

// compact copies a step into memory of the exact size, one piece per array.
func (s *Step) compact() *Step {
	rows, occurrences := 0, 0
	for i := range s.Leaves {
		rows += len(s.Leaves[i].Labels)
		occurrences += len(s.Leaves[i].Keys)
	}
	labels, offsets := make([]float32, 0, rows), make([]int32, 0, rows+len(s.Leaves))
	keys, fields, values := make([]uint64, 0, occurrences), make([]uint16, 0, occurrences), make([]float32, 0, occurrences)
	t := &Step{Index: s.Index, Rows: s.Rows, FirstRow: s.FirstRow, Leaves: make([]Batch, len(s.Leaves))}
	for i := range s.Leaves {
		a, b := &s.Leaves[i], &t.Leaves[i]
		b.Labels, labels = take(labels, a.Labels)
		b.Offsets, offsets = take(offsets, a.Offsets)
		b.Keys, keys = take(keys, a.Keys)
		b.Fields, fields = take(fields, a.Fields)
		b.Values, values = take(values, a.Values)
	}
	return t
}

// take appends src to arena and gives the copy, capped so that it cannot grow
// into its neighbour, and the arena's remainder.
func take[T any](arena, src []T) (copied, rest []T) {
	n := len(arena)
	arena = append(arena, src...)
	return arena[n:len(arena):len(arena)], arena
}

// appendRow copies row i of src to the end of b.
func (b *Batch) appendRow(src *Batch, i int) {
	from, to := src.Offsets[i], src.Offsets[i+1]
	b.Labels = append(b.Labels, src.Labels[i])
	b.Keys = append(b.Keys, src.Keys[from:to]...)
	b.Fields = append(b.Fields, src.Fields[from:to]...)
	b.Values = append(b.Values, src.Values[from:to]...)
	b.Offsets = append(b.Offsets, int32(len(b.Keys)))
}
