//go:build !cgo

package job

import (
	"testing"

	"psrt/sched/train"
)

func deviceKinds(*testing.T) []string { return []string{train.DeviceHost} }
