package job

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
	"psrt/sched/metrics"
	"psrt/sched/train"
)

// What a rank leaves for psrt status follows the ways to the coordinator: those of the
// beginning may be gone.
func TestJoinedFollowsTheWays(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := local.New()
	defer store.Close()
	put := func(key, value string) {
		t.Helper()
		if _, err := store.Put(ctx, key, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	found := func(want string) {
		t.Helper()
		for {
			all, err := JoinedJobs(os.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 1 && all[0].Coordinator == want {
				return
			}
			if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
				t.Fatalf("found %+v, want %s", all, want)
			}
		}
	}
	token := []byte(strings.Repeat("token", 8))
	be := func(rank int, met string) (end func()) {
		cfg := RankConfig{Rank: rank, Coord: store, Token: token, Seen: true, Listen: "127.0.0.1:0", met: met}
		return beSeen(ctx, &cfg, &train.Job{Servers: 2, Workers: 1})
	}
	end := be(0, "h0:1")
	found("h0:1")
	put("way/1", "h1:1")
	found("h1:1")
	put("way/2", "h2:1")
	found("h1:1,h2:1")
	other := be(1, "h2:1") // a rank of the same job, as it was reached before
	found("h1:1,h2:1")
	all, err := JoinedJobs(os.TempDir()) // whose coordinator may be what hangs: both ranks can be asked
	if err != nil || len(all) != 1 || len(all[0].Here) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	s := metrics.LookAt(ctx, all[0].Here)
	if names := all[0].Here[0].Name + " " + all[0].Here[1].Name; !strings.Contains(names, "server 0 on ") || !strings.Contains(names, "server 1 on ") || len(metrics.Between(s, s).Silent) > 0 {
		t.Errorf("%s: %+v", names, metrics.Between(s, s))
	}
	other()
	if _, err := store.Delete(ctx, "way/1"); err != nil {
		t.Fatal(err)
	}
	found("h2:1")
	end()
	end = be(0, "https://etcd:2379")
	found("https://etcd:2379")
	end()
	if all, err := JoinedJobs(os.TempDir()); err != nil || len(all) > 0 {
		t.Errorf("left behind: %+v, %v", all, err)
	}
}

// Who looks at a job goes on when the address that it was given is gone.
func TestControlFollows(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	token := []byte(strings.Repeat("token", 8))
	store := local.New()
	defer store.Close()
	if err := Publish(ctx, store, &train.Job{Servers: 2, Workers: 1, Replicas: 2, Groups: 2}); err != nil {
		t.Fatal(err)
	}
	var ways [2]string
	var servers [2]*remote.Server
	for i := range ways {
		l, err := secure.Listen("tcp", "127.0.0.1:0", token)
		if err != nil {
			t.Fatal(err)
		}
		ways[i], servers[i] = l.Addr().String(), remote.ServeOneOf(l, store)
		defer servers[i].Close()
	}
	k, err := Attach(ctx, ways[0], token, StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	k.Follow(strings.Join(ways[:], ","))
	if err := servers[0].Close(); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := coord.Await(ctx, k.Coord, keyJob)
		if err == nil {
			break
		}
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// The ranks of a launcher of this machine have their names, whether they answer or not.
func TestLaunchedRanksHaveNames(t *testing.T) {
	dir := t.TempDir()
	l := &launcher{job: &train.Job{Servers: 1, Workers: 2}, dir: dir}
	for r := range 2 {
		l.rank(r)
	}
	for r := range 3 {
		if err := os.WriteFile(metricsSocket(dir, r), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, p := range MetricsPlaces(dir) {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, ", "); got != "server 0, worker 0, rank 2" {
		t.Errorf("%s; the last one is of an older psrt", got)
	}
}
