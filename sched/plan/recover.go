package plan

import (
	"psrt/sched/chain"
	"psrt/sched/member"
)

// Recovery is T_recover by its parts: how long a server that was killed is missed.
type Recovery struct {
	// DetectSeconds is until rows begin to move. Of a process that dies the connections end
	// at once, and who is next serves when the leases of the dead have ended; the new one
	// starts meanwhile.
	DetectSeconds float64 `json:"detect_s"`
	// SilentSeconds come on top where nothing refuses connections: a host that is gone.
	SilentSeconds float64 `json:"silent_s"`
	LinkShare     float64 `json:"link_share"` // that pushes and pulls leave to the rows; 0: no link
	RefillSeconds float64 `json:"refill_s"`   // the slowest of link, SSDs and lanes
}

// Seconds is of a process that dies.
func (r Recovery) Seconds() float64 { return r.DetectSeconds + r.RefillSeconds }

// Recover predicts T_recover while others keep the servers' links busy for a share of the
// time. A copy takes what they leave of its link, and no less than chain.CopyShare of it.
// A server without replicas is started again by its user, and nobody pulls until its rows
// are loaded: nothing is detected or shared.
func (c *Cluster) Recover(busy func(*Host) float64) (r Recovery) {
	rows := c.serverRows()
	bytes := rows * c.Model.copyBytes()
	copied := c.Job.Replicas > 1
	if copied {
		t := member.Times{}.OrDefault()
		// It was answered last, and has answered last, half a beat ago on average.
		detect := t.Fence() - t.Beat/2
		r.DetectSeconds, r.SilentSeconds = detect.Seconds(), max(0, t.Silent+t.Beat/2-detect).Seconds()
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if h.Servers == 0 {
			continue
		}
		took := rows * c.Costs.ServerRow * 1e-9 / float64(h.Lanes)
		if c.Job.Transport != "shm" && h.Network > 0 {
			share := 1.
			if copied {
				share = max(1-busy(h), 1./chain.CopyShare)
			}
			if r.LinkShare == 0 || share < r.LinkShare {
				r.LinkShare = share
			}
			took = max(took, bytes/(float64(h.Network)*share))
		}
		if h.SSD.Devices > 0 && c.Job.MemoryHit != nil {
			took = max(took, ratio(bytes, float64(h.SSD.ReadRate)*float64(h.SSD.Devices)))
		}
		r.RefillSeconds = max(r.RefillSeconds, took)
	}
	return r
}

// serverRows is how many each server has, replicas included.
func (c *Cluster) serverRows() float64 {
	_, servers := c.count()
	return float64(c.Model.Rows) * float64(c.Job.Replicas) / servers
}
