package train

import (
	"fmt"

	"psrt/sched/client"
	"psrt/sched/place"
)

// GroupsEach is how many groups a lane of a server has where nobody says.
const GroupsEach = 4

// Where workers of a job with replicas pull from.
const (
	ReadHead = "head" // the chain's head, to which they push
	ReadAny  = "any"  // some member of the chain, each worker another one
)

// read is that for a worker's client.
func (j *Job) read() client.Read {
	if j.Read == ReadAny {
		return client.ReadAny
	}
	return client.ReadHead
}

// Chained says that the rows are in groups with chains of servers, which may lose
// members and get others while training goes on: with replicas, or because --groups
// asks for it. Else each lane has its slots, for as long as the job runs.
func (j *Job) Chained() bool { return j.Groups > 0 }

// queuePairsEach is how many queue pairs of workers a server has at most where nobody
// says how many groups: as long as heads are spread, and with --read any twice as many.
const queuePairsEach = 2048

// SettleChains fills in the groups of a job with replicas: one for each server at least.
func (j *Job) SettleChains() {
	if j.Replicas > 1 && j.Groups == 0 {
		few := max(j.Servers, queuePairsEach*j.Servers/max(1, j.Workers))
		j.Groups = min(GroupsEach*j.Servers*j.Lanes, few, place.DefaultSlots)
	}
}

func (j *Job) validateChains() error {
	switch {
	case j.Replicas < 0 || j.Replicas > place.MaxReplicas:
		return fmt.Errorf("train: --replicas %d, want 1 to %d", j.Replicas, place.MaxReplicas)
	case j.Groups < 0 || j.Groups > place.DefaultSlots:
		return fmt.Errorf("train: --groups %d, want 1 to %d", j.Groups, place.DefaultSlots)
	case j.Replicas > j.Servers:
		return fmt.Errorf("train: --replicas %d want as many servers, the job has %d: give --servers %d, or --replicas %d", j.Replicas, j.Servers, j.Replicas, j.Servers)
	case j.Read != "" && j.Read != ReadHead && j.Read != ReadAny:
		return fmt.Errorf("train: --read %q, want %q or %q", j.Read, ReadHead, ReadAny)
	case j.Read == ReadAny && j.Replicas < 2:
		return fmt.Errorf("train: --read %s has no effect without --replicas 2 or more: there is one replica of each row", ReadAny)
	case j.Replicas > 1 && j.Groups == 0:
		return fmt.Errorf("train: %d replicas without groups: please report this", j.Replicas)
	}
	return nil
}

// chains is what the first map of the job's servers is made from.
func (j *Job) chains() place.ChainsConfig {
	return place.ChainsConfig{Slots: place.DefaultSlots, Groups: j.Groups, Replicas: max(1, j.Replicas), AllowSameHost: j.AllowSameHost}
}
