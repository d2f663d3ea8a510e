package serve

import (
	"fmt"

	"psrt/rdma/dial"
	"psrt/rdma/openfiles"
)

// Files that a server has open beside those of its lanes or groups; for a lane or a group;
// and for each directory of one's rows on disks.
const (
	baseFiles = 40
	laneFiles = 6
	diskFiles = 24
)

// OpenFiles is about how many files the server may have open without trainers, and how
// many more for each trainer.
func (c *Config) OpenFiles() (own, trainer int) {
	stores := c.Lanes
	trainer = dial.PeerFiles(c.Transport, c.Lanes)
	own = baseFiles + laneFiles*c.Lanes
	if k := c.Replicated; k != nil {
		stores = k.Chains.Most(k.First)
		one := dial.PeerFiles(c.Transport, 1)
		trainer = stores * one
		own = baseFiles + stores*(laneFiles+2*one) // with the servers before it and after it
	}
	if c.Storage != nil {
		own += stores * len(c.Storage.Dirs) * diskFiles
	}
	return own, trainer
}

// checkFiles refuses a limit of open files in which not even one trainer has room, and says
// one that is too small for all.
func (c *Config) checkFiles() error {
	own, trainer := c.OpenFiles()
	open := openfiles.Now()
	all := own + c.Clients*trainer
	switch {
	case open.Limit < own+trainer:
		return &InputError{Path: "open files", Msg: fmt.Sprintf("the limit is %d (ulimit -n), too few for one trainer; raise it to %d for --clients %d (LimitNOFILE= of a systemd unit), or have fewer --threads or --groups", open.Limit, all, c.Clients)}
	case open.Limit < all && c.index() == 0 && (c.Replicated == nil || c.Replicated.Number == 0):
		c.Log(fmt.Sprintf("open files: the limit is %d (ulimit -n), enough for about %d trainers; %d (--clients) may need %d: raise it (LimitNOFILE= of a systemd unit), or lower --clients",
			open.Limit, (open.Limit-own)/trainer, c.Clients, all))
	}
	return nil
}
