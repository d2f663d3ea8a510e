package guest

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/wire"
)

// serving runs Serve and gives the host's end of the stream and its error.
func serving(t *testing.T) (net.Conn, *wire.Writer, <-chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	if err := ours.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- Serve(theirs, wire.NewWriter(theirs), func() wire.Traffic { return wire.Traffic{LinkPackets: 3} })
		theirs.Close()
	}()
	t.Cleanup(func() { ours.Close() })
	return ours, wire.NewWriter(ours), done
}

// collect reads until a frame of kind, and gives its payload and all output.
func collect(t *testing.T, r io.Reader, kind wire.Kind) (payload []byte, output string) {
	t.Helper()
	for {
		k, p, err := wire.Read(r)
		if err != nil {
			t.Fatalf("waiting for %q: %v", kind, err)
		}
		if k == kind {
			return p, output
		}
		output += string(p)
	}
}

func command(line string) wire.Command {
	return wire.Command{Args: []string{"sh", "-c", line}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}
}

func TestServeSignalsAndQuits(t *testing.T) {
	r, w, done := serving(t)
	if err := w.Write(wire.KindSignal, []byte{byte(unix.SIGINT)}); err != nil { // nobody to get it
		t.Fatal(err)
	}
	if err := w.WriteJSON(wire.KindRun, command("echo up; sleep 20")); err != nil {
		t.Fatal(err)
	}
	collect(t, r, wire.KindStdout)
	if err := w.Write(wire.KindSignal, []byte{byte(unix.SIGTERM)}); err != nil {
		t.Fatal(err)
	}
	var exit wire.Exit
	payload, _ := collect(t, r, wire.KindExit)
	if err := wire.Decode(payload, &exit); err != nil || exit.Code != 128+15 {
		t.Errorf("after SIGTERM: %+v, %v", exit, err)
	}
	if err := w.Write(wire.KindQuit, nil); err != nil {
		t.Fatal(err)
	}
	var traffic wire.Traffic
	payload, _ = collect(t, r, wire.KindBye)
	if err := wire.Decode(payload, &traffic); err != nil || traffic.LinkPackets != 3 {
		t.Errorf("at the end: %+v, %v", traffic, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestServeEndsWithHost: a command does not outlive the host's interest.
func TestServeEndsWithHost(t *testing.T) {
	r, w, done := serving(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := w.WriteJSON(wire.KindRun, command("echo $$ >"+pidFile+"; echo up; sleep 20")); err != nil {
		t.Fatal(err)
	}
	collect(t, r, wire.KindStdout)
	r.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	proc := "/proc/" + strings.TrimSpace(string(pid)) + "/cmdline"
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		line, err := os.ReadFile(proc) // empty: a zombie
		if err != nil || !bytes.Contains(line, []byte("sleep 20")) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s is still there", pid)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	for name, frame := range map[string]func(w *wire.Writer) error{
		"a kind of the agent's": func(w *wire.Writer) error { return w.Write(wire.KindBye, nil) },
		"a signal of two bytes": func(w *wire.Writer) error { return w.Write(wire.KindSignal, []byte{1, 2}) },
		"no JSON":               func(w *wire.Writer) error { return w.Write(wire.KindRun, []byte("sh")) },
		"a second command": func(w *wire.Writer) error {
			if err := w.WriteJSON(wire.KindRun, command("sleep 20")); err != nil {
				return err
			}
			return w.WriteJSON(wire.KindRun, command("true"))
		},
	} {
		_, w, done := serving(t)
		if err := frame(w); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err == nil {
			t.Errorf("%s was served", name)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o644, "b/tool": 0o755} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"X=1", "PATH=" + dir + "/a:" + dir + "/b"}
	for name, want := range map[string]string{"tool": dir + "/b/tool", "./tool": "/w/tool", "bin/psrt": "/w/bin/psrt", "/x/y": "/x/y", "nothing": ""} {
		got, err := lookPath(name, "/w", env)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
}
