package verbstest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"psrt/rdma/feature"
	"psrt/rdma/secure"
	"psrt/sched/doctor"
	"psrt/sched/metrics"
)

// The ends of the lab's pair, docs/lab.md.
const (
	device, otherDevice = "rxe0", "rxe1"
	near, far           = "10.77.0.1", "10.77.0.2"
)

// pair asks for the lab's machine, whose links a test may change.
var pair = feature.Test{
	Name:        "network of the lab",
	Requirement: "a machine of the lab with " + device + " and " + otherDevice + ", as root",
	Remedy:      "make lab CMD='…' runs a command in one",
	Lab:         "rxe",
	Probe: func(feature.Root) error {
		if os.Getenv("PSRT_LAB") != "rxe" || os.Geteuid() != 0 {
			return fmt.Errorf("this is not the lab's root: %w", feature.ErrNotSupported)
		}
		return nil
	},
}

// examineEnv has this binary examine the machine, of which so many bytes are to be locked.
const examineEnv = "PSRT_TEST_EXAMINE"

func TestMain(m *testing.M) {
	text, is := os.LookupEnv(examineEnv)
	if !is {
		os.Exit(m.Run())
	}
	bytes, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(doctor.Examine(context.Background(), doctor.Config{GID: -1, Memory: bytes, Within: patient}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patient is for an emulated machine on a busy host.
const patient = time.Minute

func examine(t *testing.T, cfg doctor.Config) []doctor.Finding {
	t.Helper()
	cfg.Within = patient
	began := time.Now()
	all := doctor.Examine(t.Context(), cfg)
	t.Logf("examined in %v", time.Since(began).Round(time.Millisecond))
	return all
}

// weakly examines as a user without root's rights over memory and files.
func weakly(t *testing.T, locks int64) (all []doctor.Finding) {
	t.Helper()
	c := exec.Command("setpriv", "--bounding-set", "-ipc_lock,-dac_override,-dac_read_search,-sys_resource,-sys_admin", "sh", "-c", `ulimit -l 64; exec "$0"`, os.Args[0])
	c.Env = append(os.Environ(), examineEnv+"="+strconv.FormatInt(locks, 10))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.String())
	}
	return all
}

func expect(t *testing.T, all []doctor.Finding, peer, name, state string, says ...string) {
	t.Helper()
	for _, f := range all {
		if f.Peer != peer || f.Name != name {
			continue
		}
		if f.State != state || state != doctor.OK && f.Mend == "" {
			t.Errorf("%+v, want %s", f, state)
		}
		for _, s := range says {
			if !strings.Contains(f.Figure+" "+f.Mend, s) {
				t.Errorf("%+v does not say %q", f, s)
			}
		}
		return
	}
	t.Errorf("no finding %q of %q: %+v", name, peer, all)
}

// gids are the entries of a device's table, by their address or what they begin with.
func gids(t *testing.T, device string) (v4, local int) {
	t.Helper()
	v4, local = -1, -1
	files, err := filepath.Glob("/sys/class/infiniband/" + device + "/ports/1/gids/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		n, bad := strconv.Atoi(filepath.Base(f))
		switch {
		case err != nil || bad != nil: // an entry that is not set cannot be read everywhere
		case strings.HasPrefix(string(text), "0000:0000:0000:0000:0000:ffff:"):
			v4 = n
		case strings.HasPrefix(string(text), "fe80:"):
			local = n
		}
	}
	if v4 < 0 || local < 0 {
		t.Fatalf("%s has GIDs %d and %d, want one of each kind", device, v4, local)
	}
	return v4, local
}

// Faults of set-up that RDMA alone has, and those that it has too.
func TestPlantedFaults(t *testing.T) {
	feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
	feature.SkipUnless(t, feature.NewProber("").Check(pair))
	token := []byte("a token of this test alone, long enough")
	l, err := secure.Listen("tcp", far+":0", token)
	if err != nil {
		t.Fatal(err)
	}
	e := metrics.On(l)
	e.Serve(metrics.NewRank().Gatherer())
	t.Cleanup(func() { _ = e.Close() })
	peers := []doctor.Peer{{Place: metrics.Place{Name: "server 1", Addr: l.Addr().String(), Token: token}}}
	v4, local := gids(t, device)
	name := func(device string, n int) string { return fmt.Sprintf("GID %d of %s/1", n, device) }

	t.Run("all well", func(t *testing.T) {
		all := examine(t, doctor.Config{Device: device, GID: v4, Peers: peers})
		expect(t, all, "", name(device, v4), doctor.OK, near)
		expect(t, all, "", "RDMA port "+device+"/1", doctor.OK, "ACTIVE")
	})
	t.Run("wrong GID", func(t *testing.T) {
		all := examine(t, doctor.Config{Device: device, GID: local, Peers: peers})
		expect(t, all, "server 1", name(device, local), doctor.Warn, far+" is reached from "+near, "an address of another kind", fmt.Sprintf("--gid-index %d", v4))
		all = examine(t, doctor.Config{Device: device, GID: 100, Peers: peers})
		expect(t, all, "", name(device, 100), doctor.Missing, "empty", near)
	})
	t.Run("wrong device", func(t *testing.T) {
		index, _ := gids(t, otherDevice)
		all := examine(t, doctor.Config{Device: otherDevice, GID: index, Peers: peers})
		expect(t, all, "server 1", name(otherDevice, index), doctor.Warn, far+" is reached from "+near, "another --device")
	})
	t.Run("MTU mismatch", func(t *testing.T) {
		mtu := func(n string) {
			if out, err := exec.Command("ip", "link", "set", "v1", "mtu", n).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		was, err := os.ReadFile("/sys/class/net/v1/mtu")
		if err != nil {
			t.Fatal(err)
		}
		mtu("1400")
		defer mtu(strings.TrimSpace(string(was)))
		all := examine(t, doctor.Config{GID: -1, Peers: peers})
		expect(t, all, "server 1", "packets", doctor.Warn, "MTU mismatch: v0 here has "+strings.TrimSpace(string(was)))
	})
	t.Run("low memlock", func(t *testing.T) {
		expect(t, weakly(t, 1<<30), "", feature.LockedMemory.Name, doctor.Missing, "RLIMIT_MEMLOCK is 65536")
	})
	t.Run("missing permission", func(t *testing.T) {
		found, err := filepath.Glob("/sys/class/infiniband_verbs/uverbs*/ibdev")
		if err != nil {
			t.Fatal(err)
		}
		file := ""
		for _, f := range found {
			if text, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(text)) == device {
				file = "/dev/infiniband/" + filepath.Base(filepath.Dir(f))
			}
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.Chmod(file, info.Mode().Perm()); err != nil {
				t.Error(err)
			}
		}()
		all := weakly(t, 0)
		expect(t, all, "", "RDMA access to "+device, doctor.Missing, "may not open "+file, "chmod 666 "+file)
		expect(t, all, "", "RDMA access to "+otherDevice, doctor.OK)
	})
}
