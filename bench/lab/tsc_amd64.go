package lab

import (
	"bytes"
	"os"
	"time"
)

// readTSC is the processor's time stamp counter.
func readTSC() uint64

// tscKHz is how fast this processor's time stamp counter runs, which is also the
// emulated processor's; 0 where it is not known to be constant.
func tscKHz() uint64 {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !bytes.Contains(info, []byte(" constant_tsc ")) {
		return 0
	}
	const apart = 50 * time.Millisecond
	ticks, at := stamp()
	time.Sleep(apart)
	ticks2, at2 := stamp()
	return (ticks2 - ticks) * uint64(time.Millisecond) / uint64(at2.Sub(at))
}

// stamp reads both clocks at one moment: the narrowest of a few tries, for this
// thread may lose its processor in between.
func stamp() (ticks uint64, at time.Time) {
	narrowest := ^uint64(0)
	for range 100 {
		before, now, after := readTSC(), time.Now(), readTSC()
		if after-before < narrowest {
			narrowest, ticks, at = after-before, before+(after-before)/2, now
		}
	}
	return ticks, at
}
