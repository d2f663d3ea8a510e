package rendezvous

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// InputError is the user's fault.
type InputError struct{ Err error }

func (e *InputError) Error() string  { return e.Err.Error() }
func (e *InputError) Unwrap() error  { return e.Err }
func (e *InputError) BadInput() bool { return true }

// MissingError names the ranks that did not come to a round in time.
type MissingError struct {
	By     string // the exchange
	Waited time.Duration
	Ranks  []int // empty: the exchange cannot tell
	World  int
	Cause  error
}

func (e *MissingError) Error() string {
	who := fmt.Sprintf("some of the %d ranks (%s does not tell which)", e.World, e.By)
	if len(e.Ranks) > 0 {
		who = "rank " + list(e.Ranks)
	}
	return fmt.Sprintf("rendezvous: waited %s by %s for %s: %v; look at what those ranks say, and at the launcher's own log",
		e.Waited.Round(10*time.Millisecond), e.By, who, e.Cause)
}

func (e *MissingError) Unwrap() error { return e.Cause }

// most that a message lists.
const most = 8

func list(ranks []int) string {
	var words []string
	for i, r := range ranks {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(ranks)-most))
			break
		}
		words = append(words, strconv.Itoa(r))
	}
	return strings.Join(words, ", ")
}
