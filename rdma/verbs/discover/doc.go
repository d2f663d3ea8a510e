// Package discover tells which RDMA devices this host has, and which of their
// ports and GIDs serve for a peer, each with its reasons.
//
// It owns the reading of sysfs (Scan, without opening a device), the rules of
// choice (Choose) and of joining our ports with a peer's (Pair). Scan and
// Interfaces read files and ask the system; everything else is pure. It must
// not know queue pairs, memory or how peers exchange what Pair needs.
//
// The life of one choice:
//
//  1. Scan reads devices, ports and GID tables under a root, which tests fake;
//     Interfaces gives the addresses of the network interfaces.
//  2. Choose drops what cannot serve (ports that are down, devices that this
//     container was not given, GIDs of interfaces in other namespaces), takes
//     the best GID of every port, and orders the ports: those whose address
//     routes to the peer or shares its subnet come first and, where there is
//     one, alone; among them the device nearest to the wanted memory.
//  3. Choice is printed once: what was taken and why, what was not and why.
//  4. Peers exchange Candidates; Pair joins them so that both sides come to the
//     same pairs. A port that goes down is marked, its pairs leave the list,
//     and when it is back the list is again what it was.
//
// Names are compared whole, everywhere: mlx5_1 is not mlx5_10.
package discover
