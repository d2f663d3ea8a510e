package coord

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Party is one rank's place at a meeting of N ranks.
type Party struct {
	Name string // of the meeting; used once in the life of a job
	N    int    // ranks that meet
	ID   int    // this one, 0 <= ID < N
	// Role names a rank in errors: "worker" gives "worker 3". "" means worker.
	Role string
	// Who names a rank where ID alone is not what a reader knows it by.
	Who func(id int) string
	// Lease ties this rank's presence to its life. 0 is none.
	Lease LeaseID
	// Stays leaves what this rank has said there, for a process that goes on for one
	// that died: that is taken for it if it comes again. Forget removes it.
	Stays bool
}

// Barrier waits until all n ranks have called it with the same name.
func Barrier(ctx context.Context, c Coordinator, name string, n, id int) error {
	return Party{Name: name, N: n, ID: id}.Barrier(ctx, c)
}

// Gather is a Barrier that brings every rank all ranks' values, by id.
func Gather(ctx context.Context, c Coordinator, name string, n, id int, value []byte) ([][]byte, error) {
	return Party{Name: name, N: n, ID: id}.Gather(ctx, c, value)
}

// Barrier waits until all ranks of the party are here.
func (p Party) Barrier(ctx context.Context, c Coordinator) error {
	_, err := p.meet(ctx, c, "barrier", nil)
	return err
}

// Gather waits for all ranks and returns their values, by id. It ends early
// with an *AbortError when the job's abort flag goes up, and with a
// *MissingError when ctx ends.
func (p Party) Gather(ctx context.Context, c Coordinator, value []byte) ([][]byte, error) {
	return p.meet(ctx, c, "gather", value)
}

// Absent lists the ranks that are not at a Gather with this name now, of n.
func Absent(ctx context.Context, c Coordinator, name string, n int) (absent []int, err error) {
	prefix := "meet/gather/" + name + "/"
	here, _, err := c.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for id := range n {
		if !slices.ContainsFunc(here, func(kv KV) bool { return kv.Key == prefix+strconv.Itoa(id) }) {
			absent = append(absent, id)
		}
	}
	return absent, nil
}

// MissingError names those that did not come in time.
type MissingError struct {
	Kind, Name string
	Waited     time.Duration
	Missing    []string
	Cause      error // context.DeadlineExceeded or context.Canceled
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("waiting %s for %s at %s %s", e.Waited.Round(10*time.Millisecond), strings.Join(e.Missing, ", "), e.Kind, e.Name)
}

func (e *MissingError) Unwrap() error { return e.Cause }

func (p Party) who(id int) string {
	switch {
	case p.Who != nil:
		return p.Who(id)
	case p.Role != "":
		return p.Role + " " + strconv.Itoa(id)
	}
	return "worker " + strconv.Itoa(id)
}

func (p Party) check(ctx context.Context, kind string) error {
	if _, ok := ctx.Deadline(); !ok {
		return fmt.Errorf("coord: %s %s without a deadline", kind, p.Name)
	}
	if p.Name == "" || strings.Contains(p.Name, "/") || p.N < 1 || p.ID < 0 || p.ID >= p.N {
		return fmt.Errorf("coord: %s %q for rank %d of %d, want a name without '/' and a rank below the number of ranks", kind, p.Name, p.ID, p.N)
	}
	return nil
}

// meet is the one protocol behind Barrier and Gather. No rank leaves before
// all were seen, and a rank looks at the past before it shows up itself; so
// nobody's key can be gone before everyone has had its event.
func (p Party) meet(ctx context.Context, c Coordinator, kind string, value []byte) ([][]byte, error) {
	if err := p.check(ctx, kind); err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	abort, err := WatchAbort(ctx, c)
	if err != nil {
		return nil, p.late(ctx, kind, began, nil, err)
	}
	prefix := "meet/" + kind + "/" + p.Name + "/"
	m := meeting{party: p, prefix: prefix, values: make([][]byte, p.N), here: make([]bool, p.N)}
	past, rev, err := c.List(ctx, prefix)
	if err != nil {
		return nil, p.late(ctx, kind, began, &m, err)
	}
	for _, kv := range past {
		if err := m.see(Event{KV: kv}); err != nil {
			return nil, err
		}
	}
	w, err := c.Watch(ctx, prefix, rev+1)
	if err != nil {
		return nil, p.late(ctx, kind, began, &m, err)
	}
	defer w.Close()
	own := prefix + strconv.Itoa(p.ID)
	if err := p.appear(ctx, c, own, value); err != nil && !(p.Stays && errors.Is(err, ErrConflict)) {
		if errors.Is(err, ErrConflict) {
			return nil, fmt.Errorf("coord: %s is at %s %s already; two ranks have the same number, or the name is used twice", p.who(p.ID), kind, p.Name)
		}
		return nil, p.late(ctx, kind, began, &m, err)
	}
	for m.seen < p.N {
		select {
		case e, ok := <-w.Events():
			if !ok {
				return nil, p.late(ctx, kind, began, &m, w.Err())
			}
			if err := m.see(e); err != nil {
				return nil, err
			}
		case reason, ok := <-abort:
			if ok {
				return nil, &AbortError{Reason: reason}
			}
			abort = nil
		case <-ctx.Done():
			return nil, p.late(ctx, kind, began, &m, ctx.Err())
		}
	}
	if p.Stays {
		return m.values, nil
	}
	if _, err := c.Delete(ctx, own); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, p.late(ctx, kind, began, &m, err)
	}
	return m.values, nil
}

// nonceBytes begin a value at a meeting: whoever wrote it knows it again.
const nonceBytes = 8

// appear puts this rank's key, once. Where the answer was lost, what is there tells.
func (p Party) appear(ctx context.Context, c Coordinator, own string, value []byte) error {
	marked := append(make([]byte, nonceBytes), value...)
	rand.Read(marked[:nonceBytes])
	_, err := PutNew(ctx, c, own, marked, p.Lease)
	return err
}

// late turns the end of ctx into an error that says who is missing, and names them too where
// the coordinator ends: its own process may have waited for them in vain.
func (p Party) late(ctx context.Context, kind string, began time.Time, m *meeting, err error) error {
	var missing []string
	for id := range p.N {
		if m != nil && !m.here[id] && id != p.ID {
			missing = append(missing, p.who(id))
		}
	}
	switch {
	case ctx.Err() == nil && len(missing) > 0 && errors.Is(err, ErrUnavailable):
		return fmt.Errorf("coord: %s %s, which waited for %s: %w", kind, p.Name, strings.Join(missing, ", "), err)
	case ctx.Err() == nil:
		return fmt.Errorf("coord: %s %s: %w", kind, p.Name, err)
	case len(missing) == 0:
		missing = []string{"the coordinator"}
	}
	return &MissingError{Kind: kind, Name: p.Name, Waited: time.Since(began), Missing: missing, Cause: ctx.Err()}
}

// meeting is who has been seen so far.
type meeting struct {
	party  Party
	prefix string
	values [][]byte
	here   []bool
	seen   int
}

func (m *meeting) see(e Event) error {
	id, err := strconv.Atoi(strings.TrimPrefix(e.Key, m.prefix))
	if err != nil || id < 0 || id >= m.party.N {
		return fmt.Errorf("coord: %s meets %d ranks, but %s is there too; all ranks must be told the same number", m.party.Name, m.party.N, e.Key)
	}
	if m.here[id] == !e.Deleted {
		return nil
	}
	if m.here[id] = !e.Deleted; e.Deleted {
		m.seen--
		m.values[id] = nil
		return nil
	}
	if len(e.Value) < nonceBytes {
		return fmt.Errorf("coord: %s holds %d bytes, want %d at least; run the same psrt everywhere", e.Key, len(e.Value), nonceBytes)
	}
	m.seen++
	m.values[id] = slices.Clone(e.Value[nonceBytes:])
	return nil
}
