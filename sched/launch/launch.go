package launch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Rank is one process to start.
type Rank struct {
	Name string // "server 0": for people
	Args []string
	Env  []string // added to this process's environment
}

// Config describes a job's processes.
type Config struct {
	Exe   string
	Ranks []Rank
	// OnEvent gets every line that a rank writes to descriptor 3, one call at
	// a time. May be nil.
	OnEvent func(rank int, line []byte)
	// OnLog gets every line of a rank's output, one call at a time. May be nil.
	OnLog func(rank int, line string)
	// Grace is how long ranks may take to end after SIGTERM; 0 means 3 s.
	Grace time.Duration
	// OnDeath is asked, one call at a time, what follows from a rank that ended
	// badly. nil: the job ends.
	OnDeath func(*Death) Verdict
	// More yields ranks that begin while the job runs. May be nil, and is never closed.
	More <-chan Later
	// Kill yields processes that are to be killed: they hang. May be nil, and is never
	// closed.
	Kill <-chan Victim
}

// Victim is a rank's process, that with PID, or where that is 0 whichever runs.
type Victim struct{ Rank, PID int }

// Later is a rank that begins while the job runs, and its number.
type Later struct {
	Index int
	Rank
}

// Verdict is what follows from a rank that ended badly. The zero value: the others
// go on without it.
type Verdict struct {
	// End ends the job. Where it is the Death itself, Run's error is of the rank that
	// is to blame for it.
	End error
	// Again is started in its place, after Pause; nil: nothing is.
	Again *Rank
	Pause time.Duration
}

// maxEvent bounds a line on the event pipe.
const maxEvent = 16 << 20

// settle is how long Run waits, after the first death, for others: when one
// rank dies the rest fail for its sake, sometimes sooner than it is reaped.
const settle = 300 * time.Millisecond

type process struct {
	rank     int
	name     string
	cmd      *exec.Cmd
	tail     tail
	done     chan struct{} // closed when reaped and its pipes are drained
	state    *os.ProcessState
	ended    time.Time
	forgiven bool // its death is no reason for anything any more
}

// Run starts all ranks and returns when the last has ended: nil when all ended
// well, a *Death when one did not, ctx's cause when it was cancelled.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Grace == 0 {
		cfg.Grace = 3 * time.Second
	}
	j := &job{cfg: cfg, exits: make(chan *process), over: make(chan struct{}), starts: make(chan start)}
	defer close(j.over)
	go j.starter()
	for i, r := range cfg.Ranks {
		if err := j.start(i, r); err != nil {
			j.end()
			return err
		}
	}
	return j.wait(ctx)
}

type job struct {
	cfg    Config
	procs  []*process
	exits  chan *process
	over   chan struct{} // closed when nobody listens to exits any more
	starts chan start
	events sync.Mutex
	logs   sync.Mutex
}

// start is a process to be started, and where the answer goes.
type start struct {
	cmd *exec.Cmd
	err chan error
}

// starter starts all processes. PR_SET_PDEATHSIG fires when the starting thread
// ends, so it is one thread that stays until all are gone.
func (j *job) starter() {
	runtime.LockOSThread()
	for {
		select {
		case s := <-j.starts:
			s.err <- s.cmd.Start()
		case <-j.over:
			return
		}
	}
}

// start starts rank i.
func (j *job) start(i int, r Rank) error {
	p := &process{rank: i, name: r.Name, cmd: exec.Command(j.cfg.Exe, r.Args...), done: make(chan struct{})}
	if j.cfg.OnLog != nil {
		p.tail.forward = func(line string) {
			j.logs.Lock()
			defer j.logs.Unlock()
			j.cfg.OnLog(i, line)
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("launch: event pipe of %s: %w", r.Name, err)
	}
	p.cmd.Env = append(os.Environ(), r.Env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.tail, &p.tail
	p.cmd.ExtraFiles = []*os.File{write}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// A grandchild that keeps the output open must not keep Wait from returning.
	p.cmd.WaitDelay = time.Second
	s := start{p.cmd, make(chan error, 1)}
	j.starts <- s
	err = <-s.err
	write.Close()
	if err != nil {
		read.Close()
		return fmt.Errorf("launch: starting %s: %w", r.Name, err)
	}
	j.procs = append(j.procs, p)
	go j.watch(p, read)
	return nil
}

// watch reads a rank's events and reaps it.
func (j *job) watch(p *process, events *os.File) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		in := bufio.NewScanner(events)
		in.Buffer(make([]byte, 64<<10), maxEvent)
		for in.Scan() {
			if j.cfg.OnEvent != nil {
				j.events.Lock()
				j.cfg.OnEvent(p.rank, in.Bytes())
				j.events.Unlock()
			}
		}
		io.Copy(io.Discard, events)
	}()
	p.cmd.Wait()
	p.ended, p.state = time.Now(), p.cmd.ProcessState
	select {
	case <-drained:
	case <-time.After(3 * time.Second): // held open by a grandchild
	}
	events.Close()
	<-drained // OnEvent is called no more
	close(p.done)
	select {
	case j.exits <- p:
	case <-j.over:
	}
}

// wait collects the ranks, and starts those that begin meanwhile.
func (j *job) wait(ctx context.Context) error {
	left := len(j.procs) // running, or to be started again
	again := make(chan func() error)
	for left > 0 {
		select {
		case p := <-j.exits:
			if p.state.Success() {
				left--
				continue
			}
			v := j.verdict(p)
			if v.End != nil {
				return j.giveUp(v.End)
			}
			p.forgiven = true
			if v.Again == nil {
				left--
				continue
			}
			rank, next := p.rank, *v.Again
			time.AfterFunc(v.Pause, func() {
				select {
				case again <- func() error { return j.start(rank, next) }:
				case <-j.over:
				}
			})
		case begin := <-again:
			if err := begin(); err != nil {
				j.end()
				return err
			}
		case r := <-j.cfg.More:
			if err := j.start(r.Index, r.Rank); err != nil {
				j.end()
				return err
			}
			left++
		case v := <-j.cfg.Kill:
			j.kill(v)
		case <-ctx.Done():
			j.end()
			return context.Cause(ctx)
		}
	}
	return nil
}

// kill kills a process, if it runs.
func (j *job) kill(v Victim) {
	for _, p := range j.procs {
		select {
		case <-p.done:
		default:
			if pid := p.cmd.Process.Pid; p.rank == v.Rank && (v.PID == 0 || v.PID == pid) {
				p.forgiven = true // whoever fails in the same moment is to blame
				syscall.Kill(-pid, syscall.SIGKILL)
			}
		}
	}
}

// verdict asks what follows from a death.
func (j *job) verdict(p *process) Verdict {
	d := p.death()
	if j.cfg.OnDeath == nil {
		return Verdict{End: d}
	}
	return j.cfg.OnDeath(d)
}

// giveUp ends the job. Where a death is why, it finds out who is to blame.
func (j *job) giveUp(why error) error {
	if d, ok := why.(*Death); ok {
		time.Sleep(settle)
		why = j.judge(d)
	}
	j.end()
	return why
}

// end makes every rank end and waits for it.
func (j *job) end() {
	signal := func(sig syscall.Signal) (alive bool) {
		for _, p := range j.procs {
			select {
			case <-p.done:
			default:
				alive = true
				syscall.Kill(-p.cmd.Process.Pid, sig)
			}
		}
		return alive
	}
	if !signal(syscall.SIGTERM) {
		return
	}
	grace := time.After(j.cfg.Grace)
	for _, p := range j.procs {
		select {
		case <-p.done:
		case <-grace:
			signal(syscall.SIGKILL)
			for _, p := range j.procs {
				<-p.done
			}
			return
		}
	}
}

// Death says which rank ended badly, how, and what it said last.
type Death struct {
	Rank   int
	Name   string
	PID    int
	Signal syscall.Signal // 0 when it exited
	Code   int
	Tail   []string
	Others []string // ranks that had died as well when the job was ended
}

func (d *Death) Error() string {
	s := fmt.Sprintf("%s (pid %d) ", d.Name, d.PID)
	switch {
	case d.Signal == syscall.SIGKILL:
		s += "was killed (signal 9): by somebody, or by the kernel for want of memory (see dmesg)"
	case d.Signal != 0:
		s += fmt.Sprintf("died of signal %d (%v)", int(d.Signal), d.Signal)
	default:
		s += fmt.Sprintf("ended with exit code %d", d.Code)
	}
	return s
}

// death is how a process that ended badly did.
func (p *process) death() *Death {
	d := &Death{Rank: p.rank, Name: p.name, PID: p.state.Pid(), Code: p.state.ExitCode(), Tail: p.tail.last()}
	if ws, ok := p.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		d.Signal = ws.Signal()
	}
	return d
}

// judge picks the rank to blame for the end that began with first: one that a signal
// took before one that exited, since ranks exit when they miss a peer; then the earliest.
func (j *job) judge(first *Death) error {
	var worst *process
	var others []string
	for _, p := range j.procs {
		select {
		case <-p.done:
		default:
			continue
		}
		if p.state.Success() || p.forgiven {
			continue
		}
		others = append(others, p.name)
		if worst == nil || signaled(p) && !signaled(worst) || signaled(p) == signaled(worst) && p.ended.Before(worst.ended) {
			worst = p
		}
	}
	if worst == nil { // it was killed because it hung, and cannot be spared
		return first
	}
	d := worst.death()
	for _, o := range others {
		if o != d.Name {
			d.Others = append(d.Others, o)
		}
	}
	return d
}

func signaled(p *process) bool {
	ws, ok := p.state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled()
}
