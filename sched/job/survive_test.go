package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
	"psrt/sched/coord/local"
	"psrt/sched/launch"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/train"
)

// chainedLauncher is one of a job whose servers have registered with these Gens, and
// whose map is of the servers with those.
func chainedLauncher(t *testing.T, replicas int, inMap, listed []uint64) (*launcher, *[]string) {
	t.Helper()
	c := local.New()
	t.Cleanup(func() { c.Close() })
	put := func(key string, v any) {
		text, err := json.Marshal(v)
		if err == nil {
			_, err = c.Put(t.Context(), key, text, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	server := func(i int, gen uint64) place.Server {
		return place.Server{ID: i, Lanes: 1, Weight: 1, Gen: gen, Host: "h", Addr: fmt.Sprint("a", i)}
	}
	var servers []place.Server
	for i, gen := range inMap {
		servers = append(servers, server(i, gen))
	}
	m, err := place.NewChains(place.ChainsConfig{Slots: 4096, Groups: 12, Replicas: replicas, AllowSameHost: true}, servers)
	if err != nil {
		t.Fatal(err)
	}
	put(replica.KeyMap, m)
	for i, gen := range listed {
		if gen > 0 {
			put(replica.ServerKey(i), replica.Registration{Server: server(i, gen), PID: 1})
		}
	}
	var told []string
	j := &train.Job{Servers: len(inMap), Workers: 2, Replicas: replicas, Groups: 12}
	return &launcher{job: j, store: c, starts: map[int]int{}, failures: map[int]*train.Failure{}, dir: t.TempDir(),
		cfg: ProcessConfig{Events: func(e train.Event) { told = append(told, e.Note+e.Warning) }}}, &told
}

func killed(l *launcher, rank int) *launch.Death {
	return &launch.Death{Rank: rank, Name: l.name(rank), PID: 77, Signal: syscall.SIGKILL}
}

func TestAServerThatDiesIsStartedAgain(t *testing.T) {
	l, told := chainedLauncher(t, 2, []uint64{11, 12, 13}, []uint64{11, 12, 13})
	deaths := l.deaths(t.Context())
	v := deaths(killed(l, 1))
	if v.End != nil || v.Again == nil || v.Again.Name != "server 1" || v.Pause != 0 {
		t.Fatalf("%+v", v)
	}
	if args := strings.Join(v.Again.Args, " "); !strings.Contains(args, "rank-1.1 ") || !strings.Contains(args, "--rank 1 --world-size 5") {
		t.Errorf("started again with %s", args)
	}
	if _, err := l.store.Get(t.Context(), replica.ServerKey(1)); !errors.Is(err, coord.ErrNotFound) {
		t.Errorf("it is still listed: %v", err)
	}
	if len(*told) != 1 || !strings.Contains((*told)[0], "server 1 (pid 77) was killed (signal 9)") || !strings.Contains((*told)[0], "started again") {
		t.Errorf("told %q", *told)
	}
	// At once again: it waits.
	if v = deaths(killed(l, 1)); v.End != nil || v.Again == nil || v.Pause != firstPause || !strings.Contains(strings.Join(v.Again.Args, " "), "rank-1.2 ") {
		t.Errorf("%+v", v)
	}
	// Not even when what it is given is no good any more.
	l.failures[1] = &train.Failure{Message: "the address is taken", BadInput: true}
	if v = deaths(killed(l, 1)); v.End != nil || v.Again == nil || v.Pause != 2*firstPause || !strings.Contains((*told)[2], "the address is taken") {
		t.Errorf("%+v, told %q", v, *told)
	}
	// The new process has no rows as yet; with another server gone some are lost.
	v = deaths(killed(l, 2))
	var lost *LostError
	if !errors.As(v.End, &lost) || len(lost.Groups) == 0 || len(lost.Groups) == 12 {
		t.Fatalf("%+v", v)
	}
	if s := lost.Error(); !strings.Contains(s, "server 2 (pid 77) was killed") || !strings.Contains(s, "more --replicas") || !strings.Contains(s, "--checkpoint DIR") {
		t.Errorf("said: %s", s)
	}
}

// A server that is killed before the servers know of each other is started again, a few times. One that gives a reason ends
// the job.
func TestAServerThatDiesBeforeTraining(t *testing.T) {
	l, told := chainedLauncher(t, 2, []uint64{11, 12, 13}, nil)
	if _, err := l.store.Delete(t.Context(), replica.KeyMap); err != nil {
		t.Fatal(err)
	}
	deaths := l.deaths(t.Context())
	for i := range maxEarlyRestarts {
		if v := deaths(killed(l, 1)); v.End != nil || v.Again == nil || len(*told) != i+1 || !strings.Contains((*told)[i], "before training had begun: it is started again") {
			t.Fatalf("death %d: %+v, told %q", i+1, v, *told)
		}
	}
	if v := deaths(killed(l, 1)); v.End == nil || v.Again != nil {
		t.Errorf("once more: %+v", v)
	}
	l.failures[2] = &train.Failure{Message: "no memory"}
	if v := deaths(killed(l, 2)); v.End == nil || v.Again != nil {
		t.Errorf("with a reason: %+v", v)
	}
}

// While all servers end, one that dies is missed only where nobody else has its rows.
func TestAServerThatDiesAtTheEnd(t *testing.T) {
	l, told := chainedLauncher(t, 2, []uint64{11, 12, 13}, []uint64{11, 12, 13})
	l.ending = func() bool { return true }
	deaths := l.deaths(t.Context())
	if v := deaths(killed(l, 1)); v.End != nil || v.Again != nil || len(*told) != 1 || !strings.Contains((*told)[0], "until the end") {
		t.Errorf("%+v, told %q", v, *told)
	}
	var lost *LostError
	if v := deaths(killed(l, 2)); !errors.As(v.End, &lost) {
		t.Errorf("%+v", v)
	}
}

// A server that was asked for while the job runs and cannot begin ends alone, and who
// asked learns why. One of the first ones would be missed.
func TestAnAddedServerThatCannotBegin(t *testing.T) {
	l, told := chainedLauncher(t, 2, []uint64{11, 12, 13}, []uint64{11, 12, 13})
	k := &Control{Job: l.job, Coord: l.store}
	number, err := k.Reserve(t.Context(), false)
	if err != nil || number != 3 {
		t.Fatalf("number %d, %v", number, err)
	}
	if err := k.Refused(t.Context(), number); err != nil {
		t.Errorf("nobody has refused it: %v", err)
	}
	rank := rankOf(number, l.job)
	deaths := l.deaths(t.Context())
	l.failures[rank] = &train.Failure{Message: "--rack is empty", BadInput: true}
	if v := deaths(killed(l, rank)); v.End != nil || v.Again != nil || len(*told) != 1 || !strings.Contains((*told)[0], "--rack is empty") {
		t.Errorf("%+v, told %q", v, *told)
	}
	var bad *train.InputError
	if err := k.Refused(t.Context(), number); !errors.As(err, &bad) || !strings.Contains(err.Error(), "--rack is empty") {
		t.Errorf("who asked for it is told %v", err)
	}
	if next, err := k.Reserve(t.Context(), false); err != nil || next != 4 {
		t.Errorf("the next one has number %d, %v", next, err)
	}
	// A coordinator that is away in the middle costs no number, and gives none twice.
	away := &Control{Job: l.job, Coord: &coordtest.Absent{Coordinator: l.store}}
	for want := 5; want < 8; want++ {
		if next, err := away.Reserve(t.Context(), want%2 == 0); err != nil || next != want {
			t.Errorf("through absences the next one has number %d, want %d: %v", next, want, err)
		}
	}
	l.failures[1] = &train.Failure{Message: "--rack is empty", BadInput: true}
	if v := deaths(killed(l, 1)); v.End == nil {
		t.Error("the job goes on without a server that it begins with")
	}
}

// One that has taken groups dies as any server does, though what ended it is its input:
// a disk that is full. One that has registered and has none is not to get any.
func TestAnAddedServerThatHadBegun(t *testing.T) {
	l, told := chainedLauncher(t, 2, []uint64{11, 12, 13, 14}, []uint64{11, 12, 13, 14, 15})
	l.job.Servers = 3
	deaths := l.deaths(t.Context())
	full := func(number int) launch.Verdict {
		rank := rankOf(number, l.job)
		l.failures[rank] = &train.Failure{Message: "the disk is full", BadInput: true}
		return deaths(killed(l, rank))
	}
	if v := full(4); v.End != nil || v.Again != nil {
		t.Errorf("without groups: %+v, told %q", v, *told)
	}
	if v := full(3); v.End != nil || v.Again == nil || !strings.Contains((*told)[1], "started again") {
		t.Errorf("with groups: %+v, told %q", v, *told)
	}
	for number := 3; number < 5; number++ {
		if _, err := l.store.Get(t.Context(), replica.ServerKey(number)); !errors.Is(err, coord.ErrNotFound) {
			t.Errorf("server %d is still listed: %v", number, err)
		}
	}
	var lost *LostError
	if v := deaths(killed(l, 2)); !errors.As(v.End, &lost) {
		t.Errorf("nobody has some groups any more: %+v", v)
	}
}

func TestDeathsThatEndAJob(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int
		rank     int
		prepare  func(*launcher)
		says     string
	}{
		"a worker's":             {2, 3, nil, "worker 0 (pid 77) was killed"},
		"without replicas":       {1, 0, nil, "--replicas 2 survives"},
		"of psrt serve":          {1, 0, func(l *launcher) { l.saved = "flags of serve" }, "death of a server); flags of serve"},
		"for the input's sake":   {2, 0, func(l *launcher) { l.failures[0] = &train.Failure{Message: "no disk", BadInput: true} }, "server 0 (pid 77)"},
		"of a job without chain": {1, 0, func(l *launcher) { l.job.Groups = 0 }, "server 0 (pid 77)"},
	} {
		l, _ := chainedLauncher(t, c.replicas, []uint64{11, 12, 13}, []uint64{11, 12, 13})
		if c.prepare != nil {
			c.prepare(l)
		}
		if v := l.deaths(t.Context())(killed(l, c.rank)); v.End == nil || !strings.Contains(v.End.Error(), c.says) {
			t.Errorf("%s: %+v, want %q", name, v, c.says)
		}
	}
}

// A server of which the map knows an older process has none of that one's rows; one
// that is not listed for the moment has its own.
func TestWhoHasRows(t *testing.T) {
	l, _ := chainedLauncher(t, 2, []uint64{11, 12, 13}, []uint64{0, 12, 13})
	if v := l.deaths(t.Context())(killed(l, 1)); v.End != nil {
		t.Errorf("server 0 is not listed, and nobody saw it die: %v", v.End)
	}
	l, _ = chainedLauncher(t, 2, []uint64{11, 12, 13}, []uint64{21, 12, 13})
	if v := l.deaths(t.Context())(killed(l, 1)); v.End == nil {
		t.Errorf("server 0 is another process than the map's, and its groups are not missed")
	}
	l, _ = chainedLauncher(t, 2, []uint64{11, 12, 13}, []uint64{11, 12, 13})
	if _, err := l.store.Put(t.Context(), train.KeyDone, nil, 0); err != nil {
		t.Fatal(err)
	}
	if v := l.deaths(t.Context())(killed(l, 1)); v.End != nil || v.Again != nil {
		t.Errorf("the job is done: %+v", v)
	}
}

func TestPausesBetweenStarts(t *testing.T) {
	at := time.Unix(1000, 0)
	r := &restarts{began: at}
	var got []time.Duration
	for range 10 {
		p := r.pause(at)
		got = append(got, p)
		at = at.Add(p)
	}
	if got[0] != 0 || got[1] != firstPause || got[2] != 2*firstPause || got[9] != lastPause {
		t.Errorf("pauses %v", got)
	}
	if p := r.pause(at.Add(2 * steadyFor)); p != 0 {
		t.Errorf("after a long life: %v", p)
	}
}

// Numbers of servers and ranks go both ways, and name the ranks.
func TestNumbersOfServers(t *testing.T) {
	j := &train.Job{Servers: 3, Workers: 2}
	for rank, want := range []string{"server 0", "server 1", "server 2", "worker 0", "worker 1", "server 3", "server 4"} {
		if got := nameIn(rank, j); got != want {
			t.Errorf("rank %d is %s, want %s", rank, got, want)
		}
		if n, serves := serverOf(rank, j); serves && rankOf(n, j) != rank {
			t.Errorf("server %d has rank %d, want %d", n, rankOf(n, j), rank)
		}
	}
}

// Numbers are given once, and the launcher starts what is asked of it.
func TestServersAreAdded(t *testing.T) {
	l, _ := chainedLauncher(t, 2, []uint64{11, 12}, []uint64{11, 12})
	more := make(chan launch.Later)
	go l.added(t.Context(), more)
	k := &Control{Job: l.job, Coord: l.store}
	for want, itself := range []bool{false, true, false} {
		n, err := k.Reserve(t.Context(), itself)
		if err != nil || n != 2+want {
			t.Fatalf("number %d, %v; want %d", n, err, 2+want)
		}
		if itself {
			continue
		}
		if r := <-more; r.Index != 4+want || r.Name != fmt.Sprintf("server %d", n) {
			t.Errorf("started rank %d, %s", r.Index, r.Name)
		}
	}
}

// What a server has to say to be called well.
func TestServerStates(t *testing.T) {
	for want, s := range map[string]ServerInfo{
		"well":           {Listed: true, Generation: 7, Groups: 1},
		"joining":        {Listed: true, Generation: 7, Joins: 1},
		"without groups": {Listed: true, Generation: 7},
		"not in the map": {Listed: true},
		"silent":         {Generation: 7, Groups: 1},
		"leaving":        {Listed: true, Generation: 7, Groups: 1, Leaving: true},
	} {
		if got := s.State(); got != want {
			t.Errorf("%+v is %s, want %s", s, got, want)
		}
	}
}

// Places for replicas are servers where they may share a host, else hosts or labelled
// racks; who leaves, is silent or has only come has none.
func TestRoomForReplicas(t *testing.T) {
	at := func(n int, host, rack string) ServerInfo {
		return ServerInfo{Server: n, Host: host, Rack: rack, Listed: true, Generation: 7}
	}
	v := &View{Servers: []ServerInfo{at(0, "h1", ""), at(1, "h1", ""), at(2, "h2", "r"), at(3, "h3", "r"), {Server: 4, Generation: 7}, {Server: 5, Listed: true}, {Server: 6, Listed: true, Generation: 7, Leaving: true}}}
	for _, c := range []struct {
		but      int
		sameHost bool
		want     int
	}{{0, true, 3}, {4, true, 4}, {0, false, 2}, {2, false, 2}} {
		if n, _ := room(v, c.but, c.sameHost); n != c.want {
			t.Errorf("without %d (%v): %d, want %d", c.but, c.sameHost, n, c.want)
		}
	}
}

func TestServersAreSeenAndRemoved(t *testing.T) {
	l, _ := chainedLauncher(t, 2, []uint64{11, 12, 13}, []uint64{11, 12, 0})
	k := &Control{Job: l.job, Coord: l.store}
	v, err := k.View(t.Context())
	if err != nil || len(v.Servers) != 3 || v.Groups != 12 || v.Replicas != 2 || !v.Whole() {
		t.Fatalf("%+v, %v", v, err)
	}
	groups, heads := 0, 0
	for _, s := range v.Servers {
		groups, heads = groups+s.Groups, heads+s.Heads
	}
	if groups != 24 || heads != 12 || !v.Servers[0].Listed || v.Servers[2].Listed || v.Servers[1].PID != 1 {
		t.Errorf("%+v", v)
	}
	for _, c := range []struct {
		number int
		force  bool
		says   string
	}{{7, false, "there is no server 7"}, {1, false, "without server 1 there are 1 "}, {1, true, ""}, {0, true, "server 0 is the last one"}} {
		if err := k.Remove(t.Context(), c.number, c.force); c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("remove %d: %v, want %q", c.number, err, c.says)
		}
	}
	if v, err = k.View(t.Context()); err != nil || !v.Find(1).Leaving || v.Find(0).Leaving || v.Find(9) != nil {
		t.Errorf("%+v, %v", v, err)
	}
}
