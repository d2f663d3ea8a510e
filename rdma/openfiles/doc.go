// Package openfiles says how many files a process has open and may have (RLIMIT_NOFILE),
// and gives errors for want of one the figures and the remedy.
//
// It owns the reading of /proc/self/fd and of the limit, at each call, and keeps nothing.
// It must not know the purpose of the files.
//
// The life of an error: a call fails in a transport; dial passes it through Explain before
// it tells the peer or the caller; callers see an Error, whose Unwrap is the cause.
package openfiles
