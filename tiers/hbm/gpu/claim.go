package gpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"psrt/tiers/hbm/deal"
)

// host is where a machine shows its cards.
const host = "/sys/bus/pci/devices"

// seats are files that every card has there. Who has a card keeps a lock on one of
// them: nobody has to know the others, of this job or another's, nothing is left when
// a process ends, however it does, and beyond so many takers nothing is counted.
var seats = [...]string{"vendor", "device", "class", "subsystem_vendor", "subsystem_device", "revision", "config", "resource"}

// claimWithin bounds waiting for those who count at the same moment.
const claimWithin = 10 * time.Second

// claim takes one of the cards on some buses of the machine at root, as speeds have
// it, until release is called.
func claim(root string, buses []string, speeds []float64) (card int, release func(), err error) {
	turn, err := os.Open(root)
	if err != nil {
		return 0, nil, err
	}
	defer turn.Close()
	for end := time.Now().Add(claimWithin); ; time.Sleep(time.Millisecond) {
		if err = unix.Flock(int(turn.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return 0, nil, fmt.Errorf("gpu: %s cannot be locked: %w", root, err)
		}
	}
	free := make([]*os.File, len(buses)) // a seat of each card, locked
	cards := make([]deal.Load, len(buses))
	defer func() {
		for i, f := range free {
			if f != nil && (err != nil || i != card) {
				_ = f.Close()
			}
		}
	}()
	for i, bus := range buses {
		cards[i].Speed = speeds[i]
		for _, seat := range seats {
			f, err := os.Open(filepath.Join(root, strings.ToLower(bus), seat))
			if err != nil {
				return 0, nil, err
			}
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
				cards[i].Parts++
				_ = f.Close()
				continue
			}
			if free[i] != nil {
				_ = f.Close()
				continue
			}
			free[i] = f
		}
	}
	card = deal.Next(cards)
	mine := free[card]
	if mine == nil { // more than there are seats: not counted
		return card, func() {}, nil
	}
	return card, func() { _ = mine.Close() }, nil
}
