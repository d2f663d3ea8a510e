package calibrate

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// busy is how long all cores together have been, at some time.
type busy struct {
	at    time.Time
	total time.Duration // negative: the kernel does not say
}

// tick is the unit of /proc/stat, the same on all architectures that Linux has.
const tick = 10 * time.Millisecond

func now() busy {
	text, err := os.ReadFile("/proc/stat")
	b := busy{time.Now(), -1}
	if err == nil {
		b.total = busyOf(text)
	}
	return b
}

// busyOf reads the line of all cores: ticks in user, nice, system, idle, waiting for a
// disk, interrupts, soft ones, and stolen by other machines of the host.
func busyOf(stat []byte) (sum time.Duration) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) < 9 || words[0] != "cpu" {
		return -1
	}
	for i, w := range words[1:9] {
		n, err := strconv.ParseInt(w, 10, 64)
		switch {
		case err != nil:
			return -1
		case i == 3 || i == 4: // idle
		default:
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// others is how many cores were busy since before with something else than what took own.
func (b busy) others(before busy, own time.Duration) float64 {
	if b.total < 0 || before.total < 0 {
		return -1
	}
	return max(0, (b.total-before.total-own).Seconds()/b.at.Sub(before.at).Seconds())
}
