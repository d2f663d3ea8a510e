package dataset

import "io"

// scan numbers the rows of the whole stream, hands the text of own leaves to
// the parsers, and announces every global batch once its last row is known.
func (p *pipeline) scan(all func(*scanner) error) {
	defer close(p.order)
	defer close(p.tasks)
	p.busy.Enter()
	defer p.busy.Leave()
	s := scanner{pipeline: p}
	if err := all(&s); err != nil {
		s.fail(err)
	} else if s.row > 0 {
		s.endBatch()
	}
}

func (s *scanner) files() error {
	for _, in := range s.src.inputs {
		if err := s.file(in); err != nil {
			return err
		}
	}
	return nil
}

// scanner is the state of a scan between two lines.
type scanner struct {
	*pipeline
	buf   []byte
	index int    // of the global batch
	first uint64 // position of its first row
	row   int    // rows of it seen
	batch *pending
	text  *leafText // of the own leaf being filled
	at    Cursor    // of a stream
}

// errStopped ends a scan whose consumer has gone; nobody sees it.
type errStopped struct{}

func (errStopped) Error() string { return "dataset: reader closed" }

func (s *scanner) file(f *input) error {
	if err := f.id.check(); err != nil {
		return err
	}
	in, err := openRows(s.ctx, f.path, &s.src.opts, s.buf, s.src.warn)
	if err != nil {
		return err
	}
	defer in.Close()
	if l, ok := in.(*lines); ok {
		defer func() { s.buf = l.buf }()
	}
	header := f.header
	for {
		line, err := in.next()
		if err == io.EOF {
			return f.id.check() // it may have grown meanwhile
		}
		if err != nil {
			return err
		}
		if header {
			header = false
			continue
		}
		if err := s.line(line, f, in.number()); err != nil {
			return err
		}
	}
}

func (s *scanner) line(line []byte, in *input, number int) error {
	if s.row == 0 {
		if s.ctx.Err() != nil {
			return errStopped{}
		}
		s.batch = &pending{step: s.pool.take(s.share), done: make(chan struct{})}
		s.batch.left.Store(1)
		s.batch.step.From = Cursor{Entry: s.at.Entry, Rows: s.at.Rows, Step: s.index, First: s.first}
	}
	leaf := s.row / s.share.Micro
	if leaf >= s.share.First && leaf < s.share.Last {
		if s.text == nil {
			var ok bool
			if s.text, ok = receive(s.ctx, s.busy, s.idle); !ok {
				return errStopped{}
			}
		}
		s.text.add(line, in, number)
	}
	s.row++
	if s.row%s.share.Micro == 0 || s.row == s.share.Batch {
		if err := s.endLeaf(leaf); err != nil {
			return err
		}
	}
	if s.row == s.share.Batch {
		return s.endBatch()
	}
	return nil
}

func (s *scanner) endLeaf(leaf int) error {
	if s.text == nil {
		return nil
	}
	t := s.text
	t.batch, t.leaf = s.batch, leaf-s.share.First
	s.batch.left.Add(1)
	if !send(s.ctx, s.busy, s.tasks, t) {
		return errStopped{}
	}
	s.text = nil
	return nil
}

func (s *scanner) endBatch() error {
	if err := s.endLeaf((s.row - 1) / s.share.Micro); err != nil {
		return err
	}
	b := s.batch
	b.step.Index, b.step.Rows, b.step.FirstRow = s.index, s.row, s.first
	s.index, s.first, s.row, s.batch = s.index+1, s.first+uint64(s.row), 0, nil
	b.finish()
	return s.announce(b)
}

func (s *scanner) announce(b *pending) error {
	if !send(s.ctx, s.busy, s.order, b) {
		return errStopped{}
	}
	return nil
}

// fail lets the error take its turn behind the batches before it. Bad rows
// already handed out in the same batch come first: they are earlier in the file.
func (s *scanner) fail(err error) {
	if _, stopped := err.(errStopped); stopped {
		return
	}
	b := s.batch
	if b == nil {
		b = &pending{done: make(chan struct{})}
		b.left.Store(1)
	}
	b.fail(s.share.Leaves(), err)
	b.finish()
	s.announce(b)
}
