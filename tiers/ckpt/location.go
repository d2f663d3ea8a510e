package ckpt

import (
	"context"

	"psrt/tiers/ckpt/files"
	"psrt/tiers/ckpt/s3"
)

// IsDirectory says whether a location is a directory of this machine's, rather
// than a place in a store.
func IsDirectory(location string) bool { return !s3.Is(location) }

// openFS is the place that a location names: a directory, or
// s3://bucket/prefix (see package s3 for its parameters). Nothing need be there.
func openFS(ctx context.Context, location string) (files.FS, error) {
	if s3.Is(location) {
		return s3.Open(ctx, location)
	}
	return files.NewDir(location), nil
}
