package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// Member is one that the members know of.
type Member struct {
	ID      uint64
	Name    string // "": it was added and has not started yet
	Addr    string // where it listens for the others, "host:port"
	Learner bool   // it is given what there is, and has no vote
}

// Leads says whether this member is the one that the others follow.
func (e *Embedded) Leads() bool { return e.e.Server.Leader() == e.e.Server.MemberID() }

// Votes says whether it counts for a majority: one that joins begins without, and may
// not know of itself as yet, or any more.
func (e *Embedded) Votes() bool {
	self := e.e.Server.Cluster().Member(e.e.Server.MemberID()) // IsLearner panics where there is none
	return self != nil && !self.IsLearner
}

// Ended is closed when this member is none any more: the others have removed it.
func (e *Embedded) Ended() <-chan struct{} { return e.e.Server.StopNotify() }

// Members are those of now, as most of them agree.
func (e *Embedded) Members(ctx context.Context) (all []Member, err error) {
	c := v3client.New(e.e.Server)
	defer c.Close()
	r, err := c.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd: listing the members: %w", err)
	}
	for _, m := range r.Members {
		one := Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner}
		if len(m.PeerURLs) > 0 {
			_, _ = fmt.Sscanf(m.PeerURLs[0], "https://%s", &one.Addr)
		}
		all = append(all, one)
	}
	return all, nil
}

// Add makes room for a member that will listen at addr. It has no vote until Promote.
func (e *Embedded) Add(ctx context.Context, addr string) error {
	c := v3client.New(e.e.Server)
	defer c.Close()
	if _, err := c.MemberAddAsLearner(ctx, []string{"https://" + addr}); err != nil {
		return fmt.Errorf("etcd: adding a member at %s: %w", addr, err)
	}
	return nil
}

// Promote gives a member its vote; an error while it lacks too much of what there is.
func (e *Embedded) Promote(ctx context.Context, id uint64) error {
	c := v3client.New(e.e.Server)
	defer c.Close()
	if _, err := c.MemberPromote(ctx, id); err != nil {
		return fmt.Errorf("etcd: giving member %x its vote: %w", id, err)
	}
	return nil
}

// Remove has the others go on without a member. Where too few of them would be left to
// agree on anything, it is refused.
func (e *Embedded) Remove(ctx context.Context, id uint64) error {
	c := v3client.New(e.e.Server)
	defer c.Close()
	if _, err := c.MemberRemove(ctx, id); err != nil {
		return fmt.Errorf("etcd: removing member %x: %w", id, err)
	}
	return nil
}

// Resign is Remove of this member itself.
func (e *Embedded) Resign(ctx context.Context) error {
	return e.Remove(ctx, uint64(e.e.Server.MemberID()))
}
