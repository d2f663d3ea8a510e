package chain

// link sends the log to the successor, in chunks, from where the successor is: go
// back and send again what is not acknowledged in time.
type link struct {
	known    bool // where the successor is: it has answered in this epoch
	have     uint64
	haveOff  int
	sent     uint64 // whole ops sent
	sentOff  int    // bytes of the next
	patience patience
	asked    bool
	saidHeld bool
}

// successor is who gets ops in step.
func (m *Machine) successor() (Node, bool) {
	switch {
	case m.pos >= 0 && m.pos < len(m.cfg.Chain)-1:
		return m.cfg.Chain[m.pos+1].Node, true
	case m.feed != nil && m.feed.inStep:
		return m.feed.to, true
	}
	return Node{}, false
}

func (l *link) tick(m *Machine) {
	to, ok := m.successor()
	if !ok || !m.clear() || l.known && l.have == m.last() && m.committed == l.have {
		l.patience.rest()
		return
	}
	if !l.patience.due(m.opt.ResendTicks) {
		return
	}
	l.sent, l.sentOff = l.have, l.haveOff
	m.send(Message{Kind: Sync, To: to, Seq: m.last(), Committed: m.committed})
}

// fill sends what there is, within the window.
func (l *link) fill(m *Machine) {
	to, ok := m.successor()
	if !ok || !m.clear() || m.feed != nil && !m.feed.whole { // a joiner takes ops when it has the copy
		return
	}
	if !l.known {
		if !l.asked {
			l.asked = true
			m.send(Message{Kind: Sync, To: to, Seq: m.last(), Committed: m.committed})
		}
		return
	}
	if l.sent < m.committed { // the successor has said so
		l.sent, l.sentOff = m.committed, 0
	}
	for l.inflight(m) < m.opt.InflightBytes {
		op := m.at(l.sent + 1)
		if op == nil {
			return
		}
		if op.Kind == Void {
			l.sentOff = 0
		}
		n := min(len(op.Body)-l.sentOff, m.opt.ChunkBytes)
		if n <= 0 && !op.whole() { // nothing new has come
			return
		}
		n = max(n, 0)
		m.send(Message{Kind: Data, To: to, Seq: op.Seq, Off: l.sentOff, Header: op.Header, Bytes: op.Body[l.sentOff : l.sentOff+n : l.sentOff+n]})
		if l.sentOff += n; op.Kind == Void || l.sentOff == op.Size {
			l.sent, l.sentOff = l.sent+1, 0
		}
	}
}

// inflight is how many bytes are sent and not acknowledged.
func (l *link) inflight(m *Machine) int {
	n := l.sentOff - l.haveOff
	for s := max(l.have, m.committed) + 1; s <= l.sent; s++ {
		if op := m.at(s); op != nil {
			n += op.Size + 64 // many empty ops count, too
		}
	}
	return n
}

// acked is the successor's word.
func (l *link) acked(m *Machine, msg *Message) {
	had := m.committed
	more := !l.known || msg.Seq > l.have || msg.Seq == l.have && msg.Off > l.haveOff
	if more {
		if !l.known {
			l.sent, l.sentOff = msg.Seq, msg.Off
		}
		l.known = true
		l.have, l.haveOff = msg.Seq, msg.Off
		if l.sent < l.have || l.sent == l.have && l.sentOff < l.haveOff {
			l.sent, l.sentOff = l.have, l.haveOff
		}
	}
	for end := m.ripe(min(msg.Committed, m.last())); m.committed < end; {
		m.commit()
	}
	if more || m.committed > had {
		l.patience.progress()
	}
}

// Step takes a message.
func (m *Machine) Step(msg Message) {
	switch {
	case msg.Group != m.group || msg.To != m.self:
		return
	case msg.Epoch > m.cfg.Epoch:
		m.report(Report{Kind: NeedMap, Epoch: msg.Epoch})
		return
	case msg.Epoch < m.cfg.Epoch:
		if msg.Kind != Moved {
			m.send(Message{Kind: Moved, To: msg.From})
		}
		return
	}
	switch msg.Kind {
	case Sync:
		if m.isPredecessor(msg.From) {
			m.heard, m.ackDue = true, true
		}
	case Data:
		if m.isPredecessor(msg.From) {
			m.heard = true
			m.receive(&msg)
		}
	case Ack:
		if to, ok := m.successor(); ok && m.has && msg.From == to {
			m.next.acked(m, &msg)
		}
	case Feed:
		if m.joined != nil && m.isFeeder(msg.From) {
			m.joined.receive(m, &msg)
		}
	case Fed:
		if m.feed != nil && m.has && msg.From == m.feed.to {
			m.feed.acked(m, msg.Seq)
		}
	case Ask:
		if m.MayRead(msg.Epoch, Newest, 0) == ReadNow && m.cfg.position(msg.From) >= 0 {
			m.send(Message{Kind: Tell, To: msg.From, Seq: msg.Seq, Committed: m.committed})
		}
	case Tell:
		if m.asks[msg.Seq] {
			delete(m.asks, msg.Seq)
			m.report(Report{Kind: Told, Epoch: m.cfg.Epoch, Ask: msg.Seq, Seq: msg.Committed})
		}
	}
	m.drive()
}

func (m *Machine) isPredecessor(n Node) bool {
	if m.has {
		return m.pos > 0 && m.cfg.Chain[m.pos-1].Node == n
	}
	return m.joined != nil && m.joined.whole && m.isFeeder(n)
}

func (m *Machine) isFeeder(n Node) bool { return m.cfg.Chain[len(m.cfg.Chain)-1].Node == n }

// receive takes bytes of an op if the next are among them, for what is sent again may be
// cut otherwise; in any case it says what is here.
func (m *Machine) receive(msg *Message) {
	m.ackDue = true
	h := &msg.Header
	if msg.Seq != m.last()+1 || h.Seq != msg.Seq || h.Size < 0 {
		return
	}
	op, here := m.at(msg.Seq), 0 // of its bytes
	if op != nil && h.Kind != Void {
		here = len(op.Body) - msg.Off
	}
	switch {
	case msg.Off < 0 || here < 0 || here > len(msg.Bytes) || op == nil && msg.Off != 0 || op != nil && h.Kind != Void && h.Size != op.Size:
		return
	case op == nil:
		op = &Op{Header: *h}
		if h.Kind != Void && h.Size > len(msg.Bytes) { // room for all of it: appending chunks would move it again and again
			op.Body = make([]byte, 0, min(h.Size, m.opt.LogBytes))
		}
		m.append(op)
	case h.Kind == Void:
		m.logBytes -= op.Size
		op.Header, op.Body = *h, nil
	}
	if op.Kind != Void {
		op.Body = append(op.Body, msg.Bytes[here:min(len(msg.Bytes), here+op.Size-len(op.Body))]...)
	}
	if op.whole() && m.joined != nil {
		m.joined.take(m)
	}
}
