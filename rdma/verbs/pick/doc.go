// Package pick says which RDMA devices a process should use, and why not
// the others.
//
// It owns the reading of sysfs (whose root is a parameter, so that tests give
// a fake tree), the match of a network interface or a container's device files
// to a device, and the choice, which is pure. It must not open a device.
//
// The life of one choice: Read lists the devices and their ports; Choose keeps
// those that the user named, or else those with an active port, orders them by
// the distance of their NUMA node from the process's memory, and gives each
// rejected one a reason. GIDs are chosen later, when the peer's are known.
package pick
