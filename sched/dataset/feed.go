package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Feed says what a stream consists of: entry after entry, decided once and for all
// readers. What a reader gives depends on the entries alone, so readers that have the
// same ones agree on every step.
type Feed interface {
	// Entry is the one numbered n, from 0, as soon as there is one; at is how the
	// reader stands before it. It may be asked for again after a Seek.
	Entry(ctx context.Context, n int, at FeedState) (Entry, error)
}

// Entry is one of: a file or a range of its rows, the end of a step that has rows, the
// end of a pass, the end of the stream.
type Entry struct {
	File string `json:"file,omitempty"`
	Size int64  `json:"size,omitempty"` // in bytes, when it was taken up
	// Sample is that of the file's Identity then; "": only its size is compared.
	Sample string `json:"sample,omitempty"`
	// From is the rows of the file before the range, Rows the most that are in it; 0: all.
	From  int64 `json:"from,omitempty"`
	Rows  int64 `json:"rows,omitempty"`
	Flush bool  `json:"flush,omitempty"`
	Pass  bool  `json:"pass,omitempty"`
	End   bool  `json:"end,omitempty"`
}

// FeedState is where a reader stands before an entry.
type FeedState struct {
	Pass int   // from 0
	Rows int64 // of the pass so far
	// Pending rows are in no step yet.
	Pending int
	// More says that the last file has a range behind it and did not end, as far as the
	// reader knows: one that was put at a place does not know.
	More bool
}

// Cursor is a place in a stream between two steps of a pass.
type Cursor struct {
	Entry int    `json:"entry"`
	Rows  int64  `json:"rows,omitempty"` // of the entry's range, before the place
	Step  int    `json:"step,omitempty"` // of the pass
	First uint64 `json:"first,omitempty"`
}

// NewStream makes a source of what a feed says; pass is how many rows end a pass, 0
// for as many as the feed has. The options must say what Open finds out elsewhere: the
// format, the number of fields, and what a schema leaves open.
func NewStream(feed Feed, pass int64, opts Options) (*Source, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Format == Auto || opts.Fields == 0 || pass < 0 {
		return nil, fmt.Errorf("dataset: a stream of format %s with %d fields in passes of %d rows; all must be known", opts.Format, opts.Fields, pass)
	}
	s := &Source{opts: opts, feed: feed, pass: pass}
	switch rule := opts.rule(); opts.Format {
	case Criteo:
		s.parser = newCriteoParser(rule)
	case CSV:
		s.opts.Schema = opts.Schema.clone()
		s.parser = newCSVParser(s.opts.Schema, rule)
	default:
		s.parser = &sparseParser{labels: rule, fielded: opts.Format == LibFFM, fields: opts.Fields}
	}
	return s, nil
}

// Seek puts a reader of a stream at a place of pass n, which another reader of the
// same feed had as a step's From or told as the Start of a pass.
func (r *Reader) Seek(n int, c Cursor) error {
	if err := r.Epoch(n); err != nil {
		return err
	}
	r.startsMu.Lock()
	defer r.startsMu.Unlock()
	r.starts = map[int]Cursor{n: c}
	r.held.close()
	return nil
}

// Start is where pass n begins, which must follow one that has been read to its end.
// Any goroutine may ask.
func (r *Reader) Start(n int) (Cursor, bool) {
	r.startsMu.Lock()
	defer r.startsMu.Unlock()
	c, ok := r.starts[n]
	return c, ok
}

// noteEnd remembers where the pass that has been read to its end ended.
func (r *Reader) noteEnd(p *pipeline) {
	r.startsMu.Lock()
	defer r.startsMu.Unlock()
	if _, known := r.starts[r.epoch+1]; !known {
		r.starts[r.epoch+1] = Cursor{Entry: p.end.Entry, Rows: p.end.Rows}
		delete(r.starts, r.epoch-2)
	}
}

// held is the file of a stream that is open between two ranges, or two passes.
type held struct {
	rows  rows
	input *input
	taken int64 // rows
	ahead head  // read ahead, to see whether the file has a header
	at    int   // of ahead's lines, the next
	err   error // that ended ahead
	form  form  // of the file before, or of this one once it was noted
	found found // of the files until now
}

func (h *held) close() {
	if h.rows != nil {
		h.rows.Close()
	}
	*h = held{form: h.form, found: h.found}
}

// next is the file's next row.
func (h *held) next() (row []byte, err error) {
	defer func() {
		if err == nil && h.input.first == 0 {
			h.input.first = h.number()
		}
	}()
	if h.at++; h.at <= len(h.ahead.lines) {
		return h.ahead.lines[h.at-1], nil
	}
	h.ahead.lines = nil
	if h.err != nil {
		return nil, h.err
	}
	return h.rows.next()
}

// number is that of the line last returned.
func (h *held) number() int {
	if h.at <= len(h.ahead.numbers) {
		return h.ahead.numbers[h.at-1]
	}
	return h.rows.number()
}

// open opens the entry's file, unless it is open where the range begins.
func (h *held) open(ctx context.Context, src *Source, e Entry, skip int64, buf []byte) error {
	trained := skip > 0 // of this range
	skip += e.From
	if h.rows != nil && h.input.path == e.File && h.taken <= skip {
		return h.skip(e.File, skip, trained)
	}
	h.close()
	info, err := os.Stat(e.File)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fileError(e.File, err, "the file has vanished since the stream took it up at %d bytes; files must stay until they are trained and a checkpoint behind them is whole", e.Size)
	case err != nil:
		return fileError(e.File, err, "cannot be read: %v", plain(err))
	case info.Size() != e.Size:
		return fileError(e.File, nil, "the file had %d bytes when the stream took it up, and has %d now; write files under a name that begins with a dot, and rename them when they are whole", e.Size, info.Size())
	}
	if e.Sample != "" {
		switch now, err := Identify(e.File); {
		case err != nil:
			return err
		case now.Sample != e.Sample:
			return fileError(e.File, nil, "the file has other content than when the job took it up, and as many bytes (%d), the last of %s; put it back as it was, and write new rows under a name of their own", e.Size, info.ModTime().Format("2006-01-02 15:04:05"))
		}
	}
	if h.rows, err = openRows(ctx, e.File, &src.opts, buf, src.warn); err != nil {
		h.rows = nil
		return err
	}
	h.input = &input{path: e.File}
	if csv, ok := src.parser.(*csvParser); ok && !h.rows.columns() {
		h.ahead = head{path: e.File, most: sniffHeadRows}
		if h.err = h.ahead.read(h.rows, sniffHeadBytes); len(h.ahead.lines) == 0 {
			return h.err
		}
		layout, isHeader, bad := csv.layout(src.opts.Schema, h.ahead.lines)
		if bad != nil {
			return bad.at(e.File, h.ahead.numbers[0])
		}
		if h.input.layout, h.input.header, h.input.first = layout, isHeader, h.ahead.numbers[0]; isHeader {
			h.at = 1
		}
		h.found.noteOrder(e.File, src.opts.Schema, csv, h.input)
		if err := h.found.oneOrder(); err != nil {
			return err
		}
	}
	return h.skip(e.File, skip, trained)
}

// skip goes to where so many rows are behind; trained says that they are there.
func (h *held) skip(path string, rows int64, trained bool) error {
	for ; h.taken < rows; h.taken++ {
		if _, err := h.next(); err == io.EOF && !trained {
			return nil // the file ended before the range, which was given without knowing it
		} else if err == io.EOF {
			return fileError(path, nil, "the file has %d rows, and %d of them had been trained: it is another one now", h.taken, rows)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// stream scans one pass of a feed.
func (s *scanner) stream(h *held, pass int) (err error) {
	defer func() {
		if s.end = s.at; err != nil {
			h.close() // it may be a row ahead of what was counted
		}
	}()
	for !s.full() {
		s.busy.Leave()
		e, err := s.src.feed.Entry(s.ctx, s.at.Entry, FeedState{Pass: pass, Rows: int64(s.first) + int64(s.row), Pending: s.row, More: h.rows != nil})
		s.busy.Enter()
		if s.ctx.Err() != nil {
			return errStopped{}
		}
		if err != nil {
			return err
		}
		switch {
		case e.File != "":
			if err := s.entry(h, e); err != nil {
				return err
			}
			if s.full() {
				return nil // maybe within the range
			}
		case s.row > 0:
			if err := s.endBatch(); err != nil {
				return err
			}
		}
		if e.End {
			return nil // and it is there again for the pass that follows
		}
		s.at.Entry, s.at.Rows = s.at.Entry+1, 0
		if e.Pass {
			return nil
		}
	}
	return nil
}

// full says whether the pass has its rows.
func (s *scanner) full() bool {
	return s.src.pass > 0 && s.row == 0 && int64(s.first) >= s.src.pass
}

// form is how a stream's file is read.
type form struct{ headerless, commented bool }

// note says how a file is read, where that is not how the one before was.
func (s *scanner) note(h *held) {
	f := form{headerless: h.input.layout != nil && !h.input.header}
	l, text := h.rows.(*lines)
	f.commented = text && l.comments > 0
	before := h.form
	if h.form = f; s.says == nil || f == before {
		return
	}
	if csv, ok := s.src.parser.(*csvParser); ok && f.headerless && !before.headerless && s.src.opts.Schema.headerOpen() {
		s.says(headerless(" in "+h.input.path, csv.columnNames(h.input.layout)))
	}
	if f.commented && !before.commented {
		s.says(fmt.Sprintf("%d comment line(s) skipped in %s", l.comments, h.input.path))
	}
}

// entry scans a range of a file, which stays open unless it ends.
func (s *scanner) entry(h *held, e Entry) error {
	if err := h.open(s.reader, s.src, e, s.at.Rows, s.buf); err != nil {
		return err
	}
	for noted := false; e.Rows == 0 || s.at.Rows < e.Rows; {
		line, err := h.next()
		if !noted { // comments are skipped by the first next
			s.note(h)
			noted = true
		}
		if err == io.EOF {
			if l, ok := h.rows.(*lines); ok {
				s.buf = l.buf
			}
			h.close()
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.line(line, h.input, h.number()); err != nil {
			return err
		}
		h.taken++
		s.at.Rows++
		if s.row > 0 && int64(s.first)+int64(s.row) == s.src.pass {
			if err := s.endBatch(); err != nil {
				return err
			}
		}
		if s.full() {
			return nil
		}
	}
	return nil
}
