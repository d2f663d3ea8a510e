// Package job turns a job description into ranks that run: processes of this
// machine (RunProcesses), goroutines of this process (RunInProcess, for tests
// and for comparing), or the one rank that this process was started as
// (RunRank).
//
// It owns the coordinator's life, the order in which ranks find each other,
// and what a failure of one means for the others. It must not know flags or
// pictures.
//
// # How ranks find each other
//
// All meet at the coordinator. Its keys:
//
//	job               the job description, put by whoever starts the job
//	server/<i>        the address server i listens on (lease of server i)
//	train-…, eval-…   gathers and barriers of the workers
//	abort             why the job must end; every rank watches it
//	end/<rank>        this rank needs the coordinator no more
//	way/<rank>        this rank offers a way to the store, which survives rank 0
//
// World rank r is server r while r < servers, else worker r-servers.
package job
