package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/job"
	"psrt/sched/launch"
	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// faultRuns is how many random fault runs there are: PSRT_FAULT_RUNS of them, else
// the fixed seeds below and a fresh one.
func faultSeeds(t *testing.T, fixed ...uint64) []uint64 {
	t.Helper()
	if s := os.Getenv("PSRT_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("PSRT_SEED=%s: %v", s, err)
		}
		return []uint64{n}
	}
	if s := os.Getenv("PSRT_FAULT_RUNS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("PSRT_FAULT_RUNS=%s: %v", s, err)
		}
		for range n {
			fixed = append(fixed, rand.Uint64())
		}
		return fixed
	}
	if testing.Short() {
		return []uint64{rand.Uint64()}
	}
	return append(fixed, rand.Uint64())
}

// faultJob are the flags of the job that fault runs disturb, and the digest of the
// model that it makes undisturbed, without replicas.
func faultJob(t *testing.T) (flags []string, digest string) {
	t.Helper()
	return undisturbed(t, "train", "--data", write(t, t.TempDir(), "train.libffm", rows(4000, 1)), "--epochs", fmt.Sprint(faultPasses))
}

// faultPasses is how often such a job goes through its data.
const faultPasses = 40

// gatedJob is a faultJob that is not over before the test lets it: its last pass waits.
func gatedJob(t *testing.T) (flags []string, digest string, g gate) {
	t.Helper()
	flags, g = gated(t, rows(4000, 1), faultPasses)
	flags, digest = undisturbed(t, flags...)
	g.let(t, faultPasses-1)
	return flags, digest, g
}

func undisturbed(t *testing.T, job ...string) (flags []string, digest string) {
	t.Helper()
	flags = append(job, "--sync", "bsp", "--dim", "4", "--batch", "128", "--stall-after", "60s", "--json")
	flags = flags[:len(flags):len(flags)]
	o := psrt(t, append(flags, "--servers", "1", "--workers", "1")...)
	var res train.Result
	if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || res.Digest == "" {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	return flags, res.Digest
}

// server runs psrt server on the job.
func (v *victim) server(ctx context.Context, args ...string) outcome {
	c := command(ctx, append([]string{"server"}, args...)...)
	c.Env = append(c.Env, "TMPDIR="+v.dir)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	_ = c.Run() // its exit code says
	return outcome{code: c.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
}

// victim is a job under way whose ranks are this test's to kill.
type victim struct {
	t       *testing.T
	c       *exec.Cmd
	dir     string // its TMPDIR
	out     bytes.Buffer
	said    *watched
	control *job.Control
	ended   chan struct{}
	err     error
}

// begin starts a job in a TMPDIR of its own and waits until it has trained an epoch.
func begin(ctx context.Context, t *testing.T, args ...string) *victim {
	t.Helper()
	return beginAs(ctx, t, os.Args[0], args...)
}

// startVictim starts the program that lies at exe, in a TMPDIR of its own.
func startVictim(ctx context.Context, t *testing.T, exe string, args ...string) *victim {
	t.Helper()
	v := &victim{t: t, c: command(ctx, args...), said: &watched{want: "epoch  1", seen: make(chan struct{})}, ended: make(chan struct{})}
	dir, err := os.MkdirTemp("", "pf") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	v.dir = dir
	v.c.Path = exe
	v.c.Env = append(v.c.Env, "TMPDIR="+dir)
	v.c.Stdout, v.c.Stderr = &v.out, v.said
	if err := v.c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { v.err = v.c.Wait(); close(v.ended) }()
	t.Cleanup(func() {
		_ = v.c.Process.Kill() // it may have ended; its ranks end with it
		<-v.ended
	})
	return v
}

// beginAs is begin with the program that lies at exe.
func beginAs(ctx context.Context, t *testing.T, exe string, args ...string) *victim {
	t.Helper()
	v := startVictim(ctx, t, exe, args...)
	v.await(ctx)
	running, err := launch.Running(v.dir)
	if err != nil || len(running) != 1 {
		t.Fatalf("launchers %v, %v: %s", running, err, v.said.text())
	}
	token, err := os.ReadFile(job.TokenOf(running[0].Path))
	if err == nil {
		v.control, err = job.AttachLauncher(ctx, running[0].Path, token)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.control.Close() })
	return v
}

func (v *victim) await(ctx context.Context) {
	v.t.Helper()
	select {
	case <-v.said.seen:
	case <-v.ended:
		v.t.Fatalf("it ended before %q: %v: %s", v.said.want, v.err, v.said.text())
	case <-ctx.Done():
		v.t.Fatalf("never %q: %s", v.said.want, v.said.text())
	}
}

// ending says whether the job ends, which takes a moment: what asks it for something
// meanwhile finds nobody.
func (v *victim) ending() bool {
	select {
	case <-v.ended:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// over says whether the job has ended.
func (v *victim) over() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// pid is the process of a server at present, 0 for none.
func (v *victim) pid(server int) int {
	rank := strconv.Itoa(server)
	if v.control != nil && server >= v.control.Job.Servers {
		rank = strconv.Itoa(server + v.control.Job.Workers)
	}
	return v.rankPid(rank)
}

// rankPid is the process of a rank at present, 0 for none.
func (v *victim) rankPid(rank string) int {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		line, _ := os.ReadFile(f)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "stat"))
		after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(after) > 1 && after[1] == strconv.Itoa(v.c.Process.Pid) && after[0] != "Z" &&
			bytes.Contains(line, []byte("\x00--rank\x00"+rank+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			return pid
		}
	}
	return 0
}

// whole waits until every group has all its replicas in a map after epoch, or the
// job is over.
func (v *victim) whole(ctx context.Context, epoch uint64) bool {
	v.t.Helper()
	return v.settles(ctx, func(view *job.View) bool { return view.Epoch > epoch && view.Whole() })
}

// settles waits until the job's servers are as is wants them, or the job is over.
func (v *victim) settles(ctx context.Context, is func(*job.View) bool) bool {
	v.t.Helper()
	wait, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-v.ended:
			stop()
		case <-wait.Done():
		}
	}()
	err := v.control.Settle(wait, is, func(*job.View) {})
	switch {
	case v.over():
		return false
	case err != nil:
		if v.ending() {
			return false
		}
		view, _ := v.control.View(context.Background())
		v.t.Fatalf("its servers are not all there again: %v: %+v: %s", err, view, v.said.text())
	}
	return true
}

// any is the number of a server, 0 when the job is over.
func (v *victim) any(ctx context.Context, rng *rand.Rand) int {
	view, err := v.control.View(ctx)
	if err != nil && !v.ending() {
		v.t.Fatal(err)
	}
	if err != nil {
		return 0
	}
	return view.Servers[rng.IntN(len(view.Servers))].Server
}

// epoch is the map's at present.
func (v *victim) epoch(ctx context.Context) uint64 {
	v.t.Helper()
	view, err := v.control.View(ctx)
	if err != nil && !v.ending() {
		v.t.Fatal(err)
	}
	if err != nil {
		return 0
	}
	return view.Epoch
}

// result waits for the end, and compares the digest.
func (v *victim) result(ctx context.Context, digest string) {
	v.t.Helper()
	select {
	case <-v.ended:
	case <-ctx.Done():
		v.t.Fatalf("it does not end: %s", v.said.text())
	}
	var res train.Result
	if err := json.Unmarshal(v.out.Bytes(), &res); v.err != nil || err != nil {
		v.t.Fatalf("%v, %v: %s", v.err, err, v.said.text())
	}
	if res.Digest != digest {
		v.t.Errorf("digest %s, the undisturbed run's is %s: %s", res.Digest, digest, v.said.text())
	}
}

// faultLimit bounds a run, which takes some seconds on a machine of its own.
const faultLimit = 5 * time.Minute

// Servers are killed and stopped at random moments, never more at a time than there
// are replicas to spare: training finishes with the undisturbed model.
func TestServersKilledAndStopped(t *testing.T) {
	t.Parallel()
	flags, digest := faultJob(t)
	for _, seed := range faultSeeds(t, 1, 2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { killAndStop(t, flags, digest, seed, "auto") })
	}
	t.Run("quic", func(t *testing.T) { killAndStop(t, flags, digest, faultSeeds(t)[0], "quic") })
}

func killAndStop(t *testing.T, flags []string, digest string, seed uint64, transport string) {
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	servers, replicas := 3, 2+rng.IntN(2)
	groups := []int{3, 6, 12}[rng.IntN(3)]
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	v := begin(ctx, t, append(flags, "--servers", fmt.Sprint(servers), "--workers", fmt.Sprint(1+rng.IntN(3)),
		"--transport", transport, "--replicas", fmt.Sprint(replicas), "--groups", fmt.Sprint(groups), "--allow-same-host")...)
	faults := 0
	for after := uint64(0); faults < 4 && v.whole(ctx, after); {
		if rng.IntN(4) == 0 { // one comes, and one goes where it is not too few
			o := v.server(ctx, "add")
			if o.code == 0 && v.whole(ctx, 0) {
				o = v.server(ctx, "remove", fmt.Sprint(v.any(ctx, rng)))
			}
			if o.code != 0 && !v.ending() {
				t.Fatalf("exit %d: %s%s: %s", o.code, o.stdout, o.stderr, v.said.text())
			}
			after = 0
			faults++
			continue
		}
		if faults > 0 {
			time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond) // the moment is the fault's, not ours
		}
		after = v.epoch(ctx)
		for range 1 + rng.IntN(replicas-1) {
			s := v.any(ctx, rng)
			pid := v.pid(s)
			if pid == 0 || v.over() {
				continue
			}
			faults++
			if rng.IntN(3) > 0 {
				t.Logf("server %d (pid %d) is killed", s, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				continue
			}
			// Long enough to be cut out, so that the next fault finds all whole.
			long := time.Duration(1000+rng.IntN(2000)) * time.Millisecond
			t.Logf("server %d (pid %d) is stopped for %v", s, pid, long)
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			time.AfterFunc(long, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		}
	}
	v.result(ctx, digest)
	t.Logf("%d faults", faults)
}

// All servers are killed, one after the other, in a job whose rows do not fit into their
// memory: what lies on the disks of the dead is copied from the disks of the others.
func TestServersKilledOverDisks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 9))
	var data bytes.Buffer
	for range 6000 {
		fmt.Fprint(&data, rng.IntN(2))
		for f := range 8 {
			fmt.Fprintf(&data, " %d:%d:1", f, rng.IntN(40000))
		}
		data.WriteByte('\n')
	}
	flags := []string{"train", "--data", write(t, dir, "train.libffm", data.String()), "--sync", "bsp", "--dim", "128", "--batch", "128", "--epochs", "8",
		"--mem-budget", "44MiB", "--ssd", dir, "--stall-after", "60s", "--json"}
	o := psrt(t, append(flags, "--servers", "1", "--workers", "1")...)
	var alone train.Result
	if err := json.Unmarshal([]byte(o.stdout), &alone); err != nil || alone.Digest == "" {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	v := begin(ctx, t, append(flags, "--servers", "3", "--workers", "2", "--replicas", "2", "--groups", "6", "--allow-same-host")...)
	killed := v.killEach(ctx, 3)
	v.result(ctx, alone.Digest)
	if killed == 0 {
		t.Error("it was over before a server was killed")
	}
	if strings.Contains(v.said.text(), "has no replica here") {
		t.Errorf("a copy was lost: %s", v.said.text())
	}
}

// killEach kills the first servers of a job, one after the other as soon as all groups are
// whole, and counts them.
func (v *victim) killEach(ctx context.Context, servers int) (killed int) {
	for killed < servers && v.whole(ctx, 0) {
		killed++
		v.kill(ctx, killed-1)
	}
	return killed
}

// kill kills a server, and returns when the map knows, or the job is over.
func (v *victim) kill(ctx context.Context, server int) { v.end(ctx, server, syscall.SIGKILL) }

// end is kill by another signal; false where there was nobody to send it to.
func (v *victim) end(ctx context.Context, server int, by syscall.Signal) bool {
	v.t.Helper()
	before, err := v.control.View(ctx)
	pid := v.pid(server)
	if pid == 0 || err != nil || before.Find(server) == nil { // it may have ended
		return false
	}
	_ = syscall.Kill(pid, by)
	for !v.over() && ctx.Err() == nil {
		if view, err := v.control.View(ctx); err == nil && isOut(view, before.Find(server)) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// isOut says whether the map does without a server's process, as it was before.
func isOut(v *job.View, was *job.ServerInfo) bool {
	is := v.Find(was.Server)
	return is == nil || is.Generation != was.Generation || is.Groups == 0
}

// Rows of coming batches lie on a device, by its twin in the host's memory, while servers
// are killed: the model is the one that is made in memory.
func TestServersKilledOverDevice(t *testing.T) {
	t.Parallel()
	flags, digest := faultJob(t)
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	v := begin(ctx, t, append(flags, "--servers", "3", "--workers", "2", "--replicas", "2", "--groups", "6", "--allow-same-host", "--hbm-budget", "3MiB", "--hbm-device", "host")...)
	if killed := v.killEach(ctx, 2); killed == 0 {
		t.Error("it was over before a server was killed")
	}
	v.result(ctx, digest)
	var res train.Result
	if err := json.Unmarshal(v.out.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	hits := uint64(0)
	for _, s := range res.ServerUse {
		for _, table := range s.Tables {
			if table.Tiers != nil {
				hits += table.Tiers.DeviceHits
			}
		}
	}
	if hits == 0 || strings.Contains(v.said.text(), "has no replica here") {
		t.Errorf("%d rows were found on a device: %s", hits, v.said.text())
	}
}

// Servers come and go while a job trains, the first ones too.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	v := begin(ctx, t, append(endless(t)[1:], "--batch", "128", "--servers", "2", "--workers", "2", "--replicas", "2", "--groups", "6", "--allow-same-host")...)
	server := func(args ...string) outcome { return v.server(ctx, args...) }
	for _, step := range []struct{ args, says string }{
		{"add", "server 2 has joined"}, {"remove 0", "server 0 has left"}, {"add", "server 3 has joined"}, {"remove 1", "server 1 has left"},
	} {
		o := server(strings.Fields(step.args)...)
		if v.over() {
			t.Fatalf("the job was over before server %s: %s", step.args, v.said.text())
		}
		if o.code != 0 || !strings.Contains(o.stdout, step.says) {
			t.Fatalf("server %s: exit %d: %s%s: %s", step.args, o.code, o.stdout, o.stderr, v.said.text())
		}
	}
	var view job.View
	if o := server("ls", "--json"); o.code != 0 || json.Unmarshal([]byte(o.stdout), &view) != nil || len(view.Servers) != 2 || view.Find(2) == nil || view.Find(3) == nil || !view.Whole() {
		t.Errorf("ls: exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	if o := server("remove", "7"); o.code != 2 || !strings.Contains(o.stderr, "there is no server 7") {
		t.Errorf("remove 7: exit %d: %s", o.code, o.stderr)
	}
	_ = v.c.Process.Signal(os.Interrupt)
	select {
	case <-v.ended:
	case <-ctx.Done():
		t.Errorf("it does not end: %s", v.said.text())
	}
	for s := range 4 {
		if pid := v.pid(s); pid != 0 {
			t.Errorf("server %d (pid %d) is still there", s, pid)
		}
	}
}

// Servers are killed while checkpoints are written, and then all at once, so that rows
// are lost: the error says what to do, and a job that goes on from the newest
// checkpoint makes the undisturbed model.
func TestLostServersAndResume(t *testing.T) {
	t.Parallel()
	flags, digest, g := gatedJob(t)
	g.let(t, faultPasses/2) // the rest is for a checkpoint that no kill disturbs
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "ck")
	chained := append(flags, "--servers", "3", "--workers", "2", "--replicas", "2", "--groups", "6", "--allow-same-host", "--checkpoint", dir, "--checkpoint-every", "20steps")
	v := begin(ctx, t, chained...)
	v.killEach(ctx, 2)
	if !v.whole(ctx, 0) {
		t.Fatalf("it has ended: %s", v.said.text())
	}
	g.let(t, faultPasses-1)
	for { // the kills may have been the end of all checkpoints so far
		if _, err := ckpt.OpenTrainable(ctx, dir); err == nil {
			break
		} else if v.over() || ctx.Err() != nil {
			t.Fatalf("there is no checkpoint: %v: %s", err, v.said.text())
		}
		time.Sleep(time.Millisecond)
	}
	for s := range 3 {
		if pid := v.pid(s); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	g.let(t, faultPasses)
	select {
	case <-v.ended:
	case <-ctx.Done():
		t.Fatalf("it does not end: %s", v.said.text())
	}
	if said := v.said.text(); v.c.ProcessState.ExitCode() != 1 || !strings.Contains(said, "nobody has the rows of group") || !strings.Contains(said, "go on with --resume from checkpoint") {
		t.Fatalf("exit %d: %s", v.c.ProcessState.ExitCode(), said)
	}
	var from uint64
	for name, args := range map[string][]string{
		"with replicas":    append(chained, "--resume", "--checkpoint-every", "1000000steps"),
		"without replicas": append(flags, "--servers", "2", "--workers", "1", "--checkpoint", dir, "--resume", "--checkpoint-every", "1000000steps"),
	} {
		o := psrt(t, args...)
		var res train.Result
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || res.Checkpoints == nil || res.Checkpoints.ResumedFrom == 0 {
			t.Fatalf("%s: %v: %s%s", name, err, o.stdout, o.stderr)
		}
		if res.Digest != digest {
			t.Errorf("%s: digest %s, the undisturbed run's is %s", name, res.Digest, digest)
		}
		from = res.Checkpoints.ResumedFrom
	}
	// Older generations may lie there too, which nobody reads.
	parts, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("parts-%010d-*", from)))
	if err != nil || len(parts) != 1 {
		t.Fatalf("the parts of checkpoint %d: %v, %v", from, parts, err)
	}
	damaged := damage(t, parts[0])
	if o := psrt(t, append(chained, "--resume")...); o.code == 0 || o.stdout != "" || !strings.Contains(o.stderr, filepath.Base(damaged)) {
		t.Errorf("with %s damaged: exit %d: %s%s", damaged, o.code, o.stdout, o.stderr)
	}
}

// damage changes a byte of the largest file below a directory.
func damage(t *testing.T, dir string) (path string) {
	t.Helper()
	most := int64(0)
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err == nil && i.Size() > most {
			most, path = i.Size(), p
		}
		return err
	}))
	b, err := os.ReadFile(path)
	must(t, err)
	b[len(b)/2] ^= 1
	must(t, os.WriteFile(path, b, 0o644))
	return path
}
