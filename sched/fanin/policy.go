package fanin

// Kind is what a transfer is for.
type Kind uint8

const (
	Pull  Kind = iota // the keys of a pull: somebody waits for the answer
	Push              // gradients
	kinds = iota
)

func (k Kind) String() string {
	if k >= kinds {
		return "?"
	}
	return [...]string{"pull", "push"}[k]
}

// Grant lets a worker write Bytes bytes of its transfer ID, from Offset on.
type Grant struct {
	Worker int
	ID     uint64
	Offset int64
	Bytes  int64
}

type transfer struct {
	id      uint64
	size    int64
	granted int64
	landed  int64 // always <= granted <= size
	kind    Kind
}

type worker struct {
	transfers []transfer // in the order of announcement
	waiting   [kinds]int // of transfers, those not fully granted
	deficit   [kinds]int64
	owed      int64 // granted and not landed
	since     int64 // of this silence; meaningful while in Policy.owing
	standing  standing
	trial     bool // was aside, has landed nothing in time since
	heard
}

// Policy is the receiver's. It belongs to one goroutine. Nothing is allocated
// after New but errors and what the caller's slice of grants needs.
type Policy struct {
	cfg     Config
	workers []worker
	// turns are the workers that wait for a grant, by kind; trial are those on
	// trial that wait, of either kind. One that is late or aside is in none.
	turns [kinds]ring
	trial ring
	crowd crowd
	// owing are the workers in outstanding, the longest silent in front.
	// late are those in lent, in the same order.
	owing, late ring

	now         int64
	outstanding int64 // bytes that count for the window; owed is this, lent and aside
	lent, aside int64
	answers     int64 // bytes that this side has on its way to the workers
	onTrial     int64 // part of outstanding: owed by workers on trial
	ahead       int64 // bytes of pulls since a push waits
	pacedTo     int64 // when all granted so far has passed at the pace
	pacedUntil  int64 // when it allows the next grant; Never if it does not hold one up
	est         estimator
	drain       drain
	stats       Stats
}

// New starts without transfers.
func New(cfg Config) (*Policy, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	p := &Policy{cfg: cfg, workers: make([]worker, cfg.Workers), pacedUntil: Never,
		trial: newRing(cfg.Workers), owing: newRing(cfg.Workers), late: newRing(cfg.Workers)}
	for k := range p.turns {
		p.turns[k] = newRing(cfg.Workers)
	}
	all := make([]transfer, cfg.Workers*cfg.Transfers)
	for i := range p.workers {
		at := i * cfg.Transfers
		p.workers[i].transfers = all[at : at : at+cfg.Transfers]
	}
	p.est = newEstimator(cfg)
	return p, nil
}

// Announce files a transfer. A worker's number is free again when the transfer
// has ended.
func (p *Policy) Announce(worker int, id uint64, bytes int64, kind Kind, now int64) error {
	fail := func(why error, value, limit int64) error {
		return &Error{Op: "announce", Worker: worker, ID: id, Value: value, Limit: limit, Err: why}
	}
	switch {
	case worker < 0 || worker >= len(p.workers):
		return fail(ErrWorker, int64(worker), int64(len(p.workers)-1))
	case kind >= kinds:
		return fail(ErrKind, int64(kind), int64(kinds-1))
	case bytes <= p.cfg.EagerBytes:
		return fail(ErrEager, bytes, p.cfg.EagerBytes+1)
	case bytes > p.cfg.MaxBytes:
		return fail(ErrTooLarge, bytes, p.cfg.MaxBytes)
	}
	w := &p.workers[worker]
	if len(w.transfers) == cap(w.transfers) {
		return fail(ErrFull, int64(len(w.transfers)+1), int64(cap(w.transfers)))
	}
	if w.find(id) >= 0 {
		return fail(ErrDuplicate, bytes, p.cfg.MaxBytes)
	}
	p.now = max(p.now, now)
	w.transfers = append(w.transfers, transfer{id: id, size: bytes, kind: kind})
	w.waiting[kind]++
	p.queue(int32(worker))
	return nil
}

// Arrived notes that bytes of a transfer have landed: a whole grant or a part
// of one, in the order of the grants. done is the end of the transfer.
func (p *Policy) Arrived(worker int, id uint64, bytes, now int64) (done bool, err error) {
	w, i, err := p.lookup("arrived", worker, id)
	if err != nil {
		return false, err
	}
	t := &w.transfers[i]
	if bytes <= 0 || bytes > t.granted-t.landed {
		return false, &Error{Op: "arrived", Worker: worker, ID: id, Value: bytes, Limit: t.granted - t.landed, Err: ErrUngranted}
	}
	p.now = max(p.now, now)
	at := int32(worker)
	onTime := w.standing == inWindow
	p.resume(at)
	t.landed += bytes
	p.outstanding -= bytes
	if w.trial {
		p.onTrial -= bytes
	}
	w.owed -= bytes
	p.est.landed(at, id, t.landed, bytes, p.now)
	p.owing.remove(at)
	if w.owed > 0 {
		w.since = p.now
		p.owing.add(at)
	} else if w.trial && onTime {
		w.trial = false
	}
	if done = t.landed == t.size; done {
		w.drop(i)
	}
	p.queue(at)
	return done, nil
}

// Cancel gives up what of a transfer is not granted yet. What is granted may
// be on its way, so the worker still owes it: it writes it, or its connection
// ends. owed is how much that is; at 0 the transfer has ended.
func (p *Policy) Cancel(worker int, id uint64, now int64) (owed int64, err error) {
	w, i, err := p.lookup("cancel", worker, id)
	if err != nil {
		return 0, err
	}
	p.now = max(p.now, now)
	t := &w.transfers[i]
	if t.granted < t.size {
		t.size = t.granted
		w.waiting[t.kind]--
	}
	if owed = t.granted - t.landed; owed == 0 {
		w.drop(i)
	}
	p.queue(int32(worker))
	return owed, nil
}

// Leave forgets all of a worker: nothing of it can arrive any more. It may
// announce again at once, as a new connection.
func (p *Policy) Leave(worker int, now int64) error {
	if worker < 0 || worker >= len(p.workers) {
		return &Error{Op: "leave", Worker: worker, Value: int64(worker), Limit: int64(len(p.workers) - 1), Err: ErrWorker}
	}
	p.now = max(p.now, now)
	w := &p.workers[worker]
	p.forget(int32(worker))
	_ = p.Say(worker, Plain) // a worker and a word that there are
	w.reset()
	p.queue(int32(worker))
	return nil
}

func (w *worker) reset() { *w = worker{transfers: w.transfers[:0]} }

func (p *Policy) lookup(op string, at int, id uint64) (*worker, int, error) {
	if at < 0 || at >= len(p.workers) {
		return nil, 0, &Error{Op: op, Worker: at, ID: id, Value: int64(at), Limit: int64(len(p.workers) - 1), Err: ErrWorker}
	}
	w := &p.workers[at]
	if i := w.find(id); i >= 0 {
		return w, i, nil
	}
	return nil, 0, &Error{Op: op, Worker: at, ID: id, Limit: int64(len(w.transfers)), Err: ErrUnknown}
}

func (w *worker) find(id uint64) int {
	for i := range w.transfers {
		if w.transfers[i].id == id {
			return i
		}
	}
	return -1
}

func (w *worker) drop(i int) { w.transfers = append(w.transfers[:i], w.transfers[i+1:]...) }

// first is the oldest transfer of a kind that is not fully granted.
func (w *worker) first(k Kind) *transfer {
	for i := range w.transfers {
		if t := &w.transfers[i]; t.kind == k && t.granted < t.size {
			return t
		}
	}
	return nil
}
