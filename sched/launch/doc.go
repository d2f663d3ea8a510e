// Package launch starts the ranks of a job as processes of this machine and
// sees to it that none outlives the job.
//
// It owns the launcher's directory (Scratch), starting, the event pipe and the last log lines of each rank, the
// judgement who died first and of what, and the orderly end. It must not know
// what a rank does or which flags it takes.
//
// The life of a job: every rank is started in a process group of its own, with
// a pipe on descriptor 3 on which it writes events, one JSON object a line;
// its output is kept as a tail. When a rank ends badly OnDeath says what follows:
// the others go on, and the rank is started again or not; or, as without OnDeath,
// all are told to end (SIGTERM), and after Grace they are killed; Run then says who
// died, how, and shows its tail. Ranks may come later, by More. Cancelling the
// context ends the job the same way. If the
// launcher itself is killed the kernel kills the ranks (PR_SET_PDEATHSIG), and
// the next launcher of the same user removes its directory.
package launch
