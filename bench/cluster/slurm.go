package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Slurm is a SLURM of the hosts.
type Slurm struct {
	Conf  string // SLURM_CONF
	hosts *Hosts
}

const slurmConf = `ClusterName=psrt
SlurmctldHost=head(%[2]s)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge/s
CredType=cred/munge
SlurmctldPort=6817
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd-%%n.pid
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool-%%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
PropagateResourceLimits=NONE
KillWait=3
InactiveLimit=0
`

// idleTimeout bounds the start of all daemons.
const idleTimeout = 2 * time.Minute

// Slurm starts SLURM: the controller on the head, a node of the host's name on
// each. The end of the test ends it.
func (h *Hosts) Slurm(t testing.TB) *Slurm {
	t.Helper()
	Need(t, SLURM)
	dir := t.TempDir()
	s := &Slurm{Conf: filepath.Join(dir, "slurm.conf"), hosts: h}
	for _, sub := range []string{"state", "munge", "pmix"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(slurmConf, dir, h.Addr(0))
	for i := 1; i <= h.N; i++ {
		text += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=%s Port=6818 CPUs=8 State=UNKNOWN\n", h.Name(i), h.Name(i), h.Addr(i))
		if err := os.Mkdir(filepath.Join(dir, "spool-"+h.Name(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text += "PartitionName=main Nodes=ALL Default=YES OverSubscribe=FORCE:16 MaxTime=10 State=UP\n"
	for name, text := range map[string]string{
		"slurm.conf": text, "cgroup.conf": "CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n",
		"mpi.conf": "PMIxCliTmpDirBase=" + dir + "/pmix\n", "munge/key": strings.Repeat(dir+strconv.Itoa(os.Getpid()), 64)[:1024],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Cleanups run last first: steps end before slurmd, that before the controller.
	s.daemon(t, dir, 0, "munged", "--foreground", "--force", "--socket="+dir+"/munge/s", "--key-file="+dir+"/munge/key",
		"--pid-file="+dir+"/munge.pid", "--log-file="+dir+"/munged.log", "--seed-file="+dir+"/munge/seed", "--num-threads=2")
	s.daemon(t, dir, 0, "slurmctld", "-i", "-c", "-D")
	for i := 1; i <= h.N; i++ {
		// PMIx makes a folder in /tmp named after the job alone: each node needs its own.
		s.daemon(t, dir, i, "unshare", "-m", "--propagation", "private", "sh", "-c",
			`mount -t tmpfs -o size=64m,mode=1777 psrt-pmix "$0/pmix" && exec "$1" -D -N "$2"`, dir, mustFind(t, "slurmd"), h.Name(i))
	}
	t.Cleanup(func() { s.endSteps() })
	s.awaitIdle(t, dir)
	return s
}

func mustFind(t testing.TB, program string) string {
	t.Helper()
	path, err := lookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// daemon starts a program on host i until the end of the test.
func (s *Slurm) daemon(t testing.TB, dir string, i int, program string, args ...string) {
	t.Helper()
	args = append([]string{mustFind(t, program)}, args...)
	name := fmt.Sprintf("%s-%d.out", program, i)
	log, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	all := s.hosts.Args(i, args...)
	c := exec.Command(all[0], all[1:]...)
	c.Env = append(os.Environ(), "SLURM_CONF="+s.Conf)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) // it may have ended
		_ = wait(c, 10*time.Second)
	})
}

func (s *Slurm) awaitIdle(t testing.TB, dir string) {
	t.Helper()
	want := fmt.Sprintf("%d idle", s.hosts.N)
	said := ""
	for end := time.Now().Add(idleTimeout); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, err := s.Command(t.Context(), "sinfo", "-h", "-o", "%D %t").Output()
		if said = strings.TrimSpace(string(out)); err == nil && said == want {
			return
		}
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.out"))
	for _, name := range logs {
		text, _ := os.ReadFile(name)
		t.Logf("%s: %s", filepath.Base(name), text[max(0, len(text)-1000):])
	}
	t.Fatalf("SLURM says %q after %v, want %q", said, idleTimeout, want)
}

// Command runs a program such as srun on the head.
func (s *Slurm) Command(ctx context.Context, args ...string) *exec.Cmd {
	c := s.hosts.Command(ctx, 0, args...)
	c.Env = append(os.Environ(), "SLURM_CONF="+s.Conf)
	return c
}

// endSteps ends what still runs of this SLURM's jobs: a step's process that has
// lost its controller would stay.
func (s *Slurm) endSteps() {
	for _, sig := range []syscall.Signal{0, syscall.SIGKILL} {
		for range 100 {
			pids := s.steps()
			if len(pids) == 0 {
				return
			}
			if sig != 0 {
				for _, pid := range pids {
					_ = syscall.Kill(pid, sig) // it may have ended
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// steps are the slurmstepd processes of this SLURM.
func (s *Slurm) steps() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range all {
		name, _ := os.ReadFile(comm)
		if strings.TrimSpace(string(name)) != "slurmstepd" {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(comm), "environ"))
		if slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == "SLURM_CONF="+s.Conf }) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(comm))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
