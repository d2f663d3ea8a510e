package psmsg

import (
	"fmt"
	"strings"

	"psrt/sched/clock"
)

// Standing is how far a worker has come at a lane: what a process must know that
// goes on for one that died.
type Standing struct {
	// Last is the sequence of its newest push that counts.
	Last uint64 `json:"last"`
	// At is the step that it is in; clock.None where it has left.
	At uint64 `json:"at"`
	// Parts says, by number less one, how many of its dense pushes were of that part; see
	// Request. It may be short.
	Parts []uint64 `json:"parts,omitempty"`
	// Applied is the oldest step that the rows do not have, where steps are added up
	// when all workers have finished them; else 0.
	Applied uint64 `json:"applied,omitempty"`
	// Retained says that the step before Applied can still be pulled as it was.
	Retained bool `json:"retained,omitempty"`
}

// Gives says whether a pull of a step, of one who goes on in it for the worker, is answered
// with what the worker before was given: nothing of it is added up, or that can be undone.
func (s Standing) Gives(step uint64) bool {
	return s.At == clock.None || s.Applied <= step || s.Retained && s.Applied == step+1
}

// MethodGoOn ends what began when a session took a worker over (GoOnRequest).
const MethodGoOn = "go-on"

// GoOnRequest is the step at which it goes on: the oldest that some lane lacks.
type GoOnRequest struct {
	From uint64 `json:"from"`
}

// takenOver is in the words with which a server refuses a process whose number
// another has taken over: only text comes back from a refusal.
const takenOver = "its number was taken over by another process"

// TakenOverError is why a process must end that was believed dead.
type TakenOverError struct{ Worker int }

func (e *TakenOverError) Error() string {
	return fmt.Sprintf("worker %d: %s: this one ends; what it had pushed counts once", e.Worker, takenOver)
}

// IsTakenOver finds those words in err, which may come from a peer.
func IsTakenOver(err error) bool { return err != nil && strings.Contains(err.Error(), takenOver) }

// generationShift: a client's number begins with the generation of its process, so
// that it rises from one process of a worker to the next.
const generationShift = 48

// ClientOf makes a client's number of a random one. Generation 0 does not say.
func ClientOf(generation int, random uint64) uint64 {
	if generation == 0 {
		return random
	}
	return uint64(generation)<<generationShift | random&(1<<generationShift-1)
}

// MaxGeneration bounds how often a worker's number may be taken over.
const MaxGeneration = 1<<(64-generationShift) - 1
