package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/wire"
)

// Where things lie in the initial file system.
const (
	ConfigPath = "/lab.json"
	ModuleDir  = "/modules"
)

// ProbeAnswer is what a machine says on its console that was only to show that
// its kernel runs.
const ProbeAnswer = "lab: the kernel runs"

// Init is the whole life of process 1. It does not return: the machine ends.
func Init() {
	if err := initialise(); err != nil {
		fmt.Fprintln(os.Stderr, "lab: error:", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Fprintln(os.Stderr, "lab: error: power off:", err)
	}
	select {} // the end of process 1 would be a panic of the kernel
}

func initialise() error {
	text, err := os.ReadFile(ConfigPath)
	if err != nil {
		return err
	}
	var config wire.Config
	if err := wire.Decode(text, &config); err != nil {
		return err
	}
	if config.Probe {
		fmt.Fprintln(os.Stderr, ProbeAnswer)
		return nil
	}
	if err := mountAll(early); err != nil {
		return err
	}
	for _, m := range config.Modules {
		if err := load(m); err != nil {
			return err
		}
	}
	if err := enterRoot(); err != nil {
		return err
	}
	for _, s := range config.Shares {
		// mmap: pages of a file that a program maps are kept; nothing else is, so
		// that host and guest see each other's writes.
		m := mount{s.Tag, s.Path, "9p", unix.MS_NOATIME, "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"}
		if err := m.do(); err != nil {
			return err
		}
	}
	return superviseAgent()
}

func load(m wire.Module) error {
	f, err := os.Open(filepath.Join(ModuleDir, m.File))
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if err == nil || errors.Is(err, unix.EEXIST) || m.Optional {
		return nil
	}
	return fmt.Errorf("loading module %s: %w", m.File, err)
}

// superviseAgent runs the agent and reaps every orphan meanwhile.
func superviseAgent() error {
	agent, err := os.StartProcess("/proc/self/exe", []string{"lab-agent", AgentCommand}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"},
		Files: []*os.File{os.Stdin, os.Stderr, os.Stderr},
	})
	if err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for children: %w", err)
		case pid == agent.Pid && status.ExitStatus() != 0:
			return fmt.Errorf("the agent ended with status %#x", uint32(status))
		case pid == agent.Pid:
			return nil
		}
	}
}

// AgentCommand is the argument that makes the program in the guest call Agent.
const AgentCommand = "guest"

// portName is the virtio port's, as the host gives it to the emulator.
const PortName = "psrt.lab"

const portTimeout = time.Minute

// openPort finds the host's stream among the virtio ports.
func openPort() (*os.File, error) {
	deadline := time.Now().Add(portTimeout)
	for {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil && string(text) == PortName+"\n" {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(name)), os.O_RDWR, 0)
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no virtio port %s within %v", PortName, portTimeout)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// EncodeConfig is the text of ConfigPath.
func EncodeConfig(c wire.Config) ([]byte, error) { return json.Marshal(c) }
