package train

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/combine"
	"psrt/sched/coord"
	"psrt/sched/densemap"
	"psrt/sched/heter"
	"psrt/sched/stall"
)

// carried is a worker's part in a host whose workers pull and push as one: the first of
// them, the carrier, has the connections to the servers. It is nil where a worker is alone.
// Whoever does not carry has no connection to any server, and asks nobody but the carrier.
type carried struct {
	w       *worker
	group   *combine.Group
	host    *dial.Host // over shared memory
	member  *combine.Member
	ctx     context.Context // of this life
	company *company        // nil: a worker that dies ends the job

	// Of the carrier:
	hub     *combine.Hub
	listens string
	stop    context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	failed  error // why the hub has ended
}

// findCarrier meets the other workers, and says with whom this one pulls and pushes.
// give ends this life where the job survives its workers.
func (w *worker) findCarrier(ctx context.Context, give func(error)) (*carried, error) {
	if !w.job.Combines() || w.job.IsDense(w.rank.Index) {
		return nil, nil
	}
	hosts, err := w.gatherHosts(ctx, dial.Machine())
	if err != nil {
		return nil, err
	}
	top, err := w.job.top(w.job.Workers)
	if err != nil {
		return nil, err
	}
	groups := combine.Groups(top, hosts)
	w.carriers = carriersOf(groups)
	if w.rank.Index == 0 && w.rank.Generation < 2 {
		w.rank.emit(Event{Note: combineNote(groups)})
	}
	g := groups[w.rank.Index]
	if len(g.Workers) == 1 {
		return nil, nil
	}
	host, err := w.rank.Host.Only("shm")
	if err != nil {
		return nil, err
	}
	a := &carried{w: w, group: g, host: host, ctx: ctx, stop: func() {}}
	if w.job.Survives() {
		if a.company, err = w.enterCompany(ctx, g.Workers, give); err != nil {
			a.leave()
			return nil, err
		}
	}
	return a, nil
}

// carriersOf is by worker who pushes for it, nil where all do themselves.
func carriersOf(groups []*combine.Group) (carriers []int) {
	some := false
	for i, g := range groups {
		carriers = append(carriers, g.Carrier())
		some = some || g.Carrier() != i
	}
	if !some {
		return nil
	}
	return carriers
}

// combineNote says for people who pulls and pushes for whom.
func combineNote(groups []*combine.Group) string {
	some := ""
	for i, g := range groups {
		if g.Carrier() == i && len(g.Workers) > 1 {
			some += fmt.Sprintf("; worker %d pulls and pushes for workers %v", i, g.Workers)
		}
	}
	if some == "" {
		return "no worker pulls and pushes for another: no host has two of them whose sum is a node of the tree of additions; give a host's workers adjacent ranks, in numbers that are powers of two"
	}
	return some[2:]
}

// follows says whether somebody else pulls and pushes for this worker.
func (a *carried) follows() bool { return a != nil && a.group.Carrier() != a.w.rank.Index }

// open connects who carries, and prepares the others.
func (a *carried) open(ctx context.Context, cfg client.Config) (*client.Client, error) {
	if a.follows() {
		return client.Detached(ctx, cfg)
	}
	cfg.Shared = a != nil
	return client.Open(ctx, cfg)
}

func (a *carried) config() combine.Config {
	r := a.w.rank
	return combine.Config{Group: a.group, Self: r.Index, Steps: a.w.job.sets(a.w.line.Depth.Most()), Plans: plansOf(a.w.job.LookAhead), Node: r.Node,
		Timeout: r.timeout(), Silence: a.w.job.Silence(), Apart: a.company.again(), Stall: r.Stall, OnPanic: r.Host.OnPanic()}
}

// begin has the carrier take the others' place at the servers, and links all of them to it.
func (a *carried) begin(ctx context.Context) error {
	if a.alone() {
		return nil
	}
	w := a.w
	if a.company == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.rank.timeout())
		defer cancel()
	}
	if !a.follows() {
		if err := a.carry(ctx); err != nil {
			return err
		}
	}
	who := fmt.Sprintf("worker %d", a.group.Carrier())
	end := w.rank.Stall.Begin(stall.Absent, who, "to say where it pulls and pushes for its host", nil)
	addr, err := a.addr(ctx)
	end()
	if err != nil {
		return fmt.Errorf("train: waiting for %s to pull and push for its host: %w", who, err)
	}
	ctx, cancel := context.WithTimeout(ctx, w.rank.timeout())
	defer cancel()
	if a.member, err = combine.Join(ctx, a.host, addr, a.config()); err != nil && a.company != nil {
		err = a.company.unlinked(ctx, err)
	}
	return err
}

// addr is where the carrier listens.
func (a *carried) addr(ctx context.Context) (string, error) {
	switch {
	case a.company == nil:
		addr, err := coord.Await(ctx, a.w.rank.Coord, carrierKey(a.group.Carrier()))
		return string(addr), err
	case a.hub != nil:
		return a.listens, nil
	}
	return a.company.addr(ctx)
}

// alone says whether this worker asks nobody but servers, or nobody at all.
func (a *carried) alone() bool { return a == nil || a.company != nil && a.company.over }

// carry begins the hub.
func (a *carried) carry(ctx context.Context) error {
	w := a.w
	if err := w.client.Carry(ctx, a.group.Carried()); err != nil {
		return err
	}
	work := combine.Work{Spec: w.spec, DenseLen: w.model.Layout().Total, DenseBlocks: w.blocks, Threads: w.job.Threads}
	switch {
	case w.collective != nil:
		work.Summed = &combine.Summed{Own: w.pushesSum, Others: w.job.others()}
	case !w.job.mode(DenseTable).BSP():
		work.Whole = w.wholeAverages
	}
	if w.job.Compress.On() {
		blocks, err := densemap.Cut(w.ranges)
		if err != nil {
			return err
		}
		work.Cut = blocks
	}
	a.hub = combine.NewHub(a.host, w.client, a.config(), work)
	var err error
	if a.listens, err = a.hub.Listen("127.0.0.1:0"); err != nil { // whom shared memory reaches is on this host, and in this network
		return err
	}
	if a.company != nil {
		err = a.company.tell(ctx, a.company.began, a.listens)
	} else {
		_, err = w.rank.Coord.Put(ctx, carrierKey(w.rank.Index), []byte(a.listens), 0)
	}
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(a.ctx)
	a.stop = stop
	a.running.Go(rdma.Guarded(w.rank.Host.OnPanic(), func() {
		if err := a.hub.Run(running); err != nil {
			a.mu.Lock()
			a.failed = err
			a.mu.Unlock()
			if a.company != nil && running.Err() == nil {
				a.company.give(a.company.cause(err))
			} else if running.Err() == nil { // before the others say that this worker is gone
				coord.Abort(running, w.rank.Coord, fmt.Sprintf("%s: %v", w.job.MemberName(w.rank.Index), a.lost(err)))
			}
			_ = a.hub.Close()
		}
	}))
	return nil
}

// lost is an error of this worker's end: at the carrier the hub's tells more.
func (a *carried) lost(err error) error {
	if err == nil {
		return nil
	}
	a.mu.Lock()
	if a.failed != nil {
		err = a.failed
	}
	a.mu.Unlock()
	var gone *heter.LostError
	if errors.As(err, &gone) {
		if a.company != nil {
			err = a.company.cause(err)
			a.company.give(err)
			return err
		}
		return &PeerLost{gone.Peer + " is gone", gone.Cause}
	}
	return err
}

func (a *carried) pull(b *batch, opt client.PullOption) error {
	return a.lost(a.member.Pull(b.slot, b.rows, b.dense, b.clock, opt, &b.asked))
}

func (a *carried) push(b *batch) error {
	return a.lost(a.member.Push(b.slot, b.rows, b.dense, b.clock, b.examples(), b.step.Rows, &b.carried))
}

func (a *carried) poll() error {
	if a.member == nil { // nothing has begun
		return nil
	}
	return a.lost(a.member.Poll())
}

// done says whether a request is answered.
func (a *carried) done(wait bool, ask *combine.Ask) (bool, error) {
	if wait && !ask.Done() {
		if err := a.lost(a.member.Wait(a.ctx, ask)); err != nil {
			return false, err
		}
	}
	return ask.Done(), nil
}

// end tells the carrier that nothing more comes, and returns when all of the host have.
func (a *carried) end(ctx context.Context) error {
	if a.alone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	if err := a.lost(a.member.Bye(ctx)); err != nil {
		return err
	}
	a.running.Wait()
	return nil
}

// close ends the links; the batches are closed after it, and leave after these.
func (a *carried) close() {
	if a == nil {
		return
	}
	a.stop()
	if a.member != nil {
		_ = a.member.Close() // the others learn of it
	}
	a.running.Wait()
	if a.hub != nil {
		_ = a.hub.Close()
	}
}

// settle is where no worker of the host needs another any more.
func (a *carried) settle() {
	if a != nil {
		a.company.settle()
	}
}

func (a *carried) leave() {
	if a != nil {
		_ = a.host.Close()
	}
}

// carriedUse is what a worker tells in the end.
type carriedUse struct {
	Workers []int       `json:"workers,omitempty"` // of the carrier
	Use     combine.Use `json:"use"`
}

func (a *carried) use() *carriedUse {
	switch {
	case a == nil:
		return nil
	case a.follows() || a.hub == nil:
		return &carriedUse{}
	}
	return &carriedUse{Workers: a.group.Workers, Use: a.hub.Use()}
}

// reached says how a worker reaches servers, servers how many it asks itself, and
// transport by which way.
func (a *carried) reached(c *client.Client) []string {
	if a.follows() {
		return []string{fmt.Sprintf("the servers by worker %d, which pulls and pushes for its host", a.group.Carrier())}
	}
	return c.Transports()
}

func (a *carried) servers(c *client.Client) int {
	if a.follows() {
		return 0
	}
	return c.Servers()
}

func (a *carried) transport(c *client.Client) string {
	if a.follows() {
		return "shm"
	}
	return c.Transport(0)
}
