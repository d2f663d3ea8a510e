package rendezvous

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Identity is who a launcher says this process is.
type Identity struct {
	By          string // the variable that has the rank
	Rank, World int
	// OneHost: the launcher says that all ranks are on this host.
	OneHost bool
	// Key is the same at all ranks of the job and at no other job on the host; ""
	// where the launcher has none.
	Key string
	// First is the host of rank 0, "" where the launcher does not tell.
	First string
	// Job is a number of the job, to choose a port by; 0 unknown.
	Job int
	// EndsAll is what the launcher must be given so that a rank's death does not have it
	// end all others, as far as variables tell; "" where it lets them live, or none says.
	EndsAll string
}

// source is one way in which a launcher tells a process who it is.
type source struct {
	rank  string
	world []string // the first that is set counts
	// step must be set, too: inside an allocation SLURM sets the rank for what
	// is no rank.
	step string
}

// sources, the strongest first.
var sources = []source{
	{rank: "PSRT_RANK", world: []string{"PSRT_WORLD_SIZE"}},
	{rank: "PMIX_RANK", world: []string{"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"}},
	{rank: "SLURM_PROCID", world: []string{"SLURM_STEP_NUM_TASKS"}, step: "SLURM_STEP_NUM_TASKS"},
	{rank: "OMPI_COMM_WORLD_RANK", world: []string{"OMPI_COMM_WORLD_SIZE"}},
	{rank: "PMI_RANK", world: []string{"PMI_SIZE"}},
}

// Identify reads the environment through look. ok is false where no launcher
// has started this process.
func Identify(look func(name string) string) (l Identity, ok bool, err error) {
	for _, s := range sources {
		text := look(s.rank)
		if text == "" || s.step != "" && look(s.step) == "" {
			continue
		}
		l.By = s.rank
		if l.Rank, err = number(look, s.rank); err != nil {
			return l, false, err
		}
		for _, name := range s.world {
			if look(name) == "" {
				continue
			}
			if l.World, err = number(look, name); err != nil {
				return l, false, err
			}
			break
		}
		if l.World == 0 {
			return l, false, &InputError{fmt.Errorf("rendezvous: the launcher gives a rank (%s=%s) and no number of ranks (%s): give --rank and --world-size",
				s.rank, text, strings.Join(s.world, ", "))}
		}
		l.where(look)
		return l, true, nil
	}
	return l, false, nil
}

func number(look func(string) string, name string) (int, error) {
	n, err := strconv.Atoi(look(name))
	if err != nil || n < 0 || n >= 1<<20 {
		return 0, &InputError{fmt.Errorf("rendezvous: %s=%q is not a number of ranks", name, look(name))}
	}
	return n, nil
}

// yes is how Open MPI's variables say it.
var yes = []string{"1", "true", "t", "yes", "y", "enabled"}

// where finds out about hosts and the job.
func (l *Identity) where(look func(string) string) {
	for _, local := range []string{"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"} {
		if n, err := strconv.Atoi(look(local)); err == nil && n == l.World {
			l.OneHost = true
		}
	}
	if look("SLURM_STEP_NUM_NODES") == "1" || l.World == 1 {
		l.OneHost = true
	}
	switch {
	case look("OMPI_MCA_orte_local_daemon_uri") != "" && !slices.Contains(yes, strings.ToLower(look("OMPI_MCA_orte_enable_recovery"))): // Open MPI 4
		l.EndsAll = "mpirun --enable-recovery"
	case look("SLURM_STEP_ID") != "" && look("SLURM_KILL_BAD_EXIT") == "1":
		l.EndsAll = "srun --kill-on-bad-exit=0 (or SLURM_KILL_BAD_EXIT=0)"
	}
	l.First = firstHost(look("SLURM_STEP_NODELIST"))
	l.Job, _ = strconv.Atoi(look("SLURM_JOB_ID")) // 0 unknown
	switch {
	case look("PMIX_NAMESPACE") != "":
		l.Key = "pmix " + look("PMIX_NAMESPACE")
	case look("SLURM_STEP_ID") != "":
		l.Key = "slurm " + look("SLURM_JOB_ID") + " " + look("SLURM_STEP_ID")
	case look("OMPI_MCA_ess_base_jobid") != "":
		l.Key = "ompi " + look("OMPI_MCA_ess_base_jobid")
	}
}

// firstHost of a list as SLURM writes it: "n[3-5,9],login" begins with n3.
func firstHost(list string) string {
	for i, c := range list {
		switch c {
		case ',':
			return list[:i]
		case '[':
			end := strings.IndexAny(list[i:], ",-]")
			if end < 0 {
				return ""
			}
			close := strings.IndexByte(list[i:], ']')
			rest, _, _ := strings.Cut(list[i+max(close, 0)+1:], ",")
			return list[:i] + list[i+1:i+end] + rest
		}
	}
	return list
}

// Port is one for the coordinator that jobs of one host seldom share.
func (l *Identity) Port() int { return 20000 + l.Job%10000 }
