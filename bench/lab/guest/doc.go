// Package guest is the lab's side inside the virtual machine: its first process
// and the agent that runs commands for the host.
//
// It owns the machine's mounts and modules, and the processes of the commands.
// It must not know how the machine was started, nor what a command means.
//
// The life of one machine: Init, as process 1 in the initial file system, loads
// the modules, mounts the host's root read-only with a layer of memory over it,
// moves there, and starts this program again as the agent, for process 1 must
// reap what others leave behind. Agent makes the pair of devices and then serves
// the host's frames (package wire) until it is told to quit; then Init switches
// the machine off. Whatever goes wrong before the host can be told is written to
// the console, which the host reads as well.
package guest
