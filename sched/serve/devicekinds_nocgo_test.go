//go:build !cgo

package serve

import (
	"testing"

	"psrt/tiers/hbm/pick"
)

// deviceKinds is the twin alone.
func deviceKinds(*testing.T) []string { return []string{pick.Host} }
