package train

import (
	"context"
	"errors"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
)

// companion is one worker of a company in a test: how its life ended is in gaveUp.
type companion struct {
	*company
	gaveUp chan error
}

// enters has a worker of the company of 0 and 1 come under a generation.
func enters(t *testing.T, c coord.Coordinator, index, generation int) (companion, error) {
	gaveUp := make(chan error, 16)
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	w := &worker{job: &Job{Workers: 2}, rank: &Rank{Index: index, Host: &dial.Host{}, Generation: generation, Coord: c, Timeout: 20 * time.Second}}
	k, err := w.enterCompany(ctx, []int{0, 1}, func(err error) {
		gaveUp <- err
		cancel(err)
	})
	return companion{k, gaveUp}, err
}

// lives has both come, and the carrier tell where they go on.
func lives(t *testing.T, c coord.Coordinator, carrier, carried int, from uint64) (a, b companion) {
	t.Helper()
	b, err := enters(t, c, 1, carried)
	if err == nil {
		a, err = enters(t, c, 0, carrier)
	}
	if err == nil {
		err = a.tell(t.Context(), &wentOn{From: from}, "here")
	}
	if err != nil {
		t.Fatal(err)
	}
	went, err := b.from(t.Context())
	if err != nil || went.From != from {
		t.Fatalf("it goes on at %+v, %v; want %d", went, err, from)
	}
	if addr, err := b.addr(t.Context()); err != nil || addr != "here" {
		t.Fatalf("the carrier is at %q, %v", addr, err)
	}
	return a, b
}

func (c companion) isOver(t *testing.T) {
	t.Helper()
	select {
	case err := <-c.gaveUp:
		var again *BeginAgain
		if !errors.As(err, &again) {
			t.Errorf("%v, want that it begins again", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on in a life that is over")
	}
}

// A company begins again when any of its workers does, and none takes part in a life that is
// not its own.
func TestCompanyBeginsAgain(t *testing.T) {
	t.Parallel()
	c := local.New()
	defer c.Close()
	carrier, _ := lives(t, c, 1, 1, 5)
	if carrier.again() {
		t.Error("the first life is said to be another one")
	}
	// Who is carried dies: the carrier gives up, and waits for a card that is newer.
	b, err := enters(t, c, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	carrier.isOver(t)
	if carrier, err = enters(t, c, 0, 2); err == nil {
		err = carrier.tell(t.Context(), &wentOn{From: 7}, "there")
	}
	if err != nil || !carrier.again() {
		t.Fatalf("%v, another life: %v", err, carrier.again())
	}
	if went, err := b.from(t.Context()); err != nil || went.From != 7 {
		t.Fatalf("%+v, %v", went, err)
	}
	// The carrier dies, twice: who is carried gives up, and hears of the newest life alone.
	came := make(chan error, 1)
	go func() {
		_, err := enters(t, c, 0, 3)
		came <- err
	}()
	b.isOver(t)
	carrier, b = lives(t, c, 4, 3, 9)
	if err := <-came; err != nil && !errors.Is(err, client.ErrTakenOver) {
		t.Errorf("the one in between: %v", err)
	}
	// One that was stopped, and whose number another has, learns so.
	if _, err := enters(t, c, 1, 2); !errors.Is(err, client.ErrTakenOver) {
		t.Errorf("%v, want that its number was taken over", err)
	}
	select {
	case err := <-carrier.gaveUp:
		t.Errorf("a stranger has ended a life: %v", err)
	case err := <-b.gaveUp:
		t.Errorf("a stranger has ended a life: %v", err)
	default:
	}
}

// Who dies before the carrier's first process has a life is in that life under its next
// generation, and begins anew like all: nobody has left.
func TestCompanyBeginsWithASecondProcess(t *testing.T) {
	t.Parallel()
	c := local.New()
	defer c.Close()
	b := companion{company: mustEnter(t, c, 1, 2)}
	a := companion{company: mustEnter(t, c, 0, 1)}
	if err := a.first(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.w.carried = &carried{company: b.company}
	if err := b.w.takeOver(t.Context(), false); err != nil || b.w.inherited != nil {
		t.Errorf("it has inherited %+v, %v", b.w.inherited, err)
	}
}

// Where somebody has said that it leaves, nobody waits for the others any more.
func TestCompanyIsOver(t *testing.T) {
	t.Parallel()
	c := local.New()
	defer c.Close()
	carrier, b := lives(t, c, 1, 1, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	leaving := coord.Party{Name: leavingName, N: 2, ID: 1, Stays: true}
	if _, err := leaving.Gather(ctx, c, nil); err == nil {
		t.Fatal("the other one has come")
	}
	again, err := enters(t, c, 0, 2)
	if err != nil || !again.over {
		t.Fatalf("%v, it is over: %v", err, again.company)
	}
	b.isOver(t)
	b.settle()
	if in, _, err := (companion{company: mustEnter(t, c, 1, 2)}).goesOn(t.Context()); err != nil || in == nil {
		t.Errorf("%+v, %v", in, err)
	}
	carrier.settle()
}

func mustEnter(t *testing.T, c coord.Coordinator, index, generation int) *company {
	t.Helper()
	k, err := enters(t, c, index, generation)
	if err != nil {
		t.Fatal(err)
	}
	return k.company
}
