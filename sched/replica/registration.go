package replica

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"psrt/sched/place"
)

// Prefix begins all keys of this package, so that one watch sees them.
const Prefix = "replica/"

// KeyMap holds the job's shard map: place.Chains in JSON, whose epoch is the key's
// revision (place.Decode).
const KeyMap = Prefix + "map"

const (
	serverPrefix  = Prefix + "server/"
	leavingPrefix = Prefix + "leaving/"
)

// ServerKey is where a server registers, under a lease.
func ServerKey(id int) string { return serverPrefix + strconv.Itoa(id) }

// LeavingKey asks a server to go: its groups move to others, and then it ends. The
// value is the process's Gen, or empty for whoever has the number. The server
// deletes the key when it has gone.
func LeavingKey(id int) string { return leavingPrefix + strconv.Itoa(id) }

// Registration is what a server says of itself.
type Registration struct {
	place.Server
	PID int `json:"pid,omitempty"`
}

func (r Registration) node() place.Node { return place.Node{Server: r.ID, Gen: r.Gen} }

// DecodeRegistration reads the value under a ServerKey.
func DecodeRegistration(key string, value []byte) (Registration, error) {
	var r Registration
	if err := json.Unmarshal(value, &r); err != nil {
		return r, fmt.Errorf("replica: %s: %w", key, err)
	}
	if ServerKey(r.ID) != key || r.ID < 0 {
		return r, fmt.Errorf("replica: %s is of server %d", key, r.ID)
	}
	// One that no map may have would keep all others from moving.
	if _, err := place.New(0, 1, []place.Server{r.Server}); err != nil {
		return r, fmt.Errorf("replica: %s: %w", key, err)
	}
	return r, nil
}

// numbered is the number that ends a key.
func numbered(key, prefix string) (id int, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.Atoi(rest)
	return id, err == nil && id >= 0 && strconv.Itoa(id) == rest
}
