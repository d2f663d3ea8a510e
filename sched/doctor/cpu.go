package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// governor is how the CPUs' frequency is chosen, and whether it may be the highest.
func (x *examiner) governor() []Finding {
	kinds := map[string]int{}
	limited, least, most := 0, int64(0), int64(0)
	cpus := x.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
	for _, f := range cpus {
		kinds[text(f)]++
		dir := filepath.Dir(f)
		top, allowed := hertz(dir, "cpuinfo_max_freq"), hertz(dir, "scaling_max_freq")
		if top != allowed {
			limited++
		}
		if most = max(most, top); least == 0 || allowed < least {
			least = allowed
		}
	}
	if len(cpus) == 0 {
		return []Finding{{Name: "CPU frequency", State: OK, Figure: "the machine does not let it be chosen (a virtual one)"}}
	}
	var words []string
	for k, n := range kinds {
		words = append(words, fmt.Sprintf("%d %s", n, k))
	}
	slices.Sort(words)
	f := Finding{Name: "CPU frequency", State: OK, Figure: "governor of CPUs: " + strings.Join(words, ", ")}
	if x.text("sys/devices/system/cpu/intel_pstate/no_turbo") == "1" || x.text("sys/devices/system/cpu/cpufreq/boost") == "0" {
		f.Figure += "; turbo is off"
	}
	if limited > 0 {
		f.Figure += fmt.Sprintf("; %d may not run at their highest frequency", limited)
		if most > 0 && least > 0 {
			f.Figure += fmt.Sprintf(" (%.1f of %.1f GHz)", float64(least)/1e6, float64(most)/1e6)
		}
	}
	switch {
	case kinds["performance"] != len(cpus):
		f.State, f.Mend = Warn, "cpupower frequency-set -g performance"
	case limited > 0:
		f.State, f.Mend = Warn, "cpupower frequency-set --max MAXIMUM"
	}
	return []Finding{f}
}

// hertz is in kHz; 0 where it is not told.
func hertz(dir, name string) int64 {
	n, _ := strconv.ParseInt(text(filepath.Join(dir, name)), 10, 64)
	return n
}
