package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"psrt/rdma/secure"
	"psrt/sched/metrics"
	"psrt/sched/rendezvous"
)

// placed is what a rank shows of itself to the others.
type placed struct {
	Host string `json:"host"`
	Addr string `json:"addr"` // "" where it has none for others
}

// Together examines the machines of all ranks that a launcher has started, and the
// ways between them: each looks at itself and at all others. Rank 0 gets what all
// have found, the others nothing. ctx must have a deadline.
func Together(ctx context.Context, ex rendezvous.Exchange, rank int, cfg Config) (all []Finding, err error) {
	token, err := sharedToken(ctx, ex, rank)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	l, err := secure.Listen("tcp", ":0", token)
	if err != nil {
		return nil, err
	}
	e := metrics.On(l) // a process that is not stopped answers
	e.Serve(metrics.NewRank().Gatherer())
	defer e.Close()
	me := placed{Host: host}
	if list, err := rendezvous.Candidates(cfg.Interface); err == nil && len(list) > 0 {
		me.Addr = net.JoinHostPort(list[0].Prefix.Addr().String(), strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	ranks, err := each[placed](ctx, ex, "doctors", me)
	if err != nil {
		return nil, err
	}
	for r, p := range ranks {
		if r != rank && p.Addr != "" {
			cfg.Peers = append(cfg.Peers, Peer{Place: metrics.Place{Name: fmt.Sprintf("rank %d on %s", r, p.Host), Addr: p.Addr, Token: token}})
		}
	}
	found, err := each[[]Finding](ctx, ex, "found", bounded(Examine(ctx, cfg)))
	if err != nil || rank != 0 {
		return nil, err
	}
	for r, list := range found {
		for _, f := range list {
			from := fmt.Sprintf("rank %d on %s", r, ranks[r].Host)
			if f.theirs = f.Peer == ""; !f.theirs {
				from += " to " + f.Peer
			}
			f.Peer = from
			all = append(all, f)
		}
	}
	return all, nil
}

// bounded keeps a rank's findings short enough for an exchange: what is well between
// two ranks is counted, not told.
func bounded(all []Finding) []Finding {
	well := 0
	all = slices.DeleteFunc(all, func(f Finding) bool {
		ok := f.Peer != "" && f.State == OK
		if ok {
			well++
		}
		return ok
	})
	size := 0
	for i := range all {
		b, err := json.Marshal(all[i])
		if size += len(b) + 1; err != nil || size > rendezvous.MaxWord*3/4 {
			all = append(all[:i], Finding{Name: "more", State: Warn, Figure: fmt.Sprintf("%d findings are not told: too many", len(all)-i), Mend: "psrt doctor on that host"})
			break
		}
	}
	return append(all, Finding{Name: "peers", State: OK, Figure: fmt.Sprintf("%d looks at others found nothing wrong", well)})
}

func sharedToken(ctx context.Context, ex rendezvous.Exchange, rank int) ([]byte, error) {
	mine := []byte{}
	if rank == 0 {
		mine = rendezvous.NewToken()
	}
	all, err := each[[]byte](ctx, ex, "doctors-token", mine)
	if err != nil {
		return nil, err
	}
	if len(all[0]) != rendezvous.TokenBytes {
		return nil, errors.New("doctor: rank 0 gives no token: run the same psrt everywhere")
	}
	return all[0], nil
}

// each gives everybody what all have said.
func each[T any](ctx context.Context, ex rendezvous.Exchange, name string, mine T) ([]T, error) {
	word, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	words, err := ex.Round(ctx, name, word)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(words))
	for r, w := range words {
		if err := json.Unmarshal(w, &all[r]); err != nil {
			return nil, fmt.Errorf("doctor: rank %d is not understood: %w; run the same psrt everywhere", r, err)
		}
	}
	return all, nil
}
