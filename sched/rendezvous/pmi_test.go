package rendezvous

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// manager is a process manager that speaks PMI 1, after the published wire
// protocol, for the tests: keys, and a barrier of n.
type manager struct {
	mu       sync.Mutex
	cond     *sync.Cond
	n, come  int
	round    int
	keys     map[string]string
	valueMax int
}

func newManager(n, valueMax int) *manager {
	m := &manager{n: n, keys: map[string]string{}, valueMax: valueMax}
	m.cond = sync.NewCond(&m.mu)
	return m
}

func (m *manager) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewScanner(conn)
	r.Buffer(nil, pmiLine)
	for r.Scan() {
		w, _ := pmiWords(r.Text())
		switch w["cmd"] {
		case "init":
			fmt.Fprintf(conn, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n")
		case "get_maxes":
			fmt.Fprintf(conn, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%d\n", m.valueMax)
		case "get_my_kvsname":
			fmt.Fprintf(conn, "cmd=my_kvsname kvsname=job_1\n")
		case "put":
			if len(w["value"]) >= m.valueMax || len(w["key"]) >= 64 {
				fmt.Fprintf(conn, "cmd=put_result rc=-1 msg=value too long\n")
				continue
			}
			m.mu.Lock()
			m.keys[w["key"]] = w["value"]
			m.mu.Unlock()
			fmt.Fprintf(conn, "cmd=put_result rc=0 msg=success\n")
		case "barrier_in":
			m.barrier()
			fmt.Fprintf(conn, "cmd=barrier_out rc=0\n")
		case "get":
			m.mu.Lock()
			v, ok := m.keys[w["key"]]
			m.mu.Unlock()
			if !ok {
				fmt.Fprintf(conn, "cmd=get_result rc=-1 msg=key %s not found\n", w["key"])
				continue
			}
			fmt.Fprintf(conn, "cmd=get_result rc=0 msg=success value=%s\n", v)
		case "finalize":
			fmt.Fprintf(conn, "cmd=finalize_ack\n")
			return
		}
	}
}

func (m *manager) barrier() {
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := m.round
	if m.come++; m.come == m.n {
		m.come, m.round = 0, m.round+1
		m.cond.Broadcast()
	}
	for m.round == mine {
		m.cond.Wait()
	}
}

// descriptor is a rank's end of a connection to the manager, as a launcher gives it.
func (m *manager) descriptor(t *testing.T) string {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "manager")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go m.serve(conn)
	return fmt.Sprint(fds[1])
}

// Ranks tell each other words of every length, cut where the server's values end.
func TestPMI(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const world = 3
	m := newManager(world, 128)
	var all sync.WaitGroup
	for rank := range world {
		fd := m.descriptor(t)
		all.Go(func() {
			e, err := openPMI(ctx, fd, rank, world)
			if err != nil {
				t.Error(err)
				return
			}
			for i, n := range []int{1, 92, 93, 94, 95, 96, 1000, 20000} {
				words, err := e.Round(ctx, fmt.Sprint("r", i), []byte(strings.Repeat(string(rune('a'+rank)), n+rank)))
				if err != nil {
					t.Error(err)
					return
				}
				for r, w := range words {
					if want := strings.Repeat(string(rune('a'+r)), n+r); string(w) != want {
						t.Errorf("round of %d: rank %d said %d bytes", n, r, len(w))
					}
				}
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A round to which not all come ends at its deadline, and a server that says
// nonsense is an error.
func TestPMIThatFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := openPMI(ctx, newManager(2, 1024).descriptor(t), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if _, err := e.Round(short, "alone", []byte("x")); err == nil || !strings.Contains(err.Error(), "some of the 2 ranks") {
		t.Errorf("a round alone: %v", err)
	}
	if _, err := e.Round(t.Context(), "x", []byte("x")); err == nil || !strings.Contains(err.Error(), "without a deadline") {
		t.Errorf("%v", err)
	}
	if _, err := openPMI(ctx, newManager(2, 10).descriptor(t), 0, 2); err == nil || !strings.Contains(err.Error(), "values of") {
		t.Errorf("tiny values: %v", err)
	}
	for _, fd := range []string{"x", "-1", "2"} {
		if _, err := openPMI(ctx, fd, 0, 2); err == nil {
			t.Errorf("PMI_FD=%s is taken", fd)
		}
	}
}

func FuzzPMIWords(f *testing.F) {
	f.Add("cmd=get_result rc=0 msg=all is well value=1.abc")
	f.Fuzz(func(t *testing.T, line string) {
		words, err := pmiWords(line)
		if err == nil && words[""] != "" {
			t.Errorf("%q has a word without a name", line)
		}
	})
}
