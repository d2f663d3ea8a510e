package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary plays the ranks: PSRT_LAUNCH_TEST says which part.
func TestMain(m *testing.M) {
	events := os.NewFile(3, "events")
	switch os.Getenv("PSRT_LAUNCH_TEST") {
	case "":
		os.Exit(m.Run())
	case "well":
		fmt.Fprintln(events, `{"hello":1}`)
		os.Exit(0)
	case "fail":
		fmt.Fprintln(os.Stderr, "the disk is on fire")
		os.Exit(7)
	case "killed":
		time.Sleep(50 * time.Millisecond)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "follows": // exits because it misses a peer, before that one is reaped
		os.Exit(1)
	case "missed":
		fmt.Fprintln(events, os.Getpid())
		time.Sleep(time.Minute)
	case "stubborn":
		signalIgnore()
		time.Sleep(time.Minute)
	case "sleep":
		time.Sleep(time.Minute)
	}
	os.Exit(0)
}

func ranks(parts ...string) Config {
	c := Config{Exe: os.Args[0], Grace: 300 * time.Millisecond}
	for i, p := range parts {
		c.Ranks = append(c.Ranks, Rank{Name: fmt.Sprintf("rank %d", i), Env: []string{"PSRT_LAUNCH_TEST=" + p}})
	}
	return c
}

func TestAllWell(t *testing.T) {
	c := ranks("well", "well", "well")
	var mu sync.Mutex
	got := map[int]string{}
	c.OnEvent = func(rank int, line []byte) {
		mu.Lock()
		got[rank] = string(line)
		mu.Unlock()
	}
	if err := Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got[i] != `{"hello":1}` {
			t.Errorf("rank %d: event %q", i, got[i])
		}
	}
}

func TestDeathNamesRankAndTail(t *testing.T) {
	start := time.Now()
	err := Run(context.Background(), ranks("sleep", "fail", "sleep"))
	var d *Death
	if !errors.As(err, &d) {
		t.Fatalf("got %v", err)
	}
	if d.Rank != 1 || d.Code != 7 || !strings.Contains(strings.Join(d.Tail, "\n"), "the disk is on fire") {
		t.Errorf("got %+v", d)
	}
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("the job took %v to end", took)
	}
}

// The one that is missed dies after the other's end was seen, and before it is asked who
// is to blame.
func TestASignalIsBlamedBeforeAnExit(t *testing.T) {
	c := ranks("follows", "missed")
	pids := make(chan int, 1)
	c.OnEvent = func(_ int, line []byte) {
		pid, err := strconv.Atoi(string(line))
		if err != nil {
			t.Error(err)
		}
		pids <- pid
	}
	c.OnDeath = func(d *Death) Verdict {
		pid := <-pids
		for err := syscall.Kill(pid, syscall.SIGKILL); err != syscall.ESRCH; err = syscall.Kill(pid, 0) { // until it is reaped
			time.Sleep(time.Millisecond)
		}
		return Verdict{End: d}
	}
	err := Run(context.Background(), c)
	var d *Death
	if !errors.As(err, &d) || d.Rank != 1 || d.Signal != syscall.SIGKILL {
		t.Fatalf("got %+v (%v)", d, err)
	}
}

func TestCancelEndsEvenTheStubborn(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("interrupted")
	time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
	start := time.Now()
	if err := Run(ctx, ranks("stubborn", "sleep")); !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("took %v", took)
	}
}

// A rank that dies is started again, another is not missed, and one that comes
// later is one of them.
func TestDeathsThatEndNothing(t *testing.T) {
	c := ranks("killed", "fail", "well")
	more := make(chan Later, 1)
	c.More = more
	var died, said []string
	c.OnDeath = func(d *Death) Verdict {
		died = append(died, fmt.Sprintf("%s %d %d", d.Name, d.Signal, d.Code))
		if d.Rank == 1 {
			return Verdict{}
		}
		more <- Later{7, Rank{Name: "late", Env: []string{"PSRT_LAUNCH_TEST=well"}}}
		return Verdict{Again: &Rank{Name: "rank 0 again", Env: []string{"PSRT_LAUNCH_TEST=well"}}, Pause: time.Millisecond}
	}
	c.OnEvent = func(rank int, line []byte) { said = append(said, fmt.Sprintf("%d %s", rank, line)) }
	if err := Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	slices.Sort(died)
	slices.Sort(said)
	if got := strings.Join(died, ", "); got != "rank 0 9 -1, rank 1 0 7" {
		t.Errorf("died: %s", got)
	}
	if got := strings.Join(said, ", "); got != `0 {"hello":1}, 2 {"hello":1}, 7 {"hello":1}` {
		t.Errorf("said: %s", got)
	}
}

// Who died before, and was not missed, is not to blame for what ends the job.
func TestTheForgivenAreNotBlamed(t *testing.T) {
	c := ranks("killed", "sleep")
	more := make(chan Later, 1)
	c.More = more
	c.OnDeath = func(d *Death) Verdict {
		if d.Rank == 0 {
			more <- Later{7, Rank{Name: "late", Env: []string{"PSRT_LAUNCH_TEST=fail"}}}
			return Verdict{}
		}
		return Verdict{End: d}
	}
	var d *Death
	if err := Run(context.Background(), c); !errors.As(err, &d) || d.Name != "late" || d.Code != 7 || len(d.Others) > 0 {
		t.Fatalf("got %+v (%v)", d, err)
	}
	why := errors.New("nobody is left")
	c = ranks("killed", "sleep")
	c.OnDeath = func(*Death) Verdict { return Verdict{End: why} }
	if err := Run(context.Background(), c); err != why {
		t.Fatalf("got %v, want %v", err, why)
	}
}

// A job is ended while a rank of it waits to be started again.
func TestCancelBeforeTheSecondStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("interrupted")
	c := ranks("killed", "sleep")
	c.OnDeath = func(*Death) Verdict {
		cancel(cause)
		return Verdict{Again: &c.Ranks[1], Pause: time.Hour}
	}
	if err := Run(ctx, c); !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
}

func TestTailIsBounded(t *testing.T) {
	var tl tail
	for i := range 1000 {
		fmt.Fprintf(&tl, "line %d %s\n", i, strings.Repeat("x", 2000))
	}
	fmt.Fprint(&tl, "no newline")
	got := tl.last()
	if len(got) != tailLines+1 || !strings.HasPrefix(got[0], "line 980") || got[tailLines] != "no newline" {
		t.Fatalf("%d lines, first %.20q, last %q", len(got), got[0], got[len(got)-1])
	}
	for _, l := range got {
		if len(l) > tailLineSize {
			t.Fatalf("a line of %d bytes", len(l))
		}
	}
}

// A rank that was killed because it hung is not to blame for one that fails in the same
// moment, but where nobody else is.
func TestVictimIsNotToBlame(t *testing.T) {
	j := &job{cfg: ranks("sleep", "fail"), exits: make(chan *process), over: make(chan struct{}), starts: make(chan start)}
	defer close(j.over)
	go j.starter()
	for i, r := range j.cfg.Ranks {
		if err := j.start(i, r); err != nil {
			t.Fatal(err)
		}
	}
	failed := <-j.exits
	j.kill(Victim{Rank: 0})
	victim := <-j.exits
	var d *Death
	if err := j.judge(victim.death()); !errors.As(err, &d) || d.Rank != failed.rank || d.Code != 7 {
		t.Errorf("blamed: %v", err)
	}
	failed.forgiven = true
	if err := j.judge(victim.death()); !errors.As(err, &d) || d.Rank != victim.rank {
		t.Errorf("blamed: %v", err)
	}
}
