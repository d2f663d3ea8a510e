package doctor

import (
	"fmt"
	"path/filepath"
	"strings"
)

// gpus is each card with its place, what is between them, and whether a network card may
// read their memory.
func (x *examiner) gpus() (all []Finding) {
	var dirs []string
	for _, file := range x.glob("proc/driver/nvidia/gpus/*/information") {
		at := filepath.Base(filepath.Dir(file))
		model := "a GPU"
		for line := range strings.Lines(text(file)) {
			if m, ok := strings.CutPrefix(line, "Model:"); ok {
				model = strings.TrimSpace(m)
			}
		}
		dir := x.path("sys/bus/pci/devices/" + at)
		dirs = append(dirs, dir)
		f := Finding{Name: "GPU " + at, State: OK, Figure: words(model, x.node(dir))}
		if link, narrow := pciLink(dir); link != "" {
			f.Figure += ", " + link
			if narrow {
				f.State, f.Mend = Warn, "seat the card anew, or put it into a wider slot"
			}
		}
		f.Figure += x.nearestNIC(dir)
		all = append(all, f)
	}
	if len(dirs) == 0 {
		return []Finding{{Name: "GPU", State: Missing, Figure: "no NVIDIA driver with a card; training runs on CPUs", Mend: "install the GPU's driver"}}
	}
	all = append(all, x.gpuDriver())
	if len(dirs) > 1 {
		all = append(all, x.betweenGPUs(dirs))
	}
	return append(all, x.gpuDirect())
}

// nearestNIC names the RDMA device that is nearest to a card, where that is near.
func (x *examiner) nearestNIC(dir string) string {
	best, name := wayFar, ""
	for _, nic := range x.glob("sys/class/infiniband/*/device") {
		if w := way(dir, nic); w != wayUnknown && w < best {
			best, name = w, filepath.Base(filepath.Dir(nic))
		}
	}
	switch {
	case name == "":
		return ""
	case best == wayNode:
		return ", as is " + name
	}
	return ", " + wayNames[best] + " with " + name
}

// gpuDriver is its version.
func (x *examiner) gpuDriver() Finding {
	f := Finding{Name: "GPU driver", State: Warn, Figure: "its version is not known", Mend: "cat /proc/driver/nvidia/version"}
	for _, word := range strings.Fields(x.text("proc/driver/nvidia/version")) {
		if len(word) > 2 && word[0] >= '1' && word[0] <= '9' && strings.Contains(word, ".") {
			return Finding{Name: f.Name, State: OK, Figure: word}
		}
	}
	return f
}

// betweenGPUs counts the ways among cards on the PCI bus. NVLink's switches are devices of
// their own, what it joins is for nvlink to say.
func (x *examiner) betweenGPUs(dirs []string) Finding {
	var pairs [len(wayNames)]int
	for i, a := range dirs {
		for _, b := range dirs[:i] {
			pairs[way(a, b)]++
		}
	}
	var figure []string
	for w, n := range pairs {
		switch {
		case n == 1:
			figure = append(figure, "1 pair "+wayNames[w])
		case n > 1:
			figure = append(figure, fmt.Sprintf("%d pairs %s", n, wayNames[w]))
		}
	}
	f := Finding{Name: "ways between GPUs", State: OK, Figure: strings.Join(figure, ", ")}
	if n := len(x.glob("proc/driver/nvidia-nvswitch/devices/*")); n > 0 {
		f.Figure += fmt.Sprintf("; %d NVLink switches join them", n)
	}
	return f
}

// gpuDirect says whether RDMA devices reach the cards' memory.
func (x *examiner) gpuDirect() Finding {
	f := Finding{Name: "GPUDirect RDMA", State: OK}
	switch {
	case x.exists("sys/module/nvidia_peermem") || x.exists("sys/module/nv_peer_mem"):
		f.Figure = "nvidia_peermem is loaded"
	case strings.Contains(x.text("proc/driver/nvidia/version"), "Open Kernel Module"):
		f.Figure = "by dma-buf: the driver's modules are the open ones"
	default:
		f.State, f.Figure, f.Mend = Missing, "nvidia_peermem is not loaded: a network card reads GPU memory through the host's", "modprobe nvidia_peermem"
	}
	return f
}
