package ssd

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/tiers/blk"
)

// Faults survived, in this file: a process that ends by kill -9 at the n-th
// operation on its devices, on real files.

// doomed counts operations and ends the process at one of them.
type doomed struct {
	blk.Device

	left *int
}

func (d doomed) step() {
	if *d.left--; *d.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

func (d doomed) Submit(rs []blk.Request) (int, error) {
	// One by one, so that a batch is cut, too.
	for i := range rs {
		if rs[i].Op != blk.Read { // the test's digests read much
			d.step()
		}
		if n, err := d.Device.Submit(rs[i : i+1]); n == 0 || err != nil {
			return i + n, err
		}
	}
	return len(rs), nil
}

func (d doomed) Create(name string, size int64) (int, error) {
	d.step()
	return d.Device.Create(name, size)
}

func (d doomed) Remove(name string) error {
	d.step()
	return d.Device.Remove(name)
}

var killed = Config{SegmentBytes: 256 << 10, Limit: 4 << 20}

func openDirs(dirs []string) (devs []blk.Device, err error) {
	for _, dir := range dirs {
		d, err := blk.Open(dir, blk.Config{})
		if err != nil {
			return nil, err
		}
		devs = append(devs, d)
	}
	return devs, nil
}

// TestMain is the doomed process, when it is told to be.
func TestMain(m *testing.M) {
	if dirs := os.Getenv("PSRT_SSD_DOOMED"); dirs != "" {
		if err := live(strings.Split(dirs, ",")); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// live works until it is killed. Every commit is told before it is called for,
// with a digest of the rows that it covers, and when it is acknowledged.
func live(dirs []string) error {
	seed, err := strconv.ParseUint(os.Getenv("PSRT_SEED"), 10, 64)
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(os.Getenv("PSRT_SSD_STEPS"))
	if err != nil {
		return err
	}
	plain, err := openDirs(dirs)
	if err != nil {
		return err
	}
	var devs []blk.Device
	for _, d := range plain {
		devs = append(devs, doomed{d, &left})
	}
	r := newRig(discard{}, 1000, 100)
	rec, err := r.open(killed, devs...)
	if err != nil {
		return err
	}
	fmt.Println("opened", rec.Commit, r.digest())
	// What the rows are is in them; versions go on from the note.
	if len(rec.Note) == 8 {
		r.version = le.Uint64(rec.Note)
	}
	r.tell = func(n uint64) { fmt.Println("commit", n, r.digest()) }
	rng := rand.New(rand.NewPCG(seed, rec.Commit))
	acked := rec.Commit
	for {
		for range 30 + rng.IntN(60) {
			i, key := rng.IntN(2), uint64(rng.IntN(400))
			if rng.IntN(5) == 0 {
				err = r.del(i, key)
			} else {
				err = r.put(i, key)
			}
			if err != nil {
				return err
			}
		}
		if err := r.commit(); err != nil {
			return err
		}
		if rng.IntN(2) == 0 {
			r.settle()
		}
		if r.acked > acked {
			acked = r.acked
			fmt.Println("acked", acked)
		}
	}
}

// digest is of all rows as the owners think they are, by the payloads' key and
// slot-independent contents.
func (r *rig) digest() string {
	sums := make([]uint64, len(r.owners))
	for i, o := range r.owners {
		left := 0
		for key, p := range o.rows {
			dst := make([]byte, o.bytes)
			r.readID++
			left++
			r.reads[r.readID] = func(d ReadDone) {
				left--
				if d.Err != nil {
					panic(d.Err)
				}
				h := key
				for _, b := range dst {
					h = (h ^ uint64(b)) * 0x100000001B3
				}
				sums[i] += h
			}
			for o.log.Read([]Read{{Key: key, Slot: p.slot, ID: r.readID, Dst: dst}}) == 0 {
				r.poll()
			}
		}
		for left > 0 {
			r.poll()
		}
	}
	return fmt.Sprintf("%x", sums)
}

// discard is the testing.TB of the doomed process.
type discard struct{ testing.TB }

func (discard) Helper()                      {}
func (discard) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func (discard) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }

// TestKill kills processes and lets the next one open what they leave: it must
// be at a commit point, not older than the last acknowledged one.
func TestKill(t *testing.T) {
	for _, fixed := range []uint64{7, 0} {
		seed := seed(t, fixed)
		rng := rand.New(rand.NewPCG(seed, 2))
		dirs := []string{t.TempDir(), t.TempDir()}
		points := map[string]string{"0": ""}
		acked, last := uint64(0), ""
		for i := range times(t, "PSRT_SSD_KILLS", 12) {
			steps := 1 + rng.IntN(80)
			if i%2 == 0 {
				steps = 1 + rng.IntN(400)
			}
			for _, line := range doom(t, seed+uint64(i), dirs, steps) {
				f := strings.Fields(strings.Replace(line, "] [", "][", 1))
				if len(f) < 2 {
					continue
				}
				n, _ := strconv.ParseUint(f[1], 10, 64)
				digest := strings.Join(f[2:], " ")
				switch f[0] {
				case "opened":
					if n < acked {
						t.Fatalf("process %d found commit %d, acknowledged was %d", i, n, acked)
					}
					if want, ok := points[f[1]]; !ok || n > 0 && want != digest {
						t.Fatalf("process %d found commit %d with digest %s, want %q", i, n, digest, want)
					}
					acked = n
				case "commit":
					points[f[1]] = digest
				case "acked":
					acked = n
				case "error":
					t.Fatalf("process %d: %s", i, line)
				}
				last = line
			}
		}
		t.Logf("commit %d was acknowledged in the end; %s", acked, last)
		if acked == 0 {
			t.Fatal("no process lived long enough to commit")
		}
	}
}

// doom runs one process to its end and gives the lines that it printed.
func doom(t *testing.T, seed uint64, dirs []string, steps int) (lines []string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PSRT_SSD_DOOMED="+strings.Join(dirs, ","),
		fmt.Sprintf("PSRT_SEED=%d", seed), fmt.Sprintf("PSRT_SSD_STEPS=%d", steps))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for sc := bufio.NewScanner(out); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	err = cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended by itself: %v: %q", err, lines)
	}
	return lines
}

// TestTwoProcesses: the second one is refused, by name.
func TestTwoProcesses(t *testing.T) {
	dirs := []string{t.TempDir()}
	devs, err := openDirs(dirs)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 100)
	r.mustOpen(Config{}, devs...)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PSRT_SSD_DOOMED="+dirs[0], "PSRT_SEED=1", "PSRT_SSD_STEPS=1000000")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by process "+strconv.Itoa(os.Getpid())) || !strings.Contains(string(out), dirs[0]) {
		t.Fatalf("a second process: %v, %s", err, out)
	}
	r.fill(10)
	r.close()
}
