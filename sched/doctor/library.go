package doctor

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
)

// library is one that is loaded where it is there, by its soname, and what psrt
// calls in it.
type library struct {
	name, file, since, mend string
	symbols                 []string
	variable                string // of the environment, that names another file; "": none does
}

// known are all of them; since is the version that has all symbols.
func known() []library {
	return []library{
		{"CUDA driver", cuda.Library, "CUDA 11", "install the GPU's driver, or have " + cuda.Variable + " name its file", cuda.Symbols(), cuda.Variable},
		{"NCCL", nccl.Name, "NCCL 2.7", nccl.Remedy, nccl.Symbols(), nccl.Variable},
		{"PMIx", "libpmix.so.2", "PMIx 3", "apt-get install libpmix2", []string{"PMIx_Init", "PMIx_Finalize", "PMIx_Put", "PMIx_Commit", "PMIx_Fence", "PMIx_Get", "PMIx_Error_string"}, ""},
		{"libibverbs", "libibverbs.so.1", "rdma-core 32", "apt-get install libibverbs1 ibverbs-providers", []string{"ibv_get_device_list", "ibv_open_device", "ibv_reg_mr", "ibv_create_qp", "ibv_create_srq", "_ibv_query_gid_ex", "_ibv_query_gid_table"}, ""},
	}
}

// libraries looks for each where the loader does.
func (x *examiner) libraries() (all []group) {
	for _, l := range known() {
		all = append(all, group{name: l.finding(), look: func() []Finding { return []Finding{x.library(l)} }})
	}
	return all
}

func (l *library) finding() string { return "library " + l.name }

var usualPlaces = []string{"usr/lib/*-linux-gnu/", "lib/*-linux-gnu/", "usr/lib64/", "lib64/", "usr/lib/", "usr/local/lib/", "usr/local/cuda/lib64/"}

func (x *examiner) library(l library) Finding {
	named := ""
	if l.variable != "" {
		named = os.Getenv(l.variable)
	}
	if named != "" && !strings.Contains(named, "/") { // the loader looks for that where it looks for any
		l.file = named
	}
	f := Finding{Name: l.finding(), State: Missing, Figure: "no " + l.file + " where libraries usually are", Mend: l.mend}
	at := x.placesOf(l.file)
	if strings.Contains(named, "/") {
		if at = []string{named}; !fileThere(named) {
			f.State, f.Figure = Warn, fmt.Sprintf("no %s, which %s names", named, l.variable)
		}
	}
	if len(at) == 0 || f.State == Warn {
		return f
	}
	path := at[0] // the loader takes the first that suits this machine
	why := errors.New("")
	for _, p := range at {
		if why = fits(p, l); !errors.Is(why, errForeign) {
			path = p
			break
		}
	}
	f.State, f.Figure, f.Mend = OK, path, ""
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) != filepath.Base(path) {
		f.Figure += " (" + strings.TrimPrefix(filepath.Base(real), filepath.Base(path)+".") + ")"
	}
	if named != "" {
		f.Figure += ", as " + l.variable + " says"
	}
	if why != nil {
		f.State, f.Figure = Warn, fmt.Sprintf("%s: %v", f.Figure, why)
		f.Mend = l.mend + ", " + l.since + " or newer"
		for _, dir := range x.cfg.Libraries {
			if filepath.Dir(path) == filepath.Clean(dir) {
				f.Mend = "take " + dir + " out of LD_LIBRARY_PATH, or: " + f.Mend
			}
		}
	}
	return f
}

// placesOf is where a library's file is, in the order in which the loader looks.
func (x *examiner) placesOf(file string) (at []string) {
	for _, dir := range x.cfg.Libraries {
		if path := filepath.Join(dir, file); fileThere(path) {
			at = append(at, path)
		}
	}
	for _, dir := range usualPlaces {
		at = append(at, x.glob(dir+file)...)
	}
	return at
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var errForeign = errors.New("wrong library: for another machine")

// machines are Go's names of what psrt runs on.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// fits says why a file is not the library that is wanted.
func fits(path string, l library) error {
	lib, err := elf.Open(path)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("wrong library: the file is cut short, or no library")
	}
	if err != nil {
		return fmt.Errorf("wrong library: %w", err)
	}
	defer lib.Close()
	if m, ok := machines[runtime.GOARCH]; ok && lib.Machine != m {
		return fmt.Errorf("%w, %v", errForeign, lib.Machine)
	}
	symbols, err := lib.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("wrong library: %w", err)
	}
	has := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			has[s.Name] = true
		}
	}
	var lacks []string
	for _, s := range l.symbols {
		if !has[s] {
			lacks = append(lacks, s)
		}
	}
	switch {
	case len(lacks) == len(l.symbols):
		return fmt.Errorf("wrong library: it is no %s at all", l.name)
	case len(lacks) > 0:
		return fmt.Errorf("wrong library: it has no %s: older than %s", strings.Join(lacks, ", "), l.since)
	}
	return nil
}
