package heter

import (
	"fmt"

	"psrt/rdma"
)

// Shape is what a link carries. Both ends know it, and tell each other.
type Shape struct {
	First  int `json:"first"` // leaves of the batch: First to Last-1
	Last   int `json:"last"`
	Slots  int `json:"slots"`  // steps that may be under way
	Floats int `json:"floats"` // of a leaf's message at most
}

const (
	maxSlots  = 64
	maxFloats = 1 << 29
	// leastMessage is what any transport moves in one request.
	leastMessage = 1 << 20
)

func (s Shape) check() error {
	if s.First < 0 || s.Last <= s.First || s.Slots < 1 || s.Slots > maxSlots || s.Floats < 1 || s.Floats > maxFloats {
		return fmt.Errorf("heter: a link of leaves %d to %d, %d slots and %d floats; want leaves, 1 to %d slots and 1 to %d floats", s.First, s.Last, s.Slots, s.Floats, maxSlots, maxFloats)
	}
	return nil
}

// Leaves is how many there are.
func (s Shape) Leaves() int { return s.Last - s.First }

func (s Shape) places() int { return s.Slots * s.Leaves() }

// placeBytes is a place's memory in one direction.
func (s Shape) placeBytes() int { return (headBytes + 4*s.Floats + 63) &^ 63 }

// sendDepth: the requests that a message is cut into, for all places.
func (s Shape) sendDepth() int { return s.places() * ((s.placeBytes()-1)/leastMessage + 1) }

// Depth is the room that a link takes in its hub's queues.
func (s Shape) Depth() int { return s.sendDepth() + s.places() }

// fits checks a domain.
func (s Shape) fits(caps rdma.Caps) error {
	switch most := max(s.sendDepth(), s.places()); {
	case caps.MaxDepth > 0 && most > caps.MaxDepth:
		return fmt.Errorf("heter: %d leaves of %d floats and %d steps under way take %d requests, %s has %d: use more ranks of either kind, or a smaller batch", s.Leaves(), s.Floats, s.Slots, most, caps.Transport, caps.MaxDepth)
	case caps.MaxMessage < leastMessage:
		return fmt.Errorf("heter: %s carries %d bytes at a time, want %d at least", caps.Transport, caps.MaxMessage, leastMessage)
	}
	return nil
}
