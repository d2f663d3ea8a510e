package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rsh is what mpirun starts its daemons with: HOST COMMAND...
const rsh = `#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec nsenter --net=/run/netns/%s${host#h} unshare -u sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
`

// MPIRun is the beginning of an mpirun command on the head that starts n ranks on
// the hosts, dealt in turn.
func (h *Hosts) MPIRun(t testing.TB, n int) []string {
	t.Helper()
	Need(t, MPI)
	script := filepath.Join(t.TempDir(), "rsh")
	if err := os.WriteFile(script, []byte(fmt.Sprintf(rsh, h.tag)), 0o700); err != nil {
		t.Fatal(err)
	}
	slots := (n + h.N - 1) / h.N
	var names []string
	for i := 1; i <= h.N; i++ {
		names = append(names, fmt.Sprintf("%s:%d", h.Name(i), slots))
	}
	network := h.net + "0/24"
	return []string{"mpirun", "-n", fmt.Sprint(n), "--allow-run-as-root", "--oversubscribe", "--map-by", "node", "--host", strings.Join(names, ","),
		"--mca", "plm_rsh_agent", script, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", network}
}

// Hydra is the same with MPICH's launcher.
func (h *Hosts) Hydra(t testing.TB, n int) []string {
	t.Helper()
	Need(t, Hydra)
	script := filepath.Join(t.TempDir(), "rsh")
	if err := os.WriteFile(script, []byte(fmt.Sprintf(rsh, h.tag)), 0o700); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := 1; i <= h.N; i++ {
		names = append(names, h.Name(i))
	}
	return []string{"mpiexec.hydra", "-n", fmt.Sprint(n), "-hosts", strings.Join(names, ","), "-launcher", "rsh", "-launcher-exec", script, "-iface", "br0"}
}
