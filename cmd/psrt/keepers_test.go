package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"psrt/sched/job"
	"psrt/sched/train"
)

// keptJob is a job of ranks that were started one by one and keep its coordinator.
type keptJob struct {
	t                *testing.T
	servers, workers int
	data             []string // files of a queue; a worker gets each when it is let in
	ranks            []*exec.Cmd
	said             []*watched
	out              strings.Builder // of the first worker
	ways, token      string
	control          *job.Control
}

// let has the workers read a file.
func (j *keptJob) let(part int) {
	j.t.Helper()
	if err := os.WriteFile(j.data[part]+".now", nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
}

func (j *keptJob) start(ctx context.Context, flags ...string) {
	j.t.Helper()
	for r := range j.servers + j.workers {
		c := command(ctx, append(slices.Clone(flags), "--rank", strconv.Itoa(r))...)
		said := &watched{want: "there is a way to it", seen: make(chan struct{})}
		if r >= j.servers { // rank 0 looks through all files before it lets others in
			c.Env = append(c.Env, "GATED=1")
		}
		if c.Stderr = said; r == j.servers {
			c.Stdout = &j.out
		}
		if err := c.Start(); err != nil {
			j.t.Fatal(err)
		}
		j.ranks, j.said = append(j.ranks, c), append(j.said, said)
		j.t.Cleanup(func() { _ = c.Process.Kill() }) // it may have ended
	}
	select {
	case <-j.said[0].seen:
	case <-ctx.Done():
		j.fail("no keepers")
	}
	at := regexp.MustCompile(`\((127\.0\.0\.1:[^)]*)\)`).FindStringSubmatch(j.said[0].text())
	if at == nil {
		j.fail("no addresses")
	}
	j.ways = at[1]
	j.t.Cleanup(func() {
		if j.control != nil {
			_ = j.control.Close()
		}
	})
}

func (j *keptJob) fail(format string, args ...any) {
	j.t.Helper()
	for r, s := range j.said {
		j.t.Logf("rank %d: %s", r, s.text())
	}
	j.t.Fatalf(format, args...)
}

// whole says whether ranks below dead are neither keepers nor members of any chain, and
// as many others as can be are.
func (j *keptJob) whole(ctx context.Context, dead int) (bool, error) {
	if j.control == nil {
		var err error
		if j.control, err = job.Attach(ctx, j.ways, []byte(j.token), job.StoreConfig{}); err != nil {
			return false, err
		}
	}
	v, err := j.control.View(ctx)
	if err != nil {
		_ = j.control.Close() // that keeper has died: the next time another is asked
		j.control = nil
		return false, err
	}
	for _, k := range v.Keepers {
		if k.Rank < dead {
			return false, fmt.Errorf("%s is a keeper still", k.Name)
		}
	}
	gone := !slices.ContainsFunc(v.Servers, func(s job.ServerInfo) bool { return s.Server < dead && s.Groups > 0 })
	return gone && v.Epoch > 0 && v.Joins == 0 && (v.Short == 0 || j.servers-dead < 2) && len(v.Keepers) == min(5, j.servers+j.workers-dead), nil
}

func (j *keptJob) awaitWhole(ctx context.Context, dead int) {
	j.t.Helper()
	for {
		ok, err := j.whole(ctx, dead)
		if ok {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			j.fail("%d deaths, and it is not whole: %v", dead, err)
		}
	}
}

// Of the five ranks that keep a job's coordinator four are killed, each when the one
// before has been replaced or left out. Servers are cut out by what is left, and training
// ends with the model of an undisturbed run.
func TestKeepersKilled(t *testing.T) {
	t.Parallel()
	const deaths = 4
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	j := &keptJob{t: t, servers: 5, workers: 2, token: strings.Repeat("secret", 8)}
	for i := range deaths + 1 { // a file for the time before each death, and one for after
		j.data = append(j.data, write(t, dir, fmt.Sprintf("part%d.libffm", i), rows(600, uint64(i))))
	}
	flags := []string{"train", "--data", strings.Join(j.data, ","), "--dataset", "queue", "--sync", "bsp", "--dim", "4", "--batch", "64", "--json"}
	o := psrt(t, append(slices.Clone(flags), "--servers", "1", "--workers", "1")...)
	var want, got train.Result
	if err := json.Unmarshal([]byte(o.stdout), &want); err != nil {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	j.let(0)
	j.start(ctx, append(flags, "--servers", fmt.Sprint(j.servers), "--workers", fmt.Sprint(j.workers), "--replicas", "2", "--allow-same-host", "--transport", "tcp",
		"--pipe-command", `[ -z "$GATED" ] || while [ ! -e "$PSRT_FILE.now" ]; do sleep .05; done; cat`, "--pipe-timeout", "10m",
		"--world-size", fmt.Sprint(j.servers+j.workers), "--coordinator", freeAddr(t), "--token-file", write(t, dir, "token", j.token))...)
	for dead := range deaths {
		j.let(dead)
		j.awaitWhole(ctx, dead)
		if err := j.ranks[dead].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = j.ranks[dead].Wait() // killed
	}
	j.awaitWhole(ctx, deaths)
	j.let(deaths)
	for r := deaths; r < len(j.ranks); r++ {
		if err := j.ranks[r].Wait(); err != nil {
			j.fail("rank %d: %v", r, err)
		}
	}
	if err := json.Unmarshal([]byte(j.out.String()), &got); err != nil || got.Digest != want.Digest {
		j.fail("%v: the digest is %s, undisturbed %s", err, got.Digest, want.Digest)
	}
}
