// Package cluster makes several hosts of one machine, for tests: network
// namespaces with names, addresses and links that can be cut, and on them a real
// SLURM and a real mpirun.
//
// It owns the namespaces and the daemons, and that none of them outlives the
// test. It must not know what is run on the hosts.
//
// The life of a cluster: New makes a namespace with a bridge (the head, 10.x.0.100)
// and one for each host (h1, h2, ... at 10.x.0.1 and on), all named after this
// process. Command gives a command that runs on a host, under its own host name.
// Slurm starts munged, slurmctld on the head and a slurmd on each host, in the
// foreground as children of the test, and waits until all nodes are idle; MPIRun
// reaches the hosts through a stand-in for rsh. The end of the test ends all of it; where
// the test is killed, a process beside it does (watchman.go).
//
// Need says what a machine lacks: the test is skipped, or fails where
// PSRT_REQUIRE_LAUNCHERS is set, as in CI.
package cluster
