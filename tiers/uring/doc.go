// Package uring is the kernel's io_uring by raw system calls: no C, no library.
//
// It owns one ring: its mapped memory, the order of loads and stores on it,
// registered files and buffers, and the reason when the kernel refuses. It must
// not know what is read or written, or which requests belong together.
//
// The life of one request: Push copies an Entry into the submission ring, which
// the kernel does not look at yet; Submit hands over all pushed entries in one
// system call; the kernel works, and puts a Completion with the entry's User
// into the completion ring; Poll takes it from there, by loads from memory
// only. Wait sleeps in the kernel until there is one, Notify's eventfd says so
// to who sleeps elsewhere.
//
// Bounds: Push takes at most Entries before a Submit, and the completion ring
// holds Config.Completions; a caller that keeps at most as many in flight loses
// nothing and never finds the kernel's overflow list in use.
//
// Threads: all calls are one goroutine's. The goroutine may change threads,
// unless Config.Locked promised that it will not: then the kernel saves its
// locks and runs completions only when asked (SINGLE_ISSUER, DEFER_TASKRUN).
package uring
