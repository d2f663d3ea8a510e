package memlock

import "math"

// Unlimited is a limit's value when there is none.
const Unlimited = math.MaxInt64

// Facts are what a verdict rests on; bytes throughout.
type Facts struct {
	Soft, Hard int64 // RLIMIT_MEMLOCK, Unlimited where there is none
	Pinned     int64 // for RDMA, by this process: VmPin
	Locked     int64 // by mlock: VmLck; for the message only
	// Raise is why the soft limit could not be raised to the hard one.
	Raise error
	// Trial locks as many bytes as given and lets go; only asked beyond Soft.
	Trial func(bytes int64) error
}

// Judge says whether need bytes more may be pinned: nil or a *LimitError.
func Judge(f Facts, need int64) error {
	if need <= 0 || f.fits(need) {
		return nil
	}
	err := f.Trial(f.after(need))
	if err == nil {
		return nil
	}
	return &LimitError{Need: need, Soft: f.Soft, Hard: f.Hard, Pinned: f.Pinned, Locked: f.Locked, Raise: f.Raise, Trial: err}
}

func (f Facts) fits(need int64) bool { return f.Soft == Unlimited || f.after(need) <= f.Soft }

// after is the sum that the kernel compares with the limit.
func (f Facts) after(need int64) int64 {
	if need > Unlimited-f.Pinned {
		return Unlimited
	}
	return need + f.Pinned
}
