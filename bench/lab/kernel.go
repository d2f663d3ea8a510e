package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/wire"
)

// Kernel is one that is in the cache: a folder of its own, complete or not
// there at all.
type Kernel struct {
	Version string // such as 6.1.0-56-amd64
	Dir     string
}

// Image is the kernel itself.
func (k Kernel) Image() string { return filepath.Join(k.Dir, "vmlinuz") }

// Modules lists the modules in the order in which they are loaded, which their
// names keep.
func (k Kernel) Modules() ([]wire.Module, error) {
	entries, err := os.ReadDir(filepath.Join(k.Dir, "modules"))
	if err != nil {
		return nil, fmt.Errorf("lab: %w: remove %s, it will be made again", err, k.Dir)
	}
	var list []wire.Module
	for _, e := range entries {
		list = append(list, wire.Module{File: e.Name(), Optional: strings.HasSuffix(e.Name(), optionalSuffix)})
	}
	return list, nil
}

const optionalSuffix = ".optional.ko"

// DefaultCache is where kernels are kept: beside the Go that .ci/deps.sh
// fetches, outside any checkout.
func DefaultCache(getenv func(string) string) string {
	base := getenv("PSRT_CACHE")
	if base == "" {
		base = getenv("XDG_CACHE_HOME")
		if base == "" {
			home := getenv("HOME")
			if home == "" {
				home = os.TempDir()
			}
			base = filepath.Join(home, ".cache")
		}
		base = filepath.Join(base, "psrt")
	}
	return filepath.Join(base, "lab")
}

// recipe names what is taken out of a kernel's package: another list of modules
// is another folder.
func recipe() string {
	h := sha256.New()
	for _, w := range wanted {
		fmt.Fprintln(h, w.name, w.optional)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:4])
}

// cachedKernel is the newest in the cache, if there is any.
func cachedKernel(cache, recipe string) (Kernel, bool) {
	dirs, err := filepath.Glob(filepath.Join(cache, "*-"+recipe))
	if err != nil || len(dirs) == 0 {
		return Kernel{}, false
	}
	dir := slices.MaxFunc(dirs, func(a, b string) int { return compareVersions(filepath.Base(a), filepath.Base(b)) })
	return Kernel{strings.TrimSuffix(filepath.Base(dir), "-"+recipe), dir}, true
}

var numbers = regexp.MustCompile(`\d+`)

// compareVersions orders 6.1.0-9 before 6.1.0-56: by its numbers.
func compareVersions(a, b string) int {
	return slices.CompareFunc(numbers.FindAllString(a, -1), numbers.FindAllString(b, -1), func(x, y string) int {
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
}

// FindKernel gives the newest kernel of the cache; only if there is none, it
// fetches the distribution's current one. Remove the cache to have a newer one.
func FindKernel(ctx context.Context, cache string, log io.Writer) (Kernel, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Kernel{}, fmt.Errorf("lab: %w: set PSRT_CACHE to a folder that can be written", err)
	}
	if k, ok := cachedKernel(cache, recipe()); ok {
		return k, nil
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	if k, ok := cachedKernel(cache, recipe()); ok {
		return k, nil // another lab was quicker
	}
	return fetchKernel(ctx, cache, log)
}

// lock takes a file's lock; the process's end frees it, too.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lab: locking %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}

var kernelPackage = regexp.MustCompile(`(?m)^\s*\|?Depends: linux-image-(\d\S*)$`)

// kernelVersion reads what apt-cache says a metapackage depends on.
func kernelVersion(depends string) (string, bool) {
	m := kernelPackage.FindStringSubmatch(depends)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// sources are where a distribution's current kernel is: a metapackage, and the
// packages, without the version, that hold what the guest needs.
var sources = []struct {
	meta     string
	packages []string
}{
	{"linux-image-amd64", []string{"linux-image-"}},                                             // Debian
	{"linux-image-generic", []string{"linux-image-", "linux-modules-", "linux-modules-extra-"}}, // Ubuntu
}

// fetchKernel downloads the package by apt, whose signatures it relies on, and
// keeps the kernel and the few modules that the guest loads.
func fetchKernel(ctx context.Context, cache string, log io.Writer) (Kernel, error) {
	tmp, err := os.MkdirTemp(cache, "tmp-")
	if err != nil {
		return Kernel{}, fmt.Errorf("lab: %w", err)
	}
	defer os.RemoveAll(tmp)
	version, err := download(ctx, tmp, log)
	if err != nil && ctx.Err() == nil {
		// No lists, or lists that name a version which is no longer offered.
		fmt.Fprintln(log, "lab: apt-get update, for", err)
		update := updateLists()
		if _, err := output(ctx, tmp, update[0], update[1:]...); err != nil {
			return Kernel{}, err
		}
		version, err = download(ctx, tmp, log)
	}
	if err != nil {
		return Kernel{}, err
	}
	packages, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return Kernel{}, fmt.Errorf("lab: %w", err)
	}
	tree := filepath.Join(tmp, "tree")
	for _, p := range packages {
		if _, err := output(ctx, tmp, "dpkg-deb", "-x", p, tree); err != nil {
			return Kernel{}, err
		}
	}
	made := filepath.Join(tmp, "made")
	if err := assemble(tree, version, made); err != nil {
		return Kernel{}, err
	}
	k := Kernel{version, filepath.Join(cache, version+"-"+recipe())}
	if err := os.Rename(made, k.Dir); err != nil {
		return Kernel{}, fmt.Errorf("lab: %w", err)
	}
	return k, nil
}

// updateLists is what brings apt's lists up to date.
func updateLists() []string {
	update := []string{"apt-get", "-q", "update"}
	if os.Getuid() != 0 {
		return append([]string{"sudo", "-n"}, update...)
	}
	return update
}

// download fetches the packages into a folder and gives the kernel's version.
func download(ctx context.Context, into string, log io.Writer) (string, error) {
	for _, source := range sources {
		depends, err := output(ctx, into, "apt-cache", "depends", source.meta)
		if errors.Is(err, exec.ErrNotFound) {
			return "", err
		}
		version, ok := kernelVersion(depends)
		if err != nil || !ok {
			continue // another distribution's
		}
		args := []string{"download"}
		for _, p := range source.packages {
			args = append(args, p+version)
		}
		fmt.Fprintf(log, "lab: fetching %s by apt-get (once, into %s)\n", strings.Join(args[1:], ", "), filepath.Dir(into))
		_, err = output(ctx, into, "apt-get", args...)
		return version, err
	}
	return "", fmt.Errorf("lab: apt knows no kernel behind %s or %s: set up apt for Debian or Ubuntu", sources[0].meta, sources[1].meta)
}

// assemble copies what is needed out of an unpacked package.
func assemble(tree, version, into string) error {
	if err := os.MkdirAll(filepath.Join(into, "modules"), 0o755); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	dir := filepath.Join(tree, "lib/modules", version)
	if _, err := os.Stat(dir); err != nil {
		dir = filepath.Join(tree, "usr/lib/modules", version)
	}
	modules, err := selectModules(dir)
	if err != nil {
		return err
	}
	for i, m := range modules {
		data, err := readModule(m.path)
		if err != nil {
			return err
		}
		suffix := ".ko"
		if m.optional {
			suffix = optionalSuffix
		}
		if err := os.WriteFile(filepath.Join(into, "modules", fmt.Sprintf("%02d-%s%s", i, m.name, suffix)), data, 0o644); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
	}
	if err := os.Rename(filepath.Join(tree, "boot/vmlinuz-"+version), filepath.Join(into, "vmlinuz")); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// output runs a program and gives its standard output; its error is what the
// program said.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("lab: %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
