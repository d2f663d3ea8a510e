package qualify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"psrt/rdma/dial"
)

// Director conducts the ranks of one run.
type Director struct {
	job      Job
	plan     Plan
	progress func(text string)
	host     *dial.Host
	listener *dial.Listener
	arrived  chan struct{} // capacity 1: someone came, or will never come

	mu       sync.Mutex
	members  []*member // by rank; nil while not there
	ended    []string  // by rank: how its process ended, from its parent
	refused  string    // the last connection that was refused
	complete bool      // nobody may join any more
	over     bool      // ranks may end now
	parent   bool      // this process started the ranks: Ended is called for each
	serial   uint64
}

// Direct begins to listen for ranks. progress may be nil.
func Direct(job Job, plan Plan, progress func(text string)) (*Director, error) {
	if err := errors.Join(job.Check(), plan.Check()); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	d := &Director{
		job: job, plan: plan, progress: progress, arrived: make(chan struct{}, 1),
		members: make([]*member, job.World), ended: make([]string, job.World),
	}
	var err error
	d.host, err = dial.New(dial.Config{Token: job.Token, Transports: controlOnly(), OnReject: d.onReject})
	if err != nil {
		return nil, err
	}
	if d.listener, err = d.host.Listen(job.Coordinator); err != nil {
		return nil, errors.Join(fmt.Errorf("qualify: the director cannot listen on %s: %w", job.Coordinator, err), d.host.Close())
	}
	return d, nil
}

// Close ends the listener and all control connections.
func (d *Director) Close() error { return d.host.Close() }

func (d *Director) onReject(addr net.Addr, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = fmt.Sprintf("%v: %v", addr, err)
}

// Ended tells the director how a rank's process ended: its parent knows best.
func (d *Director) Ended(rank int, how string) {
	d.mu.Lock()
	d.ended[rank] = how
	m, over := d.members[rank], d.over
	d.mu.Unlock()
	if m != nil && !over {
		m.explain(how)
		m.lose(&lostError{rank, how})
	}
	d.ring()
}

func (d *Director) ring() {
	select {
	case d.arrived <- struct{}{}:
	default:
	}
}

// Run measures and judges. What ranks could not do is in the Finding; where ctx
// ends early there may be both, a Finding of what was measured and an error.
func (d *Director) Run(ctx context.Context) (*Finding, error) {
	ctx, cancel := context.WithCancel(ctx)
	var attending sync.WaitGroup
	defer attending.Wait()
	defer cancel()
	attending.Go(func() { d.welcome(ctx, &attending) })
	d.assemble(ctx)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	f := newFinding(&d.plan, d.members)
	if f.here() < 2 {
		return nil, fmt.Errorf("qualify: %d of %d ranks came within %v: %s", f.here(), d.job.World, d.plan.JoinTimeout, d.missing())
	}
	f.Absent = d.missing()
	began := time.Now()
	err := d.conduct(ctx, f)
	f.Took = time.Since(began)
	if err != nil && f.Cut == "" {
		return nil, err
	}
	d.inquest(ctx)
	f.close()
	for _, m := range d.members {
		if m != nil && m.lost() == "" {
			_ = m.call(ctx, callEnd, d.plan.Timeout, nil, nil) // it may have ended
		}
	}
	return f, err
}

// conduct has all pairs measured. Where it is cut short, what is known by then
// is judged, if there is anything.
func (d *Director) conduct(ctx context.Context, f *Finding) error {
	for _, step := range []func(context.Context, *Finding) error{d.duels, d.confirm, d.retry} {
		if err := step(ctx, f); err != nil {
			if f.judge(); len(f.verdicts[0].samples) > 0 {
				f.Cut = err.Error()
			}
			return err
		}
	}
	if !d.plan.NoTotal && f.here() >= 2 {
		d.progress("all pairs at once")
		d.crowd(ctx, f)
	}
	if err := context.Cause(ctx); err != nil {
		f.Total, f.Cut = nil, err.Error()
		return err
	}
	return nil
}

// inquest waits a moment for the parent process to say how ranks ended whose
// connection is gone, and lets the others end.
func (d *Director) inquest(ctx context.Context) {
	late := time.After(2 * time.Second)
	for {
		waiting := false
		d.mu.Lock()
		for r, m := range d.members {
			if m == nil || d.ended[r] != "" || !d.parent {
				continue
			}
			select {
			case <-m.conn.Done():
				waiting = true
			default:
			}
		}
		d.over = !waiting
		d.mu.Unlock()
		if !waiting {
			return
		}
		select {
		case <-d.arrived:
		case <-ctx.Done():
			return
		case <-late:
			return
		}
	}
}

// welcome takes ranks in until ctx ends.
func (d *Director) welcome(ctx context.Context, attending *sync.WaitGroup) {
	for {
		in, err := d.listener.Accept(ctx)
		if err != nil {
			return
		}
		m, err := d.admit(in)
		if err != nil {
			_ = in.Reject(err) // the peer may be gone already
			d.onReject(stringAddr(in.Addr), err)
			continue
		}
		attending.Go(func() { m.attend(ctx, d.plan.Timeout) })
		d.ring()
	}
}

type stringAddr string

func (s stringAddr) Network() string { return "" }
func (s stringAddr) String() string  { return string(s) }

// admit makes a member of who greets well.
func (d *Director) admit(in *dial.Incoming) (*member, error) {
	var g greeting
	if err := json.Unmarshal(in.Hello, &g); err != nil || g.Protocol != protocol {
		return nil, errors.New("qualify: the greeting is not understood; run the same psbench everywhere")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case g.World != d.job.World:
		return nil, fmt.Errorf("qualify: rank %d was told of %d ranks, rank 0 of %d; give all the same --world-size", g.Rank, g.World, d.job.World)
	case g.Rank < 0 || g.Rank >= d.job.World:
		return nil, fmt.Errorf("qualify: there is no rank %d of %d", g.Rank, d.job.World)
	case d.complete:
		return nil, fmt.Errorf("qualify: rank %d comes too late: the others began without it after %v; raise --join-timeout", g.Rank, d.plan.JoinTimeout)
	case d.members[g.Rank] != nil:
		return nil, fmt.Errorf("qualify: %s is here already; give every process a --rank of its own", d.members[g.Rank].name())
	}
	plan, err := json.Marshal(d.plan)
	if err != nil {
		return nil, err
	}
	conn, err := in.Finish(nil, plan)
	if err != nil {
		return nil, err
	}
	m := &member{rank: g.Rank, greeting: g, conn: conn}
	m.ctx, m.lose = context.WithCancelCause(context.Background())
	d.members[g.Rank] = m
	return m, nil
}

// assemble waits until every rank is there or known not to come.
func (d *Director) assemble(ctx context.Context) {
	late := time.After(d.plan.JoinTimeout)
	for {
		d.mu.Lock()
		left := 0
		for r, m := range d.members {
			if m == nil && d.ended[r] == "" {
				left++
			}
		}
		d.complete = left == 0
		d.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-d.arrived:
		case <-ctx.Done():
			return
		case <-late:
			d.mu.Lock()
			d.complete = true
			d.mu.Unlock()
			return
		}
	}
}

// missing says who never came.
func (d *Director) missing() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ranks []int
	text := ""
	for r, m := range d.members {
		switch {
		case m != nil:
		case d.ended[r] != "":
			text += d.ended[r] + "; "
		default:
			ranks = append(ranks, r)
		}
	}
	if len(ranks) > 0 {
		text += fmt.Sprintf("never heard of rank %s: start it with the same --coordinator and --token-file, and look at what it says", numbers(ranks))
		if d.refused != "" {
			text += "; last refused: " + d.refused
		}
	}
	return text
}

// numbers writes 1, 2, 3, 7 as "1-3, 7".
func numbers(list []int) string {
	slices.Sort(list)
	text := ""
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprint(list[i])
		if j > i {
			text += fmt.Sprintf("-%d", list[j])
		}
		i = j + 1
	}
	return text
}

func (d *Director) next() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	return d.serial
}
