package chain

// count notes an op in a table of clients.
func count(t map[uint32]Client, h *Header) {
	switch c := t[h.Worker]; h.Kind {
	case Enter:
		t[h.Worker] = Client{Worker: h.Worker, Client: h.Client, Last: c.Last}
	case Leave:
		c.Gone = true
		t[h.Worker] = c
	case Push, Order:
		c.Last = h.Push
		t[h.Worker] = c
	}
}

// judge says what a table makes of an op: Ordered for the next one.
func judge(t map[uint32]Client, h *Header) Verdict {
	c := t[h.Worker]
	switch {
	case h.Kind == Enter && h.Client > c.Client:
		return Ordered
	case h.Kind == Enter && h.Client == c.Client && !c.Gone && h.Client != 0:
		return Duplicate
	case h.Kind == Enter:
		return Stranger
	case h.Client != c.Client || h.Client == 0:
		return Stranger
	case h.Kind == Leave:
		if c.Gone {
			return Duplicate
		}
		return Ordered
	case h.Push <= c.Last:
		return Duplicate // also of one that left: it may ask what became of it
	case c.Gone:
		return Stranger
	case h.Push > c.Last+1:
		return Gap
	}
	return Ordered
}

// Submit gives the head an op for the order, in the epoch that its sender knows.
// h.Seq is not looked at. body may be the beginning of it: More brings the rest, and
// what is there is forwarded meanwhile. Ops behind it wait, so the shell begins one
// that flows. The body is the machine's until the op is committed or dropped.
func (m *Machine) Submit(epoch uint64, h Header, body []byte) (seq uint64, v Verdict) {
	switch v := m.Judge(epoch, &h); {
	case v == Wait:
		m.Flush()
		return 0, v
	case v != Ordered:
		return 0, v
	}
	k := len(m.log)
	h.Seq = m.committed + uint64(k) + 1
	m.append(&Op{h, body})
	count(m.ordered, &h)
	m.drive()
	return h.Seq, Ordered
}

// Judge is what Submit would say to such an op, whose body need not be there yet.
func (m *Machine) Judge(epoch uint64, h *Header) Verdict {
	if !m.isHead() || epoch != m.cfg.Epoch {
		return Elsewhere
	}
	switch v := judge(m.ordered, h); {
	case v == Duplicate && judge(m.clients, h) != Duplicate:
		return Pending
	case v == Duplicate && !m.leased:
		return Wait
	case v != Ordered:
		return v
	case m.held || m.noRoom(h.Size):
		return Wait
	}
	return Ordered
}

// noRoom says whether an op of this size has to wait.
func (m *Machine) noRoom(size int) bool {
	k := len(m.log)
	return k >= m.opt.LogOps || k > 0 && (m.logBytes+size > m.opt.LogBytes || !m.log[k-1].whole())
}

// Flush ends a run of ops that are merged, where the last one says that another
// follows: the shell calls it when none does. Nothing of a run is committed before
// its end.
func (m *Machine) Flush() {
	if m.endRun() {
		m.drive()
	}
}

func (m *Machine) endRun() bool {
	k := len(m.log)
	if !m.isHead() || k == 0 || !m.log[k-1].Merge || !m.log[k-1].whole() {
		return false
	}
	m.append(&Op{Header: Header{Seq: m.committed + uint64(k) + 1, Kind: Void}})
	return true
}

// ripe is the last op that may be committed of those up to seq: no run of merged
// ops is cut.
func (m *Machine) ripe(seq uint64) uint64 {
	for seq > m.committed && m.at(seq).Merge {
		seq--
	}
	return seq
}

func (m *Machine) append(op *Op) {
	m.log = append(m.log, op)
	m.logBytes += op.Size
}

// More brings bytes of the op that Submit began.
func (m *Machine) More(seq uint64, bytes []byte) {
	if op := m.at(seq); op != nil && m.isHead() && !op.whole() {
		op.Body = append(op.Body, bytes[:min(len(bytes), op.Size-len(op.Body))]...)
		m.drive()
	}
}

// Abort gives up an op that Submit began and whose worker is gone. Its place in
// the order stays, empty.
func (m *Machine) Abort(seq uint64) {
	op := m.at(seq)
	if op == nil || !m.isHead() || op.whole() {
		return
	}
	m.logBytes -= op.Size
	op.Kind, op.Merge, op.Body, op.Size = Void, false, nil, 0
	m.recount()
	m.drive()
}

// commitAsTail commits what a tail without a joiner in step has.
func (m *Machine) commitAsTail() {
	if !m.isTail() || !m.clear() || m.feed != nil && m.feed.inStep {
		return
	}
	for end := m.ripe(m.last()); m.committed < end && (m.feed == nil || !m.feed.full(m)); {
		for run := true; run; { // whole runs: what is committed may be copied and read
			run = m.log[0].Merge
			m.commit()
		}
	}
}

// commit does the log's first op to the state.
func (m *Machine) commit() {
	op := m.log[0]
	m.log[0] = nil
	m.log = m.log[1:]
	m.logBytes -= op.Size
	m.committed++
	count(m.clients, &op.Header)
	noted := m.feed != nil && m.feed.began && !m.feed.inStep
	note := m.state.Take(op, noted)
	if noted {
		m.feed.add(&Item{Kind: Later, Op: op, Note: note})
	}
	if m.pos == 0 && op.Kind != Void {
		d := Done{op.Header, m.cfg.Epoch}
		if op.Kind == Enter {
			d.Push = m.clients[op.Worker].Last
		}
		m.out.Done = append(m.out.Done, d)
	}
	m.ackDue = true
}

// ReadKind says how new what is read must be.
type ReadKind uint8

const (
	// Newest: all that was acknowledged to anybody before the read began. Only the
	// tail knows.
	Newest ReadKind = iota + 1
	// Clean: a state that was committed, and holds at least the ops that the reader
	// names; clocks and the worker's own acknowledged ops are such. Any member has one.
	Clean
)

// ReadVerdict is the answer.
type ReadVerdict uint8

const (
	ReadNow       ReadVerdict = iota + 1
	ReadWait                  // the state will come so far
	ReadElsewhere             // ask another, or get the map: this node may not serve
)

func (v ReadVerdict) String() string { return [...]string{"?", "now", "wait", "elsewhere"}[v] }

// MayRead says whether the state may be read, by a reader that knows this epoch.
func (m *Machine) MayRead(epoch uint64, kind ReadKind, atLeast uint64) ReadVerdict {
	switch {
	case !m.has || m.pos < 0 || !m.leased || epoch != m.cfg.Epoch:
		return ReadElsewhere
	case kind == Newest && !m.isTail():
		return ReadElsewhere
	case kind == Newest && !m.clear(), m.committed < atLeast:
		return ReadWait
	}
	return ReadNow
}

// Ask begins a read of the newest state at a member that is not the tail: once it
// is Told a sequence, that is what a Clean read must see. A question may get lost, or
// end with the epoch.
func (m *Machine) Ask() (ask uint64) {
	m.asked++
	if m.has && m.pos >= 0 {
		m.asks[m.asked] = true
		m.send(Message{Kind: Ask, To: m.cfg.Chain[len(m.cfg.Chain)-1].Node, Seq: m.asked})
	}
	return m.asked
}
