package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"psrt/sched/job"
	"psrt/sched/psmsg"
)

// mark is what install writes behind a program: which version of the wire it stops at.
const mark = "\npsrt speaks up to %4d\n"

// install puts a psrt that speaks the wire's versions up to speaks where path says, by
// renaming: what runs keeps the file that was there.
func install(t *testing.T, path string, speaks int) {
	t.Helper()
	from, err := os.Open(os.Args[0])
	must(t, err)
	defer from.Close()
	next := path + ".new"
	to, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	must(t, err)
	_, err = io.Copy(to, from)
	must(t, err)
	_, err = fmt.Fprintf(to, mark, speaks)
	must(t, err)
	must(t, to.Close())
	must(t, os.Rename(next, path))
}

// speakAsInstalled makes this process what its file was installed as.
func speakAsInstalled() {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	defer self.Close()
	end := make([]byte, len(fmt.Sprintf(mark, 0)))
	if _, err := self.Seek(-int64(len(end)), io.SeekEnd); err != nil {
		panic(err)
	}
	if _, err := io.ReadFull(self, end); err != nil {
		panic(err)
	}
	var speaks int
	if _, err := fmt.Sscanf(string(end), mark, &speaks); err == nil {
		psmsg.SpeakUpTo(speaks)
	}
}

// A job that trains is taken to the next release, and back, as docs/operations.md says:
// the file of the program is exchanged, and each server is ended once all groups are
// whole. Its workers stay what they are. The model is that of an undisturbed run.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	const servers, perServer = 3, 4
	flags, digest, g := gatedJob(t)
	passes := 3 // the first says "epoch 1"
	g.let(t, passes)
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	exe := filepath.Join(t.TempDir(), "psrt")
	speak := slices.Repeat([]int{psmsg.Version - 1}, servers)
	install(t, exe, speak[0])
	v := beginAs(ctx, t, exe, append(flags, "--servers", fmt.Sprint(servers), "--workers", "2", "--replicas", "2", "--groups", "6", "--allow-same-host")...)
	v.wholeSpeaking(ctx, speak)
	for _, next := range []int{psmsg.Version, psmsg.Version - 1} {
		install(t, exe, next)
		for s := range servers {
			passes += perServer
			g.let(t, passes) // workers push while it ends
			if !v.end(ctx, s, syscall.SIGTERM) {
				t.Fatalf("server %d was not found: %s", s, v.said.text())
			}
			speak[s] = next
			v.wholeSpeaking(ctx, speak)
		}
	}
	g.let(t, faultPasses)
	v.result(ctx, digest)
}

// wholeSpeaking waits until all groups are whole with all servers, and compares which
// version of the wire each of them speaks.
func (v *victim) wholeSpeaking(ctx context.Context, want []int) {
	v.t.Helper()
	got := make([]int, len(want))
	if !v.settles(ctx, func(view *job.View) bool {
		for i := range got {
			s := view.Find(i)
			if s == nil || s.Groups == 0 { // the others may be whole without it
				return false
			}
			got[i] = s.Speaks
		}
		return view.Whole()
	}) {
		v.t.Fatalf("the job is over before all its servers are exchanged: %v: %s", v.err, v.said.text())
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("servers speak %v, want %v", got, want)
	}
}
