// Package verbstest trains over RDMA: whole jobs, in one process, on whatever
// devices the machine has. Without one its tests are skipped; in the soft-RoCE
// lab, where they belong, that is a failure.
//
// It owns nothing but tests, apart from sched/job's own because the lab runs
// packages whole.
//
// The life of one test: a sample file is made, the job trains on it over
// verbs, and its digest is held against that of the same job over tcp and shm.
package verbstest
