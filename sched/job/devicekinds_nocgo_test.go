//go:build !cgo

package job

import (
	"testing"

	"psrt/tiers/hbm/pick"
)

func deviceKinds(*testing.T) []string { return []string{pick.Host} }

// deviceSpreads are those of one lane each; twins have one name.
func deviceSpreads(*testing.T) []deviceSpread { return []deviceSpread{{"host,host,host,host", 1}} }
