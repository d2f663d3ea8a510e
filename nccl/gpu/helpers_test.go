//go:build cgo

package gpu

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/nccl/nccltest"
	"psrt/nccl/coll"
	"psrt/nccl/ring"
	"psrt/rdma/dial"
	"psrt/rdma/invariant"
)

func TestMain(m *testing.M) {
	if os.Getenv("PSRT_GPU") == "" {
		os.Setenv("PSRT_FAKE_CUDA_DEVICES", "8") // before the fake is loaded
	}
	os.Exit(invariant.Main(m))
}

// patience is for a machine ten times slower.
const patience = time.Minute

// process stands for one: it has a host of its own, and sees all cards.
type process struct {
	host   *dial.Host
	member *ring.Member
}

func newProcess(t testing.TB) *process {
	t.Helper()
	h, err := dial.New(dial.Config{Transport: "shm", Token: []byte("the token of all tests, long enough")})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ring.Listen(h, "127.0.0.1:0", "test", ring.Options{Node: -1, Timeout: patience})
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

// both closes the control with the group.
type both struct {
	*Group
	control *ring.Group
}

func (b *both) Close() error { return errors.Join(b.Group.Close(), b.control.Close()) }

// controls are the ranks' groups over shared memory.
func controls(t testing.TB, all []*process, epoch uint64) []*ring.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, errs := make([]*ring.Group, len(all)), make([]error, len(all))
	everyone(len(all), func(i int) {
		out[i], errs[i] = all[i].member.Join(ctx, ring.Place{Rank: i, Size: len(all), Epoch: epoch},
			func(_ context.Context, rank int) (string, error) { return all[rank].member.Addr(), nil })
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}

func everyone(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// joins has all ranks join over the controls.
func joins(t testing.TB, over []*ring.Group, opt func(rank int) Options) ([]*Group, []error) {
	t.Helper()
	groups, errs := make([]*Group, len(over)), make([]error, len(over))
	everyone(len(over), func(i int) {
		groups[i], errs[i] = Join(t.Context(), over[i], opt(i))
	})
	return groups, errs
}

// fakes are libraries for this process.
func fakes(t testing.TB) Options {
	t.Helper()
	driver := cudatest.Library(t)
	return Options{Timeout: patience, Machine: "here", CUDA: driver, NCCL: nccltest.Build(t)}
}

// machine is four cards with a fake driver, or, with PSRT_GPU set, this machine's.
func machine(t testing.TB) (opt Options, cards int) {
	t.Helper()
	if cards = cudatest.Cards(t); cards == 0 {
		return fakes(t), 4
	}
	return Options{Timeout: patience, Machine: "here"}, cards
}

// builtFakes are also for other processes, which load the driver's file.
func builtFakes(t testing.TB) (driver string, opt Options) {
	t.Helper()
	opt = fakes(t)
	return cudatest.Build(t), opt
}

// joined makes the groups of so many new processes.
func joined(t testing.TB, size int, opt Options) ([]*process, []coll.Group) {
	t.Helper()
	var all []*process
	for range size {
		all = append(all, newProcess(t))
	}
	over := controls(t, all, 1)
	groups, errs := joins(t, over, func(int) Options { return opt })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var out []coll.Group
	for i, g := range groups {
		out = append(out, &both{g, over[i]})
	}
	return all, out
}
