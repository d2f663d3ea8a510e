//go:build !cgo

package verbs

import "time"

type CQ struct{}

func (*CQ) Close() error                  { return unavailable() }
func (*CQ) Poll([]Done) (int, error)      { return 0, unavailable() }
func (*CQ) Arm() error                    { return unavailable() }
func (*CQ) Wait(int, time.Duration) error { return unavailable() }

type QP struct {
	Num    uint32
	Inline int
}

func (*QP) Close() error                         { return unavailable() }
func (*QP) Init(int) error                       { return unavailable() }
func (*QP) ToRTR(*Path) error                    { return unavailable() }
func (*QP) ToRTS(*Path) error                    { return unavailable() }
func (*QP) Reset() error                         { return unavailable() }
func (*QP) Error() error                         { return unavailable() }
func (*QP) PostSend([]Send, []byte) (int, error) { return 0, unavailable() }
func (*QP) PostRecv([]Recv) (int, error)         { return 0, unavailable() }
