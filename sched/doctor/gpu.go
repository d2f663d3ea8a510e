package doctor

import (
	"path/filepath"
	"strings"
)

// gpus is each card with its place, and whether a network card may read its memory.
func (x *examiner) gpus() (all []Finding) {
	cards := x.glob("proc/driver/nvidia/gpus/*/information")
	for _, file := range cards {
		at := filepath.Base(filepath.Dir(file))
		model := "a GPU"
		for line := range strings.Lines(text(file)) {
			if m, ok := strings.CutPrefix(line, "Model:"); ok {
				model = strings.TrimSpace(m)
			}
		}
		dir := x.path("sys/bus/pci/devices/" + at)
		f := Finding{Name: "GPU " + at, State: OK, Figure: words(model, x.node(dir))}
		near := ""
		for _, nic := range x.glob("sys/class/infiniband/*/device/numa_node") {
			if n := text(nic); n != "-1" && n == text(filepath.Join(dir, "numa_node")) {
				near = filepath.Base(filepath.Dir(filepath.Dir(nic)))
				break
			}
		}
		if near != "" {
			f.Figure += ", as is " + near
		}
		all = append(all, f)
	}
	if len(cards) == 0 {
		return []Finding{{Name: "GPU", State: Missing, Figure: "no NVIDIA driver with a card; training runs on CPUs", Mend: "install the GPU's driver"}}
	}
	f := Finding{Name: "GPUDirect RDMA", State: OK}
	switch {
	case x.exists("sys/module/nvidia_peermem") || x.exists("sys/module/nv_peer_mem"):
		f.Figure = "nvidia_peermem is loaded"
	case strings.Contains(x.text("proc/driver/nvidia/version"), "Open Kernel Module"):
		f.Figure = "by dma-buf: the driver's modules are the open ones"
	default:
		f.State, f.Figure, f.Mend = Missing, "nvidia_peermem is not loaded: a network card reads GPU memory through the host's", "modprobe nvidia_peermem"
	}
	return append(all, f)
}
