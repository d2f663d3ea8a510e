package ring

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"psrt/nccl/coll"
	"psrt/rdma/dial"
	"psrt/rdma/invariant"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

// patience is for a machine ten times slower.
const patience = time.Minute

// process stands for one: it has a host of its own.
type process struct {
	host   *dial.Host
	member *Member
}

func newProcess(t testing.TB, transport string, opt Options) *process {
	t.Helper()
	return newProcessOn(t, dial.Config{Transport: transport}, opt)
}

func newProcessOn(t testing.TB, cfg dial.Config, opt Options) *process {
	t.Helper()
	cfg.Token = []byte("the token of all tests, long enough")
	h, err := dial.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Listen(h, "127.0.0.1:0", "test", opt)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{h, m}
	t.Cleanup(p.end)
	return p
}

func (p *process) end() {
	_ = p.member.Close()
	_ = p.host.Close()
}

func (p *process) join(ctx context.Context, place Place, all []*process) (*Group, error) {
	return p.member.Join(ctx, place, func(_ context.Context, rank int) (string, error) { return all[rank].member.Addr(), nil })
}

// join makes the group of all.
func join(t testing.TB, all []*process, epoch uint64) []*Group {
	t.Helper()
	return joinOn(t, all, epoch, nil)
}

func joinOn(t testing.TB, all []*process, epoch uint64, hosts []string) []*Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	groups, errs := make([]*Group, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			groups[i], errs[i] = p.join(ctx, Place{Rank: i, Size: len(all), Epoch: epoch, Hosts: hosts}, all)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return groups
}

// transports by the rank that uses them; a group in which they differ meets over
// what both ends can.
func groupsOver(t testing.TB, opt Options, size int, transport func(rank int) string) ([]*process, []coll.Group) {
	t.Helper()
	var all []*process
	for i := range size {
		all = append(all, newProcess(t, transport(i), opt))
	}
	var out []coll.Group
	for _, g := range join(t, all, 1) {
		out = append(out, g)
	}
	return all, out
}
