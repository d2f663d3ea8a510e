// Command libpsrt is the C library: psrt.h's functions over sched/kv. It is built
// as a shared library (go build -buildmode=c-shared), never run.
//
// It owns handles, the checks on what comes from C, status codes and messages,
// and what a host process is promised (no abort, no output, fork is noticed). It
// must not know how pulls and pushes work: sched/kv does.
//
// # The life of a call
//
//	C caller -> psrt_pull_sparse (entry.c: fork? NULL? aligned?)
//	         -> goPullSparse     (export_cgo.go: handle -> object, recover)
//	         -> kv.Table.Pull    (post, wait)
//	         <- status; the message, if any, lies in the thread's buffer in C
//
// # Handles
//
// A handle is a kind, an index and a generation in one word. C holds only that,
// so a stale one is refused and nothing of Go's is ever kept by C.
package main
