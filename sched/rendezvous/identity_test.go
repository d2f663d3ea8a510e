package rendezvous

import (
	"strings"
	"testing"
)

func TestIdentify(t *testing.T) {
	ompi := "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_RANK=2 PMIX_NAMESPACE=7"
	for _, c := range []struct {
		name, env string
		want      Identity
		ok        bool
		err       string
	}{
		{name: "nobody"},
		{"by hand", "PSRT_RANK=1 PSRT_WORLD_SIZE=3", Identity{By: "PSRT_RANK", Rank: 1, World: 3}, true, ""},
		{"by hand is stronger", "PSRT_RANK=1 PSRT_WORLD_SIZE=3 " + ompi, Identity{By: "PSRT_RANK", Rank: 1, World: 3, Key: "pmix 7"}, true, ""},
		{"Open MPI 4, one host", ompi, Identity{By: "PMIX_RANK", Rank: 2, World: 4, OneHost: true, Key: "pmix 7"}, true, ""},
		{"Open MPI, several hosts", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=55",
			Identity{By: "OMPI_COMM_WORLD_RANK", Rank: 2, World: 4, Key: "ompi 55"}, true, ""},
		{"Open MPI 4 ends all", ompi + " OMPI_MCA_orte_local_daemon_uri=1.1;tcp://x", Identity{By: "PMIX_RANK", Rank: 2, World: 4, OneHost: true, Key: "pmix 7", EndsAll: "mpirun --enable-recovery"}, true, ""},
		{"Open MPI 4 lets others live", ompi + " OMPI_MCA_orte_local_daemon_uri=1.1;tcp://x OMPI_MCA_orte_enable_recovery=True", Identity{By: "PMIX_RANK", Rank: 2, World: 4, OneHost: true, Key: "pmix 7"}, true, ""},
		{"srun -K", "PMI_RANK=1 PMI_SIZE=2 SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_KILL_BAD_EXIT=1", Identity{By: "PMI_RANK", Rank: 1, World: 2, Key: "slurm 12 0", Job: 12, EndsAll: "srun --kill-on-bad-exit=0 (or SLURM_KILL_BAD_EXIT=0)"}, true, ""},
		{"srun", "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_NUM_NODES=2 SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-2]",
			Identity{By: "SLURM_PROCID", Rank: 3, World: 8, Key: "slurm 12 0", First: "n1", Job: 12}, true, ""},
		{"srun --mpi=pmix, one node", "PMIX_RANK=1 PMIX_NAMESPACE=slurm.pmix.9.0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=a",
			Identity{By: "PMIX_RANK", Rank: 1, World: 2, OneHost: true, Key: "pmix slurm.pmix.9.0", First: "a", Job: 9}, true, ""},
		{name: "a batch script is no rank", env: "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=12"},
		{"MPICH", "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=2", Identity{By: "PMI_RANK", World: 2, OneHost: true}, true, ""},
		{"no number of ranks", "PMIX_RANK=0", Identity{}, false, "--world-size"},
		{"not a number", "PSRT_RANK=x PSRT_WORLD_SIZE=2", Identity{}, false, `PSRT_RANK="x"`},
		{"a negative number", "PMI_RANK=-1 PMI_SIZE=2", Identity{}, false, "PMI_RANK"},
	} {
		env := map[string]string{}
		for _, word := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = value
		}
		got, ok, err := Identify(func(name string) string { return env[name] })
		if ok != c.ok || ok && got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v, %v; want %+v, %v, %q", c.name, got, ok, err, c.want, c.ok, c.err)
		}
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{"": "", "n1": "n1", "n1,n2": "n1", "n[1-4]": "n1", "n[03,7-9],x": "n03", "rack[2-3]-n,x": "rack2-n", "n[": ""} {
		if got := firstHost(list); got != want {
			t.Errorf("%q begins with %q, want %q", list, got, want)
		}
	}
}
