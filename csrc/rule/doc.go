// Package rule runs table rules that users bring as shared libraries: the C
// interface of psrt_rule.h, which is installed beside psrt.h.
//
// It owns loading, checking and the calls, a batch of rows each. It must not
// know tables, keys' meaning, or where rows lie but by their addresses.
//
// The life of a rule:
//
//	Try(path, params, dim)   loads it, runs it on rows of its own beside guards
//	                         and refuses one whose results depend on the batch
//	Open(path, params, dim)  an instance for one lane
//	Begin, Update            new rows, gradients
//	Close
//
// Faults survived: a file that is no library, or is none of ours, or is of
// another version; open that fails; writes behind a row and results that differ
// from run to run, as far as Try meets them. Not survived: a library that
// crashes takes the server with it.
package rule
