package doctor

import "os"

// launchers are the programs that start ranks, and whether one has started this
// process.
func (x *examiner) launchers() (all []Finding) {
	for _, p := range []struct{ program, mend string }{{"mpirun", "apt-get install openmpi-bin"}, {"srun", "apt-get install slurm-client"}} {
		f := Finding{Name: "launcher " + p.program, State: Missing, Figure: "not in PATH; ranks can be started by hand", Mend: p.mend}
		if path, err := x.cfg.Look(p.program); err == nil {
			f = Finding{Name: f.Name, State: OK, Figure: path}
		}
		all = append(all, f)
	}
	if x.here() && os.Getenv("PMIX_NAMESPACE") != "" {
		all = append(all, Finding{Name: "launched", State: OK, Figure: "by a launcher with PMIx, rank " + cmpOr(os.Getenv("PMIX_RANK"), "unknown")})
	}
	return all
}
