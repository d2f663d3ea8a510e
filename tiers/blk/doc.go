// Package blk is disks as a log needs them: files in a directory, read and
// written in whole blocks, many at a time, without waiting.
//
// It owns requests in flight, alignment and what a kernel offers. It must not
// know what is in a file.
package blk
