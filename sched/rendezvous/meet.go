package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Config is one rank's part in a meeting.
type Config struct {
	Rank, World int
	// Who names a rank for people: "server 0".
	Who func(rank int) string
	// Token is the job's secret where all have it already, or rank 0's own.
	Token []byte
	// Coordinator is the port of rank 0's coordinator; rank 0's only.
	Coordinator int
	// Interface limits the addresses that are offered: a name or a network.
	Interface string
	// Listen is "host:port" where the rank was told to listen; its host is then the
	// only address that is offered.
	Listen string
	// Datagrams: the job's data go over UDP, so that pairs are tried by it, too.
	Datagrams bool
	// Failed, of rank 0: why there will be no job.
	Failed error
}

// Met is what comes of a meeting.
type Met struct {
	Token []byte
	Cards []Card
	// OneHost: all ranks share a host; addresses are loopback ones.
	OneHost bool
	// Addr is this rank's address that all others reach, Interface has it.
	Addr      netip.Addr
	Interface string
	// Coordinator is rank 0's address that all reach, with the coordinator's port;
	// "" where rank 0 gave none.
	Coordinator string
	// Took is how long the preflight took.
	Took time.Duration
}

// FailedError: a rank cannot take part.
type FailedError struct {
	Rank   int
	Who    string
	Reason string
}

func (e *FailedError) Error() string { return fmt.Sprintf("rank %d (%s): %s", e.Rank, e.Who, e.Reason) }

// Meet brings this rank together with all others through the exchange. ctx must
// have a deadline.
func Meet(ctx context.Context, ex Exchange, cfg Config) (*Met, error) {
	card, err := newCard(cfg.Rank, cfg.World)
	if err != nil {
		return nil, err
	}
	token := cfg.Token
	if card.Candidates, err = offered(cfg); err != nil {
		cfg.Failed = errors.Join(cfg.Failed, err)
	}
	// The probe wants the token, and the others' comes with rank 0's card: it
	// begins in a round of its own where this rank has none.
	if token, err = shareToken(ctx, ex, cfg, token); err != nil {
		return nil, err
	}
	var p *probe
	if cfg.Failed == nil {
		if p, err = listenProbe(cfg.Rank, cfg.Listen, token); err != nil {
			cfg.Failed = err
		} else {
			defer p.close()
			card.Port = p.port()
		}
	}
	if cfg.Failed == nil && cfg.Datagrams {
		var e *echo
		if e, err = listenEcho(cfg.Rank, cfg.Listen, token); err != nil {
			cfg.Failed = err
		} else {
			defer e.close()
			card.Datagrams = e.port()
		}
	}
	if cfg.Failed != nil {
		card.Failed = cfg.Failed.Error()
	}
	if cfg.Rank == 0 {
		card.Coordinator = cfg.Coordinator
	}
	words, err := round(ctx, ex, "cards", card)
	if err != nil {
		return nil, err
	}
	if cfg.Failed != nil {
		return nil, cfg.Failed
	}
	cards, err := readCards(words, cfg.World)
	if err != nil {
		return nil, err
	}
	for r := range cards {
		if cards[r].Failed != "" {
			return nil, &FailedError{Rank: r, Who: cfg.Who(r), Reason: cards[r].Failed}
		}
	}
	met := &Met{Token: token, Cards: cards, OneHost: oneHost(cards)}
	if met.OneHost {
		met.Addr, met.Interface = netip.AddrFrom4([4]byte{127, 0, 0, 1}), "lo"
		if port := cards[0].Coordinator; port > 0 {
			met.Coordinator = joinPort(met.Addr, port)
		}
	} else if err := met.preflight(ctx, ex, cfg); err != nil {
		return nil, err
	}
	return met, nil
}

// shareToken gives every rank the secret that rank 0 has.
func shareToken(ctx context.Context, ex Exchange, cfg Config, own []byte) ([]byte, error) {
	if _, ok := ex.(*throughExchange); ok {
		return own, nil
	}
	var mine []byte
	if cfg.Rank == 0 {
		mine = own
	}
	words, err := round(ctx, ex, "token", Card{Token: mine})
	if err != nil {
		return nil, err
	}
	var first Card
	if err := json.Unmarshal(words[0], &first); err != nil || len(first.Token) == 0 {
		return nil, fmt.Errorf("rendezvous: rank 0 gives no token (%v): run the same psrt everywhere", err)
	}
	return first.Token, nil
}

func round(ctx context.Context, ex Exchange, name string, v any) ([][]byte, error) {
	word, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return ex.Round(ctx, name, word)
}

// offered are the addresses that this rank shows.
func offered(cfg Config) ([]Candidate, error) {
	if cfg.Listen != "" {
		if a, err := netip.ParseAddrPort(cfg.Listen); err == nil && !a.Addr().IsUnspecified() {
			return []Candidate{{Interface: "--listen", Prefix: netip.PrefixFrom(a.Addr(), a.Addr().BitLen())}}, nil
		}
	}
	return Candidates(cfg.Interface)
}

func oneHost(cards []Card) bool {
	for i := range cards {
		if cards[i].Place != cards[0].Place {
			return false
		}
	}
	return true
}

// preflight connects to all others, tells them how it went, and judges.
func (m *Met) preflight(ctx context.Context, ex Exchange, cfg Config) error {
	began := time.Now()
	mine := make([][]reached, cfg.World)
	slots := make(chan struct{}, maxDials)
	var all sync.WaitGroup
	for k := 1; k < cfg.World; k++ {
		r := (cfg.Rank + k) % cfg.World // everybody begins with another
		all.Go(func() { mine[r] = reachRank(ctx, slots, &m.Cards[r], m.Token) })
	}
	all.Wait()
	words, err := round(ctx, ex, "reached", mine)
	if err != nil {
		return err
	}
	table := make([][][]reached, cfg.World)
	for r, w := range words {
		if err := json.Unmarshal(w, &table[r]); err != nil || len(table[r]) != cfg.World {
			return fmt.Errorf("rendezvous: rank %d says what it reached and is not understood (%v): run the same psrt everywhere", r, err)
		}
	}
	m.Took = time.Since(began)
	chosen, err := judge(m.Cards, table, cfg.Who)
	if err != nil {
		return err
	}
	c := m.Cards[cfg.Rank].Candidates[chosen[cfg.Rank]]
	m.Addr, m.Interface = c.Prefix.Addr(), c.Interface
	if first := &m.Cards[0]; first.Coordinator > 0 {
		m.Coordinator = joinPort(first.Candidates[chosen[0]].Prefix.Addr(), first.Coordinator)
	}
	return nil
}
