package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// opened is what a child with fewer rights says of a meter.
type opened struct {
	Error   string // "": it was opened
	Missing bool   // the error is an ErrMissing
	What    string // of a MissingError
}

// openers open every meter that needs rights; what is metered is everywhere.
var openers = map[string]func() (Meter, error){
	"tcp":  func() (Meter, error) { return OpenTCP(TCPConfig{}) },
	"roce": func() (Meter, error) { return OpenRoCE(RoCEConfig{Interfaces: []string{"lo"}}) },
	"usdt": func() (Meter, error) { return OpenUSDT(USDTConfig{}) },
}

// request is what a child is to try.
type request struct {
	Keep   []int // capabilities
	Meters []string
}

// openAll is the child: it keeps the capabilities it is told, tries openers,
// and where one has no meter goes by counters of its own.
func openAll(in *bufio.Reader) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return err
	}
	runtime.LockOSThread() // capabilities are a thread's
	var data [2]unix.CapUserData
	for _, n := range asked.Keep {
		data[n/32].Permitted |= 1 << (n % 32)
		data[n/32].Effective |= 1 << (n % 32)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	all := map[string]opened{}
	for _, name := range asked.Meters {
		m, err := openers[name]()
		var missing *MissingError
		o := opened{Missing: errors.Is(err, ErrMissing)}
		if errors.As(err, &missing) {
			o.What = missing.What
		}
		if err != nil {
			o.Error = err.Error()
			m = Counters(func(r *Reading) { r.Samples = append(r.Samples, Sample{from(3, 7000), Count{Bytes: 5}}) })
			if err := serves(m); err != nil {
				return err
			}
		}
		all[name] = o
		if err := m.Close(); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// serves says whether a View shows what the runtime's own counters say.
func serves(m Meter) error {
	v, err := NewView(ViewConfig{Workers: byHost})
	if err != nil {
		return err
	}
	var r Reading
	if err := errors.Join(m.Read(&r), v.Update(1, &r)); err != nil {
		return err
	}
	if f := v.FanIn(); len(f.Workers) != 1 || f.Workers[0].Worker != 3 || f.Workers[0].Total.Bytes != 5 {
		return errors.New("the runtime's counters do not show")
	}
	return nil
}

// askOpenAll starts the child, as a user if not 0.
func askOpenAll(t *testing.T, user uint32, r request) map[string]opened {
	t.Helper()
	c := spawnAs(t, "open", &syscall.SysProcAttr{}, user)
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	c.say(t, "go\n"+string(line))
	select {
	case answer := <-c.lines:
		var all map[string]opened
		if err := json.Unmarshal(answer, &all); err != nil {
			t.Fatalf("the child says %q: %v", answer, err)
		}
		return all
	case <-time.After(2 * time.Minute):
		t.Fatal("no answer within 2 minutes")
	}
	return nil
}

// TestPrivileges: each meter opens with exactly the capabilities that its
// documentation names, and without one of them says which.
func TestPrivileges(t *testing.T) {
	requireMetering(t)
	needs := map[string][]capability{"tcp": tcpWants.capabilities, "roce": roceWants.capabilities, "usdt": usdtWants.capabilities}
	if !hasPoints(t) {
		delete(needs, "usdt")
	}
	for name, needed := range needs {
		t.Run(name, func(t *testing.T) {
			var enough []int
			for _, c := range needed {
				enough = append(enough, c.number)
			}
			if o := askOpenAll(t, 0, request{enough, []string{name}})[name]; o.Error != "" {
				t.Errorf("with %s: %s", names(needed, " and "), o.Error)
			}
			for i, lacks := range needed {
				kept := append(append([]int{}, enough[:i]...), enough[i+1:]...)
				o := askOpenAll(t, 0, request{kept, []string{name}})[name]
				if !o.Missing || o.What != lackingNames([]capability{lacks}) || !strings.Contains(o.Error, "setcap ") {
					t.Errorf("without %s: %+v", lacks.name, o)
				}
			}
		})
	}
}

// TestFilterPrivileges: where there is tcx, who may filter packets need not be
// one who may capture them.
func TestFilterPrivileges(t *testing.T) {
	requireMetering(t)
	m, err := OpenRoCE(RoCEConfig{Interfaces: []string{"lo"}})
	skipMissing(t, err)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if m.form != formTCX {
		return
	}
	r := request{[]int{capBPF.number, capPerfmon.number, unix.CAP_NET_ADMIN}, []string{"roce"}}
	if o := askOpenAll(t, 0, r)["roce"]; o.Error != "" {
		t.Error(o.Error)
	}
}

// TestUnprivilegedUser: a user without any right is told what lacks, and goes
// on by the runtime's own counters.
func TestUnprivilegedUser(t *testing.T) {
	const nobody = 65534
	user := uint32(nobody)
	if os.Getuid() != 0 {
		user = 0 // stays who it is
	}
	meters := []string{"tcp", "roce"}
	if hasPoints(t) {
		meters = append(meters, "usdt")
	}
	for name, o := range askOpenAll(t, user, request{Meters: meters}) {
		if !o.Missing || !strings.Contains(o.What, "CAP_SYS_ADMIN") {
			t.Errorf("%s: %+v", name, o)
		}
		t.Log(o.Error)
	}
}

func hasPoints(t *testing.T) bool {
	t.Helper()
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	points, err := pointsOf(file)
	if err != nil && !errors.Is(err, errNoPoints) {
		t.Fatal(err)
	}
	return len(points) > 0
}
