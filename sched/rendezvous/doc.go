// Package rendezvous brings the ranks of a job together that somebody else has
// started: mpirun, srun, mpiexec, or a person with ssh.
//
// It owns the question who this process is (Identify), the ways in which ranks
// that do not know each other yet exchange a few words (Exchange), which of a
// host's addresses are offered to others, and the proof that every rank reaches
// every other before anything is begun (Meet). It must not know what the ranks do.
//
// # The life of a meeting
//
//	Identify     flags or PSRT_* > PMIx > SLURM > Open MPI > hydra
//	Open         PMIx where there is a server for it, else PMI (SLURM's pmi2,
//	             hydra), else a folder of this host; or a Coordinator (Through)
//	round 1      every rank shows its card: host, addresses, the port of its
//	             probe; rank 0's has the token and the port of the coordinator
//	preflight    everybody connects to everybody, on all offered addresses at
//	             once, with the token: who answers proves to be that rank
//	round 2      what everybody reached; each rank draws the same conclusion
//
// The token is made by rank 0 and travels only by the exchange: over the
// launcher's own authenticated connections, in a folder that only this user can
// enter, or not at all (Through: both sides hold it already).
//
// # Waits
//
// Every round has the caller's deadline and names who did not come where the
// launcher lets us know. A connection attempt takes ProbeTimeout at most, what is said over
// it answerWithin: a process that is short of cores is no address that cannot be reached. All
// of a rank's attempts run at the same time, maxDials at once.
package rendezvous
