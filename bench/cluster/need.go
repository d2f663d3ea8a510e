package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"psrt/rdma/feature"
)

// What tests on a cluster need.
var (
	Namespaces = feature.Test{
		Name: "network namespaces", Requirement: "root with CAP_SYS_ADMIN and CAP_NET_ADMIN, iproute2 and util-linux",
		Remedy: "apt-get install iproute2 util-linux, and run the tests as root",
		Probe:  probeNamespaces,
	}
	MPI = feature.Test{
		Name: "mpirun", Requirement: "Open MPI's mpirun and the PMIx library", Remedy: "apt-get install openmpi-bin",
		Probe: programs("mpirun"),
	}
	Hydra = feature.Test{
		Name: "mpiexec.hydra", Requirement: "MPICH's launcher", Remedy: "apt-get install mpich",
		Probe: programs("mpiexec.hydra"),
	}
	SLURM = feature.Test{
		Name: "SLURM", Requirement: "munged, slurmctld, slurmd, srun and sbatch",
		Remedy: "apt-get install slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins",
		Probe:  programs("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel"),
	}
	// Debian's SLURM looks for a name that only the developers' package brings.
	SlurmPMIx = feature.Test{
		Name: "srun --mpi=pmix", Requirement: "libpmix.so where SLURM's plugin looks for it", Remedy: "apt-get install libpmix-dev",
		Probe: func(feature.Root) error {
			if found, _ := filepath.Glob("/usr/lib/*/pmix2/lib/libpmix.so"); len(found) == 0 {
				return lacks("no libpmix.so in /usr/lib/*/pmix2/lib")
			}
			return nil
		},
	}
)

// Need skips a test where the machine lacks something, or fails it where
// PSRT_REQUIRE_LAUNCHERS is set.
func Need(t feature.TB, tests ...feature.Test) {
	t.Helper()
	p := feature.NewProber("")
	for _, test := range tests {
		err := p.Check(test)
		if err != nil && os.Getenv("PSRT_REQUIRE_LAUNCHERS") != "" {
			t.Fatal("PSRT_REQUIRE_LAUNCHERS is set, and the machine must offer this: " + err.Error())
		}
		feature.SkipUnless(t, err)
	}
}

func lacks(format string, args ...any) error {
	return &feature.MissingError{Detail: fmt.Sprintf(format, args...)}
}

func programs(names ...string) func(feature.Root) error {
	return func(feature.Root) error {
		for _, name := range names {
			if _, err := lookPath(name); err != nil {
				return lacks("no %s in PATH", name)
			}
		}
		return nil
	}
}

// lookPath finds programs of administrators, too.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(dir + name)
	}
	return path, err
}

// probeNamespaces tries it: a container may be root and not be allowed to.
func probeNamespaces(feature.Root) error {
	if err := programs("ip", "nsenter", "unshare")(""); err != nil {
		return err
	}
	// In another process: a thread that has left its namespaces would be this one's
	// for good.
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	said, err := exec.CommandContext(ctx, "unshare", "--net", "--uts", "--mount", "true").CombinedOutput()
	if err != nil {
		return lacks("unshare was refused: %v: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

const probeTimeout = 30 * time.Second
