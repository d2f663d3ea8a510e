// Package lab runs commands where there are two RDMA devices with traffic
// really crossing a link between them: on this machine, if it has an RDMA device
// or its kernel may load rdma_rxe, else in a virtual machine with Debian's
// kernel.
//
// It owns the kernel's cache, the emulator's process, the conversation with the
// guest and the judgement of its kernel log. It must not know what any command
// does: nothing of the runtime is imported but the lab's own parts, which are
// wire (what host and guest say), guest (the side inside) and pair (the two
// devices).
//
// The life of one command: Open finds or makes the machine (FindKernel, the
// choice of KVM or emulation, Boot, the agent's greeting) and gives a Machine;
// Run sends the command and copies its output until its exit; Close ends the
// machine and says what crossed the link and what the kernel complained of. The
// machine's files are the host's: its root read-only, with a layer in memory
// over it, and the shared folders writable.
//
// The emulator is a child in a process group of its own. It is ended by its
// process, and the kernel ends it if this process dies first. The initial file
// system is in memory: nothing is left to be removed.
//
// Bounds: the boot by Config.BootTimeout, a command by its context, then
// grace; a frame by wire.MaxPayload; the log kept of the console by maxRecent
// and maxFindings lines.
package lab
