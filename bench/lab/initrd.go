package lab

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/guest"
	"psrt/bench/lab/wire"
)

// initialFiles makes the guest's initial file system, in a file that is only
// in memory.
func initialFiles(program string, kernel Kernel, config wire.Config) (*os.File, error) {
	text, err := guest.EncodeConfig(config)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	initProgram, err := staticProgram(program)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("lab-initrd", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	f := os.NewFile(uintptr(fd), "initrd")
	a := &archive{w: f}
	steps := []func() error{
		func() error { return a.dir("dev") },
		// Before there is a /dev, the kernel opens this for the first process.
		func() error { return a.charDevice("dev/console", 5, 1) },
		func() error { return a.program("init", initProgram) },
		func() error { return a.file(guest.ConfigPath[1:], text) },
		func() error { return a.dir(guest.ModuleDir[1:]) },
	}
	for _, m := range config.Modules {
		steps = append(steps, func() error {
			data, err := os.ReadFile(filepath.Join(kernel.Dir, "modules", m.File))
			if err != nil {
				return fmt.Errorf("lab: %w", err)
			}
			return a.file(guest.ModuleDir[1:]+"/"+m.File, data)
		})
	}
	for _, step := range append(steps, a.close) {
		if err := step(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// staticProgram reads a program that needs no other file to run.
func staticProgram(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("lab: %s: %w", path, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("lab: %s is linked dynamically, but is to be the first process of a machine without libraries: build it with CGO_ENABLED=0", path)
		}
	}
	return data, nil
}
