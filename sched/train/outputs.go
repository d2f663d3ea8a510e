package train

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"psrt/sched/outfile"
)

// The streams of what is scored.
const (
	streamScores  = iota // text, a line a row
	streamIDs            // 8 bytes a row
	streamVectors        // 4 bytes a float
	streams
)

// Outputs takes what is scored to its files: scores as text, ids and vectors as Emit
// says. One goroutine uses it.
type Outputs struct {
	to   [streams]io.Writer // nil: nobody wants it
	emit *emitter
	buf  [streams][]byte // of a leaf, or of a run
	run  bool            // buf is written run by run
	rows int64
	bad  int64 // scores that are not finite
	ends []ending
}

// ending is how a file is ended: what is buffered goes to it, and then, all being well with
// every one, it is kept.
type ending struct {
	flush func() error
	end   func(keep bool) error
}

// createOut finds out at once whether the name that a flag gives can be written.
func createOut(flag, name string) (*outfile.File, error) {
	f, err := outfile.Create(name)
	if err != nil {
		return nil, &InputError{fmt.Errorf("train: %s: %w", flag, err)}
	}
	return f, nil
}

// NewOutputs opens the files of a process that scores all rows: scores go to the file out,
// or else to an open one, which may be nil and stays open.
func (s *Scorer) NewOutputs(out string, scores io.Writer, emit *Emit) (*Outputs, error) {
	o := &Outputs{}
	if out != "" {
		f, err := createOut("--out", out)
		if err != nil {
			return nil, err
		}
		o.add(streamScores, f, f.End)
	} else if scores != nil {
		o.add(streamScores, scores, func(bool) error { return nil })
	}
	if emit != nil {
		if err := o.emitTo(s, emit); err != nil {
			return nil, o.End(err)
		}
	}
	return o, nil
}

// add has a stream go somewhere, by way of a buffer.
func (o *Outputs) add(stream int, w io.Writer, end func(keep bool) error) {
	b := bufio.NewWriterSize(w, 1<<16)
	o.to[stream] = b
	o.ends = append(o.ends, ending{b.Flush, end})
}

// emitTo opens the files of an index.
func (o *Outputs) emitTo(s *Scorer, emit *Emit) (err error) {
	if o.emit, err = emit.newEmitter(s.model); err != nil {
		return err
	}
	return openIndex(emit, o.emit.dim, func(stream int, f *npyFile) { o.add(stream, f, f.End) })
}

// openIndex makes the files of an index and gives each to its stream.
func openIndex(emit *Emit, dim int, give func(stream int, f *npyFile)) error {
	ids, vectors := emit.Files()
	f, err := createNpy(ids, "<u8", 0, 8)
	if err != nil {
		return err
	}
	give(streamIDs, f)
	if f, err = createNpy(vectors, "<f4", dim, 4*dim); err != nil {
		return err
	}
	give(streamVectors, f)
	return nil
}

// Add takes a leaf.
func (o *Outputs) Add(l *ScoredLeaf) (err error) {
	for _, p := range l.Preds {
		if p-p != 0 { // of NaN and the infinite it is NaN
			o.bad++
		}
	}
	if o.to[streamScores] != nil {
		for _, p := range l.Preds {
			o.buf[streamScores] = append(strconv.AppendFloat(o.buf[streamScores], float64(p), 'g', -1, 32), '\n')
		}
	}
	if o.emit != nil {
		o.buf[streamIDs], o.buf[streamVectors], err = o.emit.append(l, o.buf[streamIDs], o.buf[streamVectors])
	}
	o.rows += int64(l.Rows.Len())
	if err == nil && !o.run {
		err = o.flush()
	}
	return err
}

// Rows is how many were added.
func (o *Outputs) Rows() int64 { return o.rows }

// NotFinite is how many of their scores are NaN or infinite.
func (o *Outputs) NotFinite() int64 { return o.bad }

// flush writes what was added.
func (o *Outputs) flush() error {
	for i, w := range o.to {
		if w == nil {
			continue
		}
		if o.run {
			if err := binary.Write(w, binary.LittleEndian, uint64(len(o.buf[i]))); err != nil {
				return err
			}
		}
		if _, err := w.Write(o.buf[i]); err != nil {
			return err
		}
		o.buf[i] = o.buf[i][:0]
	}
	return nil
}

// End ends all files. They have their names where err is nil and nothing fails, and are
// gone otherwise.
func (o *Outputs) End(err error) error {
	for _, e := range o.ends {
		if err == nil {
			err = e.flush()
		}
	}
	keep := err == nil
	for _, e := range o.ends {
		err = errors.Join(err, e.end(keep))
	}
	o.ends = nil
	return err
}

// partName is where a rank leaves a stream until all are put together.
func (p *Predict) partName(stream, rank int) string {
	return fmt.Sprintf("%s.rank-%d.part", p.fileName(stream), rank)
}

// fileName is where a stream is in the end.
func (p *Predict) fileName(stream int) string {
	if stream == streamScores {
		return p.Out
	}
	ids, vectors := p.Emit.Files()
	return map[int]string{streamIDs: ids, streamVectors: vectors}[stream]
}

// wanted are the streams that somebody wants.
func (p *Predict) wanted() (all []int) {
	if p.Out != "" {
		all = append(all, streamScores)
	}
	if p.Emit != nil {
		all = append(all, streamIDs, streamVectors)
	}
	return all
}

// RemoveParts takes away what ranks have left that were killed: their parts, and what
// worker 0 was putting together.
func (p *Predict) RemoveParts(ranks int) {
	for _, stream := range p.wanted() {
		for rank := range ranks {
			_ = os.Remove(p.partName(stream, rank)) // most are gone
		}
		_ = os.Remove(outfile.TmpName(p.fileName(stream)))
	}
}

// openParts has a rank's streams go to files of its own: a length and so many bytes for
// each run. The files are gone when cleaned.
func (p *Predict) openParts(s *Scorer, rank int) (o *Outputs, clean func(), err error) {
	o = &Outputs{run: true}
	var made []string
	clean = func() {
		for _, name := range made {
			_ = os.Remove(name) // it is somebody's to find it, if it stays
		}
	}
	if p.Emit != nil {
		if o.emit, err = p.Emit.newEmitter(s.model); err != nil {
			return o, clean, err
		}
	}
	for _, stream := range p.wanted() {
		name := p.partName(stream, rank)
		f, err := os.Create(name)
		if err != nil {
			return o, clean, &InputError{fmt.Errorf("train: a rank's part of the output: %w", err)}
		}
		made = append(made, name)
		o.add(stream, f, func(bool) error { return f.Close() }) // until it is cleaned
	}
	return o, clean, nil
}

// whole is the files that worker 0 makes of all ranks' parts, open from the beginning.
type whole struct {
	into [streams]io.Writer
	ends []func(keep bool) error
}

// openWhole finds out before the work whether the files can be made.
func (p *Predict) openWhole(s *Scorer) (*whole, error) {
	o := &whole{}
	add := func(stream int, w io.Writer, end func(bool) error) { o.into[stream], o.ends = w, append(o.ends, end) }
	if p.Out != "" {
		f, err := createOut("--out", p.Out)
		if err != nil {
			return nil, err
		}
		add(streamScores, f, f.End)
	}
	if p.Emit != nil {
		err := openIndex(p.Emit, s.model.Spec().Dim, func(stream int, f *npyFile) { add(stream, f, f.End) })
		if err != nil {
			return nil, errors.Join(err, o.end(false))
		}
	}
	return o, nil
}

// end gives the files their names, or takes them away; a second one does nothing.
func (o *whole) end(keep bool) (err error) {
	if o == nil {
		return nil
	}
	for _, end := range o.ends {
		err = errors.Join(err, end(keep))
	}
	o.ends = nil
	return err
}

// putTogether makes the files of all ranks' parts: their runs in turn.
func (p *Predict) putTogether(o *whole, ranks int) error {
	for stream, w := range o.into {
		if w != nil {
			if err := p.putStream(stream, ranks, w); err != nil {
				return err
			}
		}
	}
	return o.end(true)
}

func (p *Predict) putStream(stream, ranks int, w io.Writer) error {
	parts := make([]*bufio.Reader, ranks)
	for r := range parts {
		f, err := os.Open(p.partName(stream, r))
		if err != nil {
			return &InputError{fmt.Errorf("train: worker %d's part is not where worker 0 can read it: %w; give --out and --emit names on a file system that all hosts have", r, err)}
		}
		defer f.Close()
		parts[r] = bufio.NewReaderSize(f, 1<<16)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	for {
		for r, part := range parts {
			var n uint64
			err := binary.Read(part, binary.LittleEndian, &n)
			if err == io.EOF && r == 0 {
				return out.Flush()
			}
			if err == nil {
				_, err = io.CopyN(out, part, int64(n))
			}
			if err != nil {
				return fmt.Errorf("train: worker %d's part %s ends too early: %w; is another psrt predict writing there?", r, p.partName(stream, r), err)
			}
		}
	}
}
