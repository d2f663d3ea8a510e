package dataset

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

// A command sees the file as it lies there, and what it gives are the rows, in every
// mode and for every share.
func TestPipe(t *testing.T) {
	want := []string{"1 0:1:1 1:2:0.5", "0 0:3:1 1:4:1", "1 0:5:1"}
	for _, c := range []struct {
		name, command string
		text          []byte
	}{
		{"as it is", "cat", []byte(ffmText)},
		{"stdin is not unpacked", "gzip -dc", compressed(t, "gz", []byte(ffmText))},
		{"a parser", `awk -F, '{print $1" 0:"$2":1"($3==""?"":" 1:"$3)}'`, []byte("1,1,2:.5\n0,3,4:1\n1,5,\n")},
		{"the file's name", `test -n "$PSRT_FILE" && cat "$PSRT_FILE"`, []byte(ffmText)},
		{"what it says is no row", `echo hello >&2; cat`, []byte(ffmText)},
		{"not all is read", `printf '` + strings.ReplaceAll(ffmText, "\n", `\n`) + `'`, []byte(strings.Repeat("x", 1<<20))},
	} {
		got, err := rowsOf(t, []string{file(t, "in", c.text)}, Options{Pipe: c.command})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// The command outlives the thread of the goroutine that opens it, which ends with a
// goroutine that is locked to it.
func TestPipeOutlivesItsOpener(t *testing.T) {
	path := file(t, "in", []byte(ffmText))
	ended := make(chan error)
	var p *piped
	go func() {
		runtime.LockOSThread()
		var err error
		p, err = openPipe(t.Context(), path, &Options{Pipe: "sleep 0.5; cat"})
		ended <- err
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got, err := io.ReadAll(p); err != nil || string(got) != ffmText {
		t.Errorf("%q, %v", got, err)
	}
}

// numberedRows is n rows that differ.
func numberedRows(n int) []byte {
	var b []byte
	for i := range n {
		b = append(b, '1', ' ', '0', ':')
		b = append(strconv.AppendInt(b, int64(i), 10), ":1\n"...)
	}
	return b
}

// What a command does wrong is told: which file, how far it came, what it said.
func TestPipeFails(t *testing.T) {
	long := file(t, "long", numberedRows(60000)) // more than what Open looks at
	for _, c := range []struct {
		name, command string
		says          []string
	}{
		{"does not exist", "no-such-command-here", []string{"exit status 127", "no-such-command-here", long}},
		{"dies at once", "echo bad day >&2; exit 3", []string{"exit status 3", "after 0 lines", "bad day"}},
		{"dies in the middle", "head -n 50000; echo out of luck >&2; exit 4", []string{"exit status 4", "after 50000 lines", "out of luck"}},
		{"is killed", "head -n 50000; kill -9 $$", []string{"signal: killed", "after 50000 lines", "said nothing"}},
		{"hangs", "head -n 50000; sleep 1000", []string{"gave nothing for 1.5s"}},
		{"its child hangs", "head -n 50000; sleep 1000 & exit 0", []string{"gave nothing for 1.5s"}},
		{"writes half a row", "head -n 50000; printf '1 0:'; exit 5", []string{"exit status 5"}},
		{"floods stderr", "head -n 50000; yes 0123456789 | head -c 4000000 >&2; echo last words >&2; exit 6", []string{"exit status 6", "last words"}},
	} {
		opts := Options{Pipe: c.command, Fields: 1}
		if strings.HasSuffix(c.name, "hangs") {
			opts.PipeTimeout = 1500 * time.Millisecond
		}
		rows, err := rowsOf(t, []string{long}, opts)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %d rows and %v", c.name, len(rows), err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v; want %q in it", c.name, err, s)
			}
		}
		if len(err.Error()) > 4<<10 {
			t.Errorf("%s: an error of %d bytes", c.name, len(err.Error()))
		}
	}
}

// What a command left in the background ends with it, when all was read too.
func TestPipeEndsBackground(t *testing.T) {
	alive := file(t, "pid", nil)
	command := "sleep 1000 >/dev/null 2>&1 & echo $! >> " + alive + "; cat"
	rows, err := rowsOf(t, []string{file(t, "in", numberedRows(20))}, Options{Pipe: command, Fields: 1})
	if err != nil || len(rows) != 20 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	text, _ := os.ReadFile(alive)
	pids := strings.Fields(string(text))
	if len(pids) == 0 {
		t.Fatal("the command did not run")
	}
	for _, pid := range pids {
		gone(t, pid)
	}
}

// A reader that is closed, or whose context ends, waits for no command, and leaves none.
func TestPipeIsEnded(t *testing.T) {
	r := seedtest.Rand(t)
	for i := range 6 {
		alive := file(t, "pid", nil)
		path := file(t, "in", numberedRows(30000))
		src, err := Open(t.Context(), []string{path}, Options{Pipe: "echo $$ >> " + alive + "; cat; sleep 1000", Fields: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rd, err := src.NewReader(ctx, Whole(1000, 100), ReaderOptions{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		for range r.IntN(31) { // 30: all rows, and what comes never
			step, err := rd.Next()
			if err != nil {
				t.Fatal(err)
			}
			step.Release()
		}
		if i%2 == 0 {
			cancel()
			if _, err := rd.Next(); err == nil || err == io.EOF {
				for err == nil { // those ready before
					_, err = rd.Next()
				}
			}
		}
		rd.Close()
		cancel()
		text, _ := os.ReadFile(alive)
		for _, pid := range strings.Fields(string(text)) {
			if n, _ := strconv.Atoi(pid); n == 0 || processLives(n) {
				t.Errorf("the command %q is still there", pid)
			}
		}
	}
}

// gone waits until a process has ended, collected or not.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, _ := strconv.Atoi(pid)
	for until := time.Now().Add(time.Minute); n == 0 || processLives(n); time.Sleep(time.Millisecond) {
		if stat, _ := os.ReadFile("/proc/" + pid + "/stat"); strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%q is still there", pid)
		}
	}
}

// written waits for so many words in a file.
func written(t *testing.T, path string, n int) []string {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(path)
		if words := strings.Fields(string(text)); len(words) >= n {
			return words
		}
		if time.Now().After(until) {
			t.Fatalf("%q in %s, want %d words", text, path, n)
		}
	}
}

// Who looks at the first rows is not kept by a command that gives none, and leaves nothing
// of it.
func TestPipeIsEndedWhileOpening(t *testing.T) {
	alive, path := file(t, "pid", nil), file(t, "in", []byte(ffmText))
	ctx, cancel := context.WithCancelCause(t.Context())
	opened := make(chan error, 1)
	go func() {
		_, err := Open(ctx, []string{path}, Options{Pipe: "echo $$ >> " + alive + "; sleep 1000 & echo $! >> " + alive + "; wait; cat"})
		opened <- err
	}()
	pids := written(t, alive, 2)
	enough := errors.New("enough")
	cancel(enough)
	select {
	case err := <-opened:
		if !errors.Is(err, enough) {
			t.Errorf("%v, want the cause", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it still looks")
	}
	for _, pid := range pids {
		gone(t, pid)
	}
}

// A command, and what it has started, end where the process that reads is killed.
func TestPipeDiesWithItsReader(t *testing.T) {
	if path := os.Getenv("PSRT_TEST_PIPE"); path != "" { // the reader
		_, err := Open(t.Context(), []string{path}, Options{Pipe: "echo $$ >> " + path + "; sleep 1000 & echo $! >> " + path + "; (sleep 1000)", PipeTimeout: time.Hour})
		t.Fatal(err)
	}
	path := file(t, "in", nil)
	reader := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPipeDiesWithItsReader$")
	reader.Env = append(os.Environ(), "PSRT_TEST_PIPE="+path)
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	pids := written(t, path, 2)
	_ = reader.Process.Kill()
	_ = reader.Wait()
	for _, pid := range pids {
		gone(t, pid)
	}
}

// A command that gives nothing, or no text, is named with what it was to do.
func TestPipeGivesNoRows(t *testing.T) {
	path := file(t, "it's", []byte(ffmText))
	for command, want := range map[string]string{
		"true":                  "the pipe command gave no row; try it by hand: ",
		`printf '\001\002\003'`: "what the pipe command gives is no text with rows: binary, ",
		"gzip -dc":              "failed (exit status 1)",
	} {
		_, err := Open(t.Context(), []string{path}, Options{Pipe: command, Format: LibFFM})
		hand := "sh -c " + quoted(command) + " < " + quoted(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), hand) {
			t.Errorf("%s: %v; want %q and %q in it", command, err, want, hand)
		}
	}
	if got := quoted("it's"); got != `'it'\''s'` {
		t.Errorf("quoted: %s", got)
	}
}
