package uring

import "fmt"

// Config asks for a ring.
type Config struct {
	// Entries is how many requests Push takes before Submit; rounded up to a power
	// of two.
	Entries int
	// Completions bounds what the kernel holds ready; 0 is twice Entries. At least
	// as many as requests in flight.
	Completions int
	// Files and Buffers are the slots for registered ones; 0 is none. Where the
	// kernel refuses a table, Files() or Buffers() is 0 and Why says the reason.
	Files, Buffers int
	// Locked promises that one thread makes all calls from the first Submit on.
	Locked bool
	// Plain asks for none of the flags of newer kernels, for tests of what runs
	// on old ones.
	Plain bool
}

// Limits of a Config, the kernel's.
const (
	MaxEntries = 1 << 15
	maxFiles   = 1 << 15
	maxBuffers = 1 << 14
)

func (c *Config) check() error {
	switch {
	case c.Entries < 1 || c.Entries > MaxEntries:
		return fmt.Errorf("uring: %d entries asked for, want 1 to %d", c.Entries, MaxEntries)
	case c.Completions < 0 || c.Completions > 2*MaxEntries:
		return fmt.Errorf("uring: %d completions asked for, want 0 to %d", c.Completions, 2*MaxEntries)
	case c.Files < 0 || c.Files > maxFiles:
		return fmt.Errorf("uring: %d file slots asked for, want 0 to %d", c.Files, maxFiles)
	case c.Buffers < 0 || c.Buffers > maxBuffers:
		return fmt.Errorf("uring: %d buffer slots asked for, want 0 to %d", c.Buffers, maxBuffers)
	}
	return nil
}

// mode is a choice of setup flags; the better ones are refused by older kernels.
type mode struct {
	flags uint32
	since string
}

// modes lists what to try, best first.
//
// COOP_TASKRUN saves the interrupt that brings a completion to the thread that
// submitted, and is for Locked rings only: a goroutine that has moved on leaves
// that thread to others, which may not enter the kernel for a whole tick.
func (c *Config) modes() []mode {
	const always = setupCQSize | setupClamp
	list := []mode{{always | setupSubmitAll, "5.18"}, {always, "5.6"}}
	switch {
	case c.Plain:
		return list[1:]
	case c.Locked:
		return append([]mode{
			{always | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun | setupTaskrunFlag | setupDisabled, "6.1"},
			{always | setupSubmitAll | setupCoopTaskrun | setupTaskrunFlag, "5.19"},
		}, list...)
	}
	return list
}
