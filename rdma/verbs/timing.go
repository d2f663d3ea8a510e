package verbs

import "time"

// Retries. 7 means "for ever" for receiver-not-ready, and to soft-RoCE for a
// silent peer, too.
const (
	retryCount    = 6
	rnrRetryCount = 6
)

// ackTimeout gives the local ACK timeout's code: a device that hears nothing
// sends 1 + retryCount times, 4.096 us x 2^code apart. The largest code whose
// sum is within d.
func ackTimeout(d time.Duration) uint32 {
	const unit = 4096 * time.Nanosecond
	code := uint32(1)
	for code < 31 && (retryCount+1)*(unit<<(code+1)) <= d {
		code++
	}
	return code
}

// rnrDelays are the waits that a receiver can ask of a sender it is not ready
// for, in units of 10 us, by code (InfiniBand Architecture 1.4, table 45).
var rnrDelays = [32]int64{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// rnrTimer gives the code of the longest wait that, taken rnrRetryCount times,
// is within the sender's d.
func rnrTimer(d time.Duration) uint32 {
	best := uint32(1)
	for code, units := range rnrDelays {
		wait := time.Duration(units) * 10 * time.Microsecond
		if wait*rnrRetryCount <= d && units > rnrDelays[best] {
			best = uint32(code)
		}
	}
	return best
}
