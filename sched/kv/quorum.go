package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"psrt/sched/client"
	"psrt/sched/psmsg"
)

// quorum is how many workers the servers are to wait for before the first step is over; 0:
// as the servers say.
func (c *Client) quorum() int {
	if !c.job.Open || c.cfg.Aside || c.cfg.Looks {
		return 0
	}
	return c.cfg.Workers
}

// refusedEnter is a server that does not let this worker take part.
type refusedEnter struct{ psmsg.EnterReply }

func (e *refusedEnter) Error() string { return string(e.Refused) }

// placeAgain is between two attempts to get the place of a worker that may come back.
const placeAgain = 200 * time.Millisecond

// join connects and takes part in the steps. A worker that was started again waits until the
// servers have given up the process before it, whose place it gets.
func (c *Client) join(ctx context.Context) error {
	for {
		err := c.connect()
		if err != nil || c.cfg.Aside || c.cfg.Looks {
			return err
		}
		if n := c.quorum(); n > 1 && c.job.Staleness >= 0 && !c.c.Speak(psmsg.QuorumSince) {
			return errorf(BadConfig, "kv: workers is %d, but a server is of an older release, which does not wait for %d workers before the first step is over: update the servers", n, n)
		}
		err = c.enterSteps(ctx)
		var refused *refusedEnter
		if !errors.As(err, &refused) {
			return err
		}
		c.goodbye()
		if refused.Refused != psmsg.EnterFull || len(refused.Here) >= c.quorum() {
			return c.refusal(refused)
		}
		c.mu.Lock()
		k := c.c
		c.c = nil
		c.mu.Unlock()
		k.Close()
		select {
		case <-ctx.Done():
			return c.refusal(refused)
		case <-time.After(placeAgain):
		}
	}
}

// refusal says in words why this worker does not take part.
func (c *Client) refusal(e *refusedEnter) error {
	n := c.quorum()
	switch {
	case e.Refused == psmsg.EnterDiffers:
		return errorf(BadConfig, "kv: workers is %d here and %d at the workers that are connected: say the same in every client, or wait until they have closed", n, e.Quorum)
	case len(e.Away) > 0:
		return errorf(Refused, "kv: all %d workers are there (workers: %d): %s; %s lost the connection and may come back, try again in a few seconds", n, n, workersAre(e.Here), workersAre(e.Away))
	}
	return errorf(Refused, "kv: all %d workers are there (workers: %d): %s; end one, or give every client the right number as workers", n, n, workersAre(e.Here))
}

// workersAre names workers.
func workersAre(all []int) string {
	if len(all) == 0 {
		return "nobody"
	}
	const most = 8
	var text []string
	for i, w := range all {
		if i == most {
			text = append(text, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		text = append(text, fmt.Sprint(w))
	}
	if len(all) == 1 {
		return "worker " + text[0]
	}
	return "workers " + strings.Join(text, ", ")
}

// lastStep is the step from which on this client takes none.
func (c *Client) lastStep() (step uint64, finished bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step, c.finished.Load()
}

// steps refuses what only a worker does that takes steps.
func (c *Client) steps(what string) error {
	if step, finished := c.lastStep(); finished {
		return c.hasFinished(step, what)
	}
	return nil
}

func (c *Client) hasFinished(step uint64, what string) error {
	return errorf(Clock, "kv: worker %d has finished its steps (finish_steps in step %d): there is no %s after it; pulls and barriers go on, and a new client takes part again", c.Worker(), step, what)
}

// atAnyClock is how a client pulls that has finished its steps: what is there now.
func (c *Client) atAnyClock() client.PullOption {
	if c.finished.Load() {
		return client.AnyClock
	}
	return 0
}

// FinishSteps says that this client takes no more steps, and pushes nothing more: under bsp
// and ssp the others wait for it no longer. It stays a worker of the job: pulls see what is
// there, and barriers wait for it. What it pushed counts. Again it does nothing.
func (c *Client) FinishSteps(limit time.Duration) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	if c.cfg.Aside || c.cfg.Looks {
		return nil
	}
	if !c.c.Speak(psmsg.QuorumSince) {
		return errorf(Refused, "kv: a server is of an older release, which does not know that a worker can finish its steps: update the servers, or close the client instead")
	}
	deadline := c.deadline(limit)
	step, err := c.endPushes(deadline)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(c.ctx, deadline)
	defer cancel()
	for i := range c.c.Servers() {
		if err := c.tellFinished(ctx, i, step); err != nil {
			return err
		}
	}
	return nil
}

// tellFinished tells one server. One that is lost learns it when it is connected again.
func (c *Client) tellFinished(ctx context.Context, server int, step uint64) error {
	for {
		err := c.call(ctx, server, psmsg.MethodFinish, psmsg.FinishRequest{Step: step}, &struct{}{})
		if err == nil || CodeOf(err) != Connect || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(happenPause):
		case <-ctx.Done():
			return err
		}
	}
}

// lookAgain is between two looks at what is to be answered.
const lookAgain = 20 * time.Millisecond

// endPushes waits for pushes that are under way, those given up by their callers too; from
// then on there is none.
func (c *Client) endPushes(deadline time.Time) (step uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.finished.Load() {
			return c.step, nil
		}
		if c.stepped.vectors > 0 {
			return 0, errorf(Busy, "kv: what worker %d has pushed in step %d waits for the end of the step: call clock (psrt_clock) before finish_steps", c.Worker(), c.step)
		}
		n := 0
		for _, list := range [3][]*op{c.live, c.queue, c.zombies} {
			for _, o := range list {
				if o.pushes() {
					n++
				}
			}
		}
		switch now := time.Now(); {
		case n == 0:
			c.finished.Store(true)
			return c.step, nil
		case c.over() != nil:
			return 0, c.over()
		case !now.Before(deadline):
			return 0, errorf(Timeout, "kv: worker %d does not finish its steps in time: %d pushes are under way", c.Worker(), n)
		}
		c.lookOn()
	}
}

// lookOn lets a little time pass in which answers are taken. With mu, which it gives up
// meanwhile.
func (c *Client) lookOn() {
	if !c.driving && c.waiting == 0 {
		c.drive(time.Now().Add(lookAgain))
		c.passOn()
		return
	}
	c.mu.Unlock()
	time.Sleep(lookAgain)
	c.mu.Lock()
}

// suspectAfter is how long an op waits for the clocks until it is looked at whether what it
// waits for can come.
const suspectAfter = time.Second

// waitsForClock says whether an op may wait for steps of other workers.
func (o *op) waitsForClock() bool {
	switch o.kind {
	case opPull, opPullDense:
		return o.opt&(client.AnyClock|client.NoValues) == 0
	case opTick:
		return true
	case opPush, opPushDense: // of a step of bsp: it is applied with the step
		return o.push != nil
	}
	return false
}

func (o *op) pulls() bool { return o.kind == opPull || o.kind == opPullDense }

func (o *op) asksWhom() psmsg.BlockedRequest {
	r := psmsg.BlockedRequest{Step: o.step, Pull: o.pulls(), Table: o.table}
	if o.kind == opPullDense {
		r.Table = psmsg.DenseLead
	}
	return r
}

// overdue are the ops that may have waited for steps of others for long. With mu.
func (c *Client) overdue(now time.Time) (all []*op) {
	for _, o := range c.live {
		if o.waitsForClock() && now.Sub(o.postedAt) >= suspectAfter {
			all = append(all, o)
		}
	}
	return all
}

// suspect has it looked at whether this worker and others wait for each other. With mu.
func (c *Client) suspect(now time.Time) {
	if c.suspecting || now.Sub(c.suspected) < suspectAfter || c.over() != nil {
		return
	}
	c.suspected = now
	all := c.overdue(now)
	if len(all) == 0 || !c.c.Speak(psmsg.QuorumSince) {
		return
	}
	c.suspecting = true
	c.help(func() { c.lookForDeadlock(all[0].asksWhom()) })
}

// askedWithin bounds the question whom an op waits for.
const askedWithin = 5 * time.Second

// lookForDeadlock ends what waits for a worker that waits in a barrier, and so for this one.
func (c *Client) lookForDeadlock(r psmsg.BlockedRequest) {
	ctx, cancel := context.WithTimeout(c.ctx, askedWithin)
	defer cancel()
	var rep psmsg.BlockedReply
	r.Detect = true
	err := c.call(ctx, 0, psmsg.MethodBlocked, r, &rep)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspecting = false
	if err != nil || len(rep.Barrier) == 0 || c.over() != nil {
		return
	}
	for _, o := range c.overdue(time.Now()) {
		if o.step < r.Step {
			continue
		}
		what := fmt.Sprintf("step %d cannot end", o.step)
		if o.pulls() {
			what = fmt.Sprintf("a pull of step %d cannot be answered", o.step)
		}
		c.giveUp(o, errorf(Clock, "kv: worker %d: %s: %s waits in a barrier for this worker and has not ended step %d; a worker that has no more steps calls finish_steps (psrt_finish_steps) before the barrier, or closes its client",
			c.Worker(), what, workersAre(rep.Barrier), rep.Step))
	}
	c.c.Wake()
	c.passOn()
}

// blameWithin bounds what is asked beyond a call's time, and how long an answer is used.
const blameWithin = 250 * time.Millisecond

// blames is the last question of blame. It is guarded by Client.mu.
type blames struct {
	asking bool
	at     time.Time // of the answer, or of the failure
	ok     bool
	of     psmsg.BlockedRequest
	reply  psmsg.BlockedReply
}

// askBlocked asks server 0 whom a request waits for. One caller asks at a time, and after a
// failure nobody asks for blameWithin: many late requests together do not each wait for a
// server that does not answer.
func (c *Client) askBlocked(of psmsg.BlockedRequest) (rep psmsg.BlockedReply, ok bool) {
	b := &c.blames
	c.mu.Lock()
	recent := !b.at.IsZero() && time.Since(b.at) < blameWithin
	switch {
	case b.asking || recent && !b.ok:
		c.mu.Unlock()
		return rep, false
	case recent && b.of == of:
		defer c.mu.Unlock()
		return b.reply, true
	}
	b.asking = true
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, blameWithin)
	defer cancel()
	err := c.call(ctx, 0, psmsg.MethodBlocked, of, &rep)
	c.mu.Lock()
	defer c.mu.Unlock()
	*b = blames{at: time.Now(), ok: err == nil, of: of, reply: rep}
	return rep, err == nil
}

// blame adds to an op that was late whose steps it waited for. Without mu: it asks a server.
func (c *Client) blame(o *op, err error) error {
	if err == nil || CodeOf(err) != Timeout || errors.Is(err, errCanceled) || !o.posted || !o.waitsForClock() || o.pulls() && c.job.Staleness < 0 || c.over() != nil || !c.c.Speak(psmsg.QuorumSince) {
		return err
	}
	rep, ok := c.askBlocked(o.asksWhom())
	if !ok || len(rep.By) == 0 {
		return err
	}
	late := slices.DeleteFunc(slices.Clone(rep.By), func(w int) bool { return slices.Contains(rep.Expected, w) })
	text := ""
	if n := len(rep.Expected); n > 0 {
		text = fmt.Sprintf("; %d of %d workers are there, %s did not come, and no step is over before all were there (workers: %d)", rep.Quorum-n, rep.Quorum, workersAre(rep.Expected), rep.Quorum)
	}
	if len(late) > 0 {
		text += fmt.Sprintf("; it waits for %s to end step %d; a worker that has no more steps calls finish_steps (psrt_finish_steps), or closes its client", workersAre(late), rep.Step)
	}
	return errorf(Timeout, "%w%s", err, text)
}
