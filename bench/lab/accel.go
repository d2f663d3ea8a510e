package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"psrt/bench/lab/guest"
	"psrt/bench/lab/wire"
)

// probeTimeout bounds the boot that shows whether KVM works: it takes 1 to 2 s
// where it does. Some hosts have /dev/kvm and a guest hangs under it.
const probeTimeout = 8 * time.Second

// chooseAccel says kvm only if this kernel was seen to boot under it on this
// host since its start. The answer is kept in the cache.
func chooseAccel(ctx context.Context, cfg Config, kernel Kernel) string {
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg"
	}
	kvm.Close()
	answer := filepath.Join(cfg.Cache, probeName(kernel.Version, bootID()))
	if text, err := os.ReadFile(answer); err == nil {
		return strings.TrimSpace(string(text))
	}
	accel := "tcg"
	if err := probe(ctx, cfg, kernel); err == nil {
		accel = "kvm"
	} else if ctx.Err() != nil {
		return accel // not the host's fault: asked again the next time
	} else {
		fmt.Fprintf(cfg.Log, "lab: /dev/kvm is there, but %v: emulating from now on\n", err)
	}
	// Written whole or not at all; without it the next lab probes again.
	tmp := fmt.Sprintf("%s.%d", answer, os.Getpid())
	if err := os.WriteFile(tmp, []byte(accel+"\n"), 0o644); err == nil {
		_ = os.Rename(tmp, answer)
	}
	return accel
}

// probeName is the answer's file: one for each kernel and start of the host.
func probeName(version, boot string) string { return "accel-" + version + "-" + boot }

func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		var u unix.Utsname
		_ = unix.Uname(&u)
		return unix.ByteSliceToString(u.Release[:])
	}
	return strings.TrimSpace(string(text))
}

func probe(ctx context.Context, cfg Config, kernel Kernel) error {
	v, err := startVM(cfg, kernel, "kvm", wire.Config{Probe: true})
	if err != nil {
		return err
	}
	timer := time.NewTimer(probeTimeout)
	defer timer.Stop()
	select {
	case <-v.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
	<-v.killed()
	v.mu.Lock()
	defer v.mu.Unlock()
	said := strings.Join(v.console.recent, "\n")
	if strings.Contains(said, guest.ProbeAnswer) {
		return nil
	}
	first, _, _ := strings.Cut(said, "\n")
	return fmt.Errorf("kernel %s does not boot under it within %v (it said %q)", kernel.Version, probeTimeout, first)
}
