package dataset

import "io"

// scan numbers the rows of the whole stream, hands the text of own leaves to
// the parsers, and announces every global batch once its last row is known.
func (p *pipeline) scan() {
	defer p.wait.Done()
	defer close(p.order)
	defer close(p.tasks)
	p.busy.Enter()
	defer p.busy.Leave()
	s := scanner{pipeline: p}
	for i := range p.src.files {
		if err := s.file(i); err != nil {
			s.fail(err)
			return
		}
	}
	if s.row > 0 {
		s.endBatch()
	}
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
}

// errStopped ends a scan whose consumer has gone; nobody sees it.
type errStopped struct{}

func (errStopped) Error() string { return "dataset: reader closed" }

func (s *scanner) file(i int) error {
	in, err := openRows(s.ctx, s.src.files[i], &s.src.opts, s.buf)
	if err != nil {
		return err
	}
	defer in.Close()
	if l, ok := in.(*lines); ok {
		defer func() { s.buf = l.buf }()
	}
	header := s.src.headers[i]
	for {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if header {
			header = false
			continue
		}
		if err := s.line(line, i, in.number()); err != nil {
			return err
		}
	}
}

func (s *scanner) line(line []byte, file, number int) error {
	if s.row == 0 {
		if s.ctx.Err() != nil {
			return errStopped{}
		}
		s.batch = &pending{step: s.pool.take(s.share), done: make(chan struct{})}
		s.batch.left.Store(1)
	}
	leaf := s.row / s.share.Micro
	if leaf >= s.share.First && leaf < s.share.Last {
		if s.text == nil {
			var ok bool
			if s.text, ok = receive(s.ctx, s.busy, s.idle); !ok {
				return errStopped{}
			}
		}
		s.text.add(line, file, number)
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
