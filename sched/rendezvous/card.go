package rendezvous

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// TokenBytes is the length of a token made here.
const TokenBytes = 32

// NewToken makes a job's secret.
func NewToken() []byte {
	token := make([]byte, TokenBytes)
	rand.Read(token)
	return token
}

const cardVersion = 1

// Card is what a rank shows of itself.
type Card struct {
	Version int    `json:"version"`
	Rank    int    `json:"rank"`
	World   int    `json:"world"`
	Host    string `json:"host"` // its name, for people
	PID     int    `json:"pid"`
	// Place is equal for two ranks exactly when they share a kernel and a network
	// namespace.
	Place      string      `json:"place"`
	Candidates []Candidate `json:"candidates,omitempty"`
	// Port is of the rank's probe.
	Port int `json:"port,omitempty"`
	// Datagrams is the UDP port of its echo, 0: its job sends no datagrams.
	Datagrams int `json:"datagrams,omitempty"`
	// Failed: the rank cannot take part, and why.
	Failed string `json:"failed,omitempty"`
	// Of rank 0: the job's secret, where the others have none, and the port of the
	// coordinator.
	Token       []byte `json:"token,omitempty"`
	Coordinator int    `json:"coordinator,omitempty"`
}

// newCard says who and where this process is.
func newCard(rank, world int) (Card, error) {
	host, err := os.Hostname()
	if err != nil {
		return Card{}, fmt.Errorf("rendezvous: the name of this host: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Card{}, fmt.Errorf("rendezvous: %w", err)
	}
	net, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return Card{}, fmt.Errorf("rendezvous: %w", err)
	}
	return Card{Version: cardVersion, Rank: rank, World: world, Host: host, PID: os.Getpid(), Place: strings.TrimSpace(string(boot)) + " " + net}, nil
}

// readCards checks what the ranks have shown.
func readCards(words [][]byte, world int) ([]Card, error) {
	cards := make([]Card, len(words))
	for r, w := range words {
		c := &cards[r]
		if err := json.Unmarshal(w, c); err != nil || c.Version != cardVersion || c.Rank != r {
			return nil, fmt.Errorf("rendezvous: rank %d shows a card that is not understood (%v, version %d, rank %d): run the same psrt everywhere", r, err, c.Version, c.Rank)
		}
		if c.World != world {
			return nil, &InputError{fmt.Errorf("rendezvous: rank %d is one of %d ranks, this is one of %d: start all with the same number", r, c.World, world)}
		}
		if len(c.Candidates) > maxCandidates || c.Port < 0 || c.Port > 65535 || c.Coordinator < 0 || c.Coordinator > 65535 {
			return nil, fmt.Errorf("rendezvous: rank %d shows %d addresses and the ports %d and %d", r, len(c.Candidates), c.Port, c.Coordinator)
		}
	}
	return cards, nil
}
