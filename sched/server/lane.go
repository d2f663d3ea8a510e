package server

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/pin"
	"psrt/sched/audit"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/tiers"
	"psrt/tiers/dram"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// tableState is one table's part in one lane.
type tableState struct {
	spec    table.Spec
	sync    consistency
	rows    tiers.Rows
	version uint64     // pushes applied
	held    []*request // pushes not yet applied: BSP until the step is whole, else until the poll batch ends

	inMemory bool       // all of it: there is nothing to poll
	device   *hbm.Cache // the rows, where they lie on a device, nil: they do not
	sweep    int        // what is to be dropped, see sweepOn
	sweeping bool       // a walk has begun
	looking  int        // lookups under way
	reads    psmsg.AheadStats
	woken    atomic.Bool
}

// lane owns one share of the slots. See doc.go for who may touch it.
type lane struct {
	cfg    *Config
	index  int // within the server
	global int // within the map
	mux    *dial.Mux
	cmds   chan func()
	quit   bool
	gone   chan struct{} // closed when run has returned

	tables   map[uint32]*tableState
	order    []*tableState // by table ID, for digests and saving
	dense    denseState
	clock    *clock.Clock
	lastSeq  []uint64 // by worker: exactly-once
	refusals refusals
	parts    denseParts
	client   []uint64 // by worker: whose sequence lastSeq is; 0 = nobody's yet
	// generation is, by worker, of the newest process that has its number; held counts
	// the pauses that are on, and released says that one has ended, or that a held push has
	// its rows.
	generation []int
	pauses     []hold
	held       int
	released   bool
	bearing    bool // a step is whole, and waits for the rows that it makes
	was        retained
	past       past                // clients that had a number before
	sessions   map[uint32]*session // by number, also those that are not open yet
	numbered   uint32              // sessions, and links to other members, so far
	current    []*session          // by worker: its newest session, nil when gone
	readers    []*session          // likewise: that only reads
	parked     []*request          // pulls that wait for the clocks
	looking    []*request          // that wait for a disk
	starved    []*request          // that wait for rows to be let go, oldest first
	disks      atomic.Bool         // some table is woken
	tickets    uint64              // given so far: their ages
	ahead      []announced         // by worker
	passed     uint64              // the step that tables were told of last
	storage    *storage            // nil without disks
	cut        *cutting            // of a checkpoint, nil where none is under way
	lives      lives
	leads      leads
	freeRows   [][]uint32
	merge      mergeScratch
	stats      laneStats
	spills     spills
	traffic    traffic
	audit      *audit.Lane  // nil: nobody wants a record
	began      time.Time    // the work that a poll has brought
	epoch      time.Time    // what bounds that move count from
	pinned     error        // why the thread could not be kept on its node
	budget     *dram.Budget // of the tables that lie in memory, later ones too; nil without
	refusal    error        // why there was no memory for rows or values, newest
	lost       func(error)  // ends the server
	cs         [64]rdma.Completion

	chain *chained // of a replica, nil without

	links     []*link     // of this lane's sessions
	granted   atomic.Bool // some link's inbox has grants for this lane
	inbox     []granted
	lastFetch uint64
	later     []rdma.Completion // found by keepFetching, in order
	whole     []*request        // fetched meanwhile
}

type laneStats struct {
	pulls, pushes, duplicates, stale, expired, announced, merged, refused uint64
	busy                                                                  time.Duration
	copied                                                                psmsg.CopiedBytes
}

func newLane(cfg *Config, index, global int) (*lane, error) {
	l := &lane{
		cfg: cfg, index: index, global: global,
		mux:    dial.NewMux(cfg.Workers*cfg.sessionsEach()*cfg.sessionDepth() + cfg.linkDepth()),
		cmds:   make(chan func(), 16),
		gone:   make(chan struct{}),
		tables: map[uint32]*tableState{}, sessions: map[uint32]*session{},
		lastSeq: make([]uint64, cfg.Workers), refusals: refusals{}, parts: make(denseParts, cfg.Workers),
		client: make([]uint64, cfg.Workers),

		generation: make([]int, cfg.Workers), pauses: make([]hold, cfg.Workers),

		current: make([]*session, cfg.Workers), readers: make([]*session, cfg.Workers),
		later: make([]rdma.Completion, 0, laterMax),
		ahead: make([]announced, cfg.Workers),
	}
	l.clock, l.epoch = clock.New(cfg.Workers, cfg.Staleness), time.Now()
	l.was = retained{on: cfg.Retain && cfg.holds(), tables: map[uint32]*retainedRows{}, versions: map[uint32]uint64{}}
	if cfg.MaxBytes > 0 {
		l.budget = dram.NewBudget(cfg.MaxBytes / int64(cfg.Map.LanesOf(cfg.ID)))
	}
	if err := l.openStorage(); err != nil {
		return nil, err
	}
	for _, spec := range cfg.Tables {
		t := &tableState{spec: spec, sync: newSync(cfg, spec.ID)}
		if err := l.openRows(t); err != nil {
			l.closeTables()
			return nil, err
		}
		l.tables[spec.ID] = t
		l.order = append(l.order, t)
	}
	if err := l.dense.init(cfg, global); err != nil {
		l.closeTables()
		return nil, err
	}
	if cfg.Chain != nil {
		l.chain = newChained(l)
	}
	if err := l.record(); err != nil {
		l.closeTables()
		return nil, err
	}
	return l, nil
}

// openRows makes a table's rows, without any.
func (l *lane) openRows(t *tableState) (err error) {
	c := RowsConfig{Spec: t.spec, Seed: l.cfg.Seed, Node: l.cfg.Node, MaxBytes: l.tableBudget(), Budget: l.budget, Tracked: l.cfg.Tracked || t.spec.Lifecycle != nil || l.cfg.Chain != nil,
		Server: l.cfg.ID, Lane: l.index, Wake: func() { t.wake(l) }}
	switch {
	case l.cfg.Rows != nil:
		t.rows, err = l.cfg.Rows(c)
	case l.storage != nil:
		t.rows, err = l.openTiered(t.spec)
	default:
		t.rows, err = InMemory(c)
	}
	if err != nil {
		return err
	}
	if t.rows, err = l.onDevice(t.rows); err != nil {
		return err
	}
	_, t.inMemory = t.rows.(*tiers.Memory)
	t.device, _ = t.rows.(*hbm.Cache)
	return nil
}

func (l *lane) tableBudget() int64 {
	if l.cfg.MaxBytes == 0 {
		return 0
	}
	return l.cfg.MaxBytes / int64(max(1, len(l.cfg.Tables))*l.cfg.Map.LanesOf(l.cfg.ID))
}

// run is the lane's goroutine.
func (l *lane) run() {
	defer close(l.gone)
	if l.cfg.Node >= 0 {
		l.pinned = pin.Node("", l.cfg.Node) // a lane that cannot be pinned works, slower; stats say so
	}
	late := false // nothing has woken the lane for long
	for !l.quit {
		n := l.poll()
		start := time.Now()
		l.began = start
		for i := range l.cs[:n] {
			l.complete(&l.cs[i])
		}
		n += l.readyWhole()
		n += l.readRows(late)
		late = false
		l.fetchGranted()
		if l.chain != nil && l.chain.turn(start) {
			n++
		}
		if n > 0 {
			l.settle()
			l.flush()
			l.stats.busy += time.Since(start)
		}
		ran := l.commands()
		if ran && len(l.starved) > 0 || l.released {
			l.released = false
			l.settle()
		}
		gave := l.giveCut(n > 0)
		gave = l.sweepSome(n > 0) || gave
		if n == 0 && !ran && !gave && !l.quit && !l.disks.Load() {
			l.flush()
			err := l.mux.Wait(l.nextLook(time.Now()))
			if late = errors.Is(err, rdma.ErrDeadline); err != nil && !late {
				time.Sleep(deafPause)
			}
		}
	}
	for _, s := range l.sessions {
		s.close()
	}
	if l.chain != nil {
		for _, p := range l.chain.peers.all {
			p.link.Close()
		}
	}
	l.closeTables()
	l.mux.Close()
}

// settle lets take effect what has come: pushes that are due, then what waits
// for them.
func (l *lane) settle() {
	l.pass()
	l.lookAtBounds()
	for {
		l.applyReady()
		l.unpark()
		if !l.feed() {
			return
		}
	}
}

// nextLook is until when a lane with nothing to do may sleep.
func (l *lane) nextLook(now time.Time) time.Time {
	at := l.nextGrant(now)
	if l.chain != nil && l.chain.nextTick.Before(at) {
		at = l.chain.nextTick
	}
	if len(l.looking) > 0 { // a disk's word may be lost
		if soon := now.Add(diskPause); soon.Before(at) {
			at = soon
		}
	}
	return at
}

// diskPause is between two looks at disks that have something to read.
const diskPause = 2 * time.Millisecond

// deafPause is between two looks at queues whose device cannot wait any more: it
// was removed, and the sessions on it are about to end.
const deafPause = 10 * time.Millisecond

// laterMax bounds what keepFetching takes off the queues beside reads.
const laterMax = 1024

// poll takes completions, first those that keepFetching has put aside.
func (l *lane) poll() int {
	if len(l.later) == 0 {
		return l.mux.Poll(l.cs[:])
	}
	n := copy(l.cs[:], l.later)
	rest := copy(l.later, l.later[n:])
	clear(l.later[rest:])
	l.later = l.later[:rest]
	return n
}

// readyWhole goes on with requests that became whole in keepFetching.
func (l *lane) readyWhole() int {
	n := len(l.whole)
	for _, r := range l.whole {
		if !r.s.broken {
			l.ready(r)
		}
	}
	clear(l.whole)
	l.whole = l.whole[:0]
	return n
}

func (l *lane) commands() bool {
	ran := false
	for {
		select {
		case f := <-l.cmds:
			f()
			ran = true
		default:
			return ran
		}
	}
}

// do runs f on the lane and waits for it. It returns false when the lane is
// gone or busy beyond the deadline.
func (l *lane) do(deadline time.Duration, f func()) error {
	done := make(chan struct{})
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case l.cmds <- func() { f(); close(done) }:
	case <-l.gone:
		return fmt.Errorf("server: lane %d has ended", l.global)
	case <-timer.C:
		return fmt.Errorf("server: lane %d took no command for %v: it is overloaded or gone", l.global, deadline)
	}
	l.mux.Wake()
	select {
	case <-done:
		return nil
	case <-l.gone:
		return fmt.Errorf("server: lane %d has ended", l.global)
	case <-timer.C:
		return fmt.Errorf("server: lane %d did not finish a command within %v", l.global, deadline)
	}
}

func (l *lane) closeTables() {
	for _, t := range l.order {
		if t.rows != nil {
			t.rows.Close()
		}
	}
	l.dense.close()
	_ = l.audit.Close() // the record says itself how it ended
	if err := l.storage.close(); err != nil {
		l.refusal = err
	}
	l.storage = nil
}

// complete handles one completion.
func (l *lane) complete(c *rdma.Completion) {
	s := l.sessionOf(c)
	if s == nil {
		if l.chain != nil {
			l.chain.completed(c)
		}
		return
	}
	if c.Status != rdma.StatusOK {
		s.broken = true
		l.drop(s, c.Err)
		return
	}
	switch c.Op {
	case rdma.OpRecvImm:
		l.arrive(s, c)
	case rdma.OpRead:
		if r := &s.reqs[slotOf(c)]; l.fetched(r, c.Bytes) {
			l.ready(r)
		} else if l.chain != nil && l.chain.landed(r) {
			l.chain.arrived = true
		}
	case rdma.OpWrite:
		l.written(s)
	case rdma.OpWriteImm:
		s.arrived()
	}
}

// sessionOf is nil where the session has been closed, or flush is to drop it.
func (l *lane) sessionOf(c *rdma.Completion) *session {
	if s := l.sessions[uint32(c.ID>>32)]; s != nil && !s.broken {
		return s
	}
	return nil
}

// arrive takes a request out of its landing slot.
func (l *lane) arrive(s *session, c *rdma.Completion) {
	if _, err := s.ep.PostRecv([]rdma.Recv{{ID: wrID(s.id, 0)}}); err != nil {
		s.broken = true
		l.drop(s, err)
		return
	}
	if c.Imm >= psmsg.Slots || s.reqs[c.Imm].busy || c.Bytes > s.slotLen {
		l.drop(s, fmt.Errorf("server: worker %d wrote %d bytes to slot %d, which it may not use now", s.worker, c.Bytes, c.Imm))
		return
	}
	r := &s.reqs[c.Imm]
	if err := r.Decode(s.slotBytes(r.slot)[:c.Bytes]); err != nil {
		l.drop(s, err)
		return
	}
	if r.Slot != c.Imm {
		l.drop(s, fmt.Errorf("server: worker %d wrote the request of slot %d to slot %d", s.worker, r.Slot, c.Imm))
		return
	}
	if s.reads && r.Kind != psmsg.KindPull && r.Kind != psmsg.KindPullDense {
		l.drop(s, fmt.Errorf("server: worker %d sent a %s over a connection that only reads", s.worker, r.Kind))
		return
	}
	if r.Flags&psmsg.FlagPacked != 0 && s.version < psmsg.PackedSince {
		l.drop(s, fmt.Errorf("server: worker %d sent a compressed push over a connection of protocol %d: there are some since %d", s.worker, s.version, psmsg.PackedSince))
		return
	}
	r.busy, r.keys, r.grads, r.times, r.stood = true, nil, nil, nil, time.Time{}
	r.birth = birth{keys: r.birth.keys[:0]}
	r.pack.reset()
	r.fetch.reset()
	l.came(r, psmsg.RequestBytes)
	switch r.Kind {
	case psmsg.KindPull, psmsg.KindPush, psmsg.KindAnnounce:
		l.locateSparse(r, s.slotBytes(r.slot)[psmsg.RequestBytes:])
	case psmsg.KindPullDense, psmsg.KindPushDense:
		l.locateDense(r)
	}
}

// ready goes on with a request whose keys and gradients are at hand. Pushes
// take effect in the order in which their session sent them.
func (l *lane) ready(r *request) {
	l.lent(r)
	switch r.Kind {
	case psmsg.KindPull, psmsg.KindPullDense:
		if r.Kind == psmsg.KindPull {
			l.expect(r)
		}
		// Answered after this poll batch's pushes are applied: a tick in the
		// same batch must not let a pull overtake the pushes it stands for.
		l.parked = append(l.parked, r)
	case psmsg.KindAnnounce:
		l.heed(r)
	default:
		if l.chain == nil && !l.unpack(r) {
			return
		}
		l.release(r.s.worker)
		l.takePushes(r.s)
	}
}

// reply answers a request and frees its slot.
func (l *lane) reply(r *request, code psmsg.Code, ticketID, version uint64, rows int) {
	if l.spills.keep(r, code, ticketID, version, rows) {
		return
	}
	s := r.s
	r.busy = false
	if s.broken {
		return
	}
	l.answered(r, code)
	buf := s.replyBytes(r.slot)
	p := psmsg.Reply{Code: code, Slot: uint32(r.slot), Seq: r.Seq, Ticket: ticketID, Version: version, Rows: uint32(rows)}
	p.Encode(buf)
	s.answer(r.slot, r.Kind == psmsg.KindPush || r.Kind == psmsg.KindPushDense, rdma.WR{ID: wrID(s.id, r.slot), Op: rdma.OpWriteImm, Imm: uint32(r.slot), Local: buf,
		Remote: s.replies.Slice(uint64(r.slot)*psmsg.ReplySlotBytes, psmsg.ReplyBytes)})
}

func (l *lane) flush() {
	for s := range l.open {
		s.flush()
		if s.broken {
			l.drop(s, nil)
		}
	}
}

// unpark answers the pulls that the clocks allow; the others stay parked.
func (l *lane) unpark() {
	if l.chain != nil && len(l.parked) > 0 && !l.chain.mayRead() {
		return
	}
	keep := l.parked[:0]
	for _, r := range l.parked {
		switch {
		case r.s.broken: // flush drops it, and what it asked
			keep = append(keep, r)
		case !l.mayPull(r):
			keep = append(keep, r)
		case r.s.reads && l.forgot(r): // the head knows, or nobody
			r.s.broken = true
			keep = append(keep, r)
		case l.overtakes(r), l.unbornYet(r), l.lacks(r), l.chain != nil && l.chain.copying.waits && len(l.looking) > 0:
			keep = append(keep, r)
		case r.Kind == psmsg.KindPull:
			l.pull(r)
		case len(r.s.held) >= maxHolds:
			keep = append(keep, r)
		default:
			l.pullDense(r)
		}
	}
	clear(l.parked[len(keep):])
	l.parked = keep
}
