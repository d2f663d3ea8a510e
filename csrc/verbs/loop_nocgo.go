//go:build !cgo

package verbs

import "time"

func (*QP) Ping(*CQ, *Loop, []time.Duration) error   { return unavailable() }
func (*QP) Stream(*CQ, *Loop) (time.Duration, error) { return 0, unavailable() }
