// Package localpath tells paths of this machine from addresses of stores.
//
// It owns what counts as an address: a scheme, a colon and two slashes. It must not
// know which stores psrt can use, nor look at the disk.
//
// The life of a check: whoever is about to open or make a file of a name that a user
// gave calls Check, because the file system would take s3://bucket/model for
// the directory s3: below the working directory.
package localpath
