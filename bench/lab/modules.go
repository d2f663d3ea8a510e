package lab

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// wanted are the modules that the guest loads, besides what they depend on.
var wanted = []struct {
	name     string
	optional bool // not in every kernel, or not for every processor
}{
	// the way to the host
	{"virtio_pci", false}, {"virtio_console", false}, {"9pnet_virtio", false}, {"9p", false}, {"overlay", false},
	// rxe asks for "crc32" by name, which no dependency tells; before Linux 6.14
	{"crc32_generic", true}, {"crc32_pclmul", true}, {"crc32c_generic", true}, {"crc32c_intel", true},
	{"rdma_rxe", false}, {"ib_uverbs", false}, {"rdma_ucm", false},
	{"veth", false}, {"tun", false}, {"nvme", false},
	// loss, delay, rate limits and eBPF on the pair
	{"sch_netem", false}, {"sch_ingress", false}, {"sch_tbf", false}, {"cls_bpf", false},
}

// module is one to load.
type module struct {
	name     string
	path     string
	optional bool
}

// selectModules gives the wanted modules and all that they depend on, each
// after its dependencies, from a kernel's tree (lib/modules/VERSION).
func selectModules(tree string) ([]module, error) {
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Join(tree, "kernel"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".ko") && !d.IsDir() {
			files[moduleName(d.Name())] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lab: listing modules: %w", err)
	}
	builtin, err := builtinModules(filepath.Join(tree, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	s := selection{files: files, builtin: builtin, depends: modinfoDepends, seen: map[string]bool{}}
	for _, w := range wanted {
		if err := s.add(w.name, w.optional, "the lab"); err != nil {
			return nil, err
		}
	}
	return s.order, nil
}

// selection is a walk over modules, depth first.
type selection struct {
	files   map[string]string // name -> file
	builtin map[string]bool   // part of the kernel itself
	depends func(file string) ([]string, error)
	seen    map[string]bool
	order   []module
}

func (s *selection) add(name string, optional bool, wantedBy string) error {
	if s.seen[name] || s.builtin[name] {
		return nil
	}
	s.seen[name] = true // before its dependencies: a circle ends here
	file, ok := s.files[name]
	if !ok {
		if optional {
			return nil
		}
		return fmt.Errorf("lab: the kernel has no module %s, which %s needs", name, wantedBy)
	}
	depends, err := s.depends(file)
	if err != nil {
		return err
	}
	for _, d := range depends {
		if err := s.add(d, optional, name); err != nil {
			return err
		}
	}
	s.order = append(s.order, module{name, file, optional})
	return nil
}

// moduleName is a file's module: files may have - where the name has _.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func builtinModules(list string) (map[string]bool, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		names[moduleName(strings.TrimSpace(line))] = true
	}
	return names, nil
}

// modinfoDepends reads what a module depends on from the module itself, so
// that neither depmod nor modprobe is needed.
func modinfoDepends(file string) ([]string, error) {
	data, err := readModule(file)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("lab: %s: %w", file, err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("lab: %s has no section .modinfo: not a kernel module", file)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("lab: %s: %w", file, err)
	}
	return parseDepends(info), nil
}

// parseDepends takes the names from a .modinfo section: strings ended by zeros,
// one of them depends=a,b.
func parseDepends(info []byte) []string {
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(entry), "depends="); ok && list != "" {
			names := strings.Split(list, ",")
			for i, n := range names {
				names[i] = moduleName(n)
			}
			return names
		}
	}
	return nil
}

// maxModule bounds a module when unpacked; the largest have 10 MB.
const maxModule = 128 << 20

// readModule reads a module's file, unpacked: newer kernels have them packed.
func readModule(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	switch filepath.Ext(file) {
	case ".zst":
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxModule))
		if err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
		defer d.Close()
		if data, err = d.DecodeAll(data, nil); err != nil {
			return nil, fmt.Errorf("lab: unpacking %s: %w", file, err)
		}
	case ".xz":
		if data, err = exec.Command("xz", "-dc", file).Output(); err != nil {
			return nil, fmt.Errorf("lab: unpacking %s by xz: %w", file, err)
		}
	}
	return data, nil
}
