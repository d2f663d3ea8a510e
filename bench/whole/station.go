package whole

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/bench/rival"
	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/compress"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
	"psrt/sched/job"
	"psrt/sched/train"
)

// stationSays is a step for people, or the last word.
type stationSays struct {
	Err   string
	Step  string
	Rows  []report.Row
	Notes []string
}

// station is the workers' process.
type station struct {
	cfg    *Config
	data   *data
	token  []byte
	server *child.Child
	stream string // where plain streams are counted
	// What a step moves each way, and takes with local rows; of calibrate.
	stepBytes int64
	stepTime  time.Duration
	say       func(stationSays) error
}

func serveStation(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var cfg Config
	if err := from.Decode(&cfg); err != nil {
		return fmt.Errorf("whole: no set-up on standard input: %w", err)
	}
	st := &station{cfg: &cfg, token: make([]byte, 32), say: func(m stationSays) error { return to.Encode(m) }}
	_, _ = rand.Read(st.token)
	last, err := st.run(ctx)
	if err != nil {
		last = stationSays{Err: err.Error()}
	}
	return to.Encode(last)
}

func (st *station) step(format string, args ...any) error {
	return st.say(stationSays{Step: fmt.Sprintf(format, args...)})
}

func (st *station) run(ctx context.Context) (last stationSays, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if st.cfg.Link == cable.Veth { // of a new namespace, which local rows need before there is a cable
		if err := cable.Batch(ctx, "ip", "link set lo up"); err != nil {
			return last, err
		}
	}
	if err := st.step("making %d rows", st.cfg.Steps*st.cfg.Batch); err != nil {
		return last, err
	}
	if st.data, err = makeData(ctx, st.cfg); err != nil {
		return last, err
	}
	m := newMeasured(st.cfg)
	if err := st.calibrate(ctx, m); err != nil {
		return last, err
	}
	if err := st.connect(ctx); err != nil {
		return last, err
	}
	defer st.server.Close(cancel)
	if err := st.agree(ctx, m); err != nil {
		return last, err
	}
	sides := st.sides()
	for round := range st.cfg.Rounds {
		if err := st.step("round %d of %d", round+1, st.cfg.Rounds); err != nil {
			return last, err
		}
		link, err := cable.Stream(st.stream, linkTime)
		if err != nil {
			return last, err
		}
		m.links = append(m.links, link)
		for turn := range sides {
			k := (round + turn) % len(sides)
			out, err := sides[k].train(ctx)
			if err == nil {
				err = m.add(k, out)
			}
			if err != nil {
				return last, fmt.Errorf("%s: %w", sides[k].name, err)
			}
		}
	}
	return stationSays{Rows: m.rows(), Notes: m.notes(st.data)}, nil
}

// side is one of those that take turns.
type side struct {
	name  string
	train func(context.Context) (outcome, error)
}

// Sides, by number; the trainer with each of Config.Compress behind them.
const (
	ours = iota
	classicSide
	localSide
	bareSide
	survivingSide
	besideSide
	sidesAll
)

// names are of all sides.
func (c *Config) names() []string {
	all := []string{"psrt over the link", "rival over the link", "psrt, rows on this host", "arithmetic alone", "psrt over the link, a worker's death survived", "rows on this host, beside the link's bytes"}
	for _, how := range c.Compress {
		name := all[ours] + ", " + how.String()
		switch {
		case how.MergeAuto:
			name += ", merged by itself"
		case how.Merge > 1:
			name += fmt.Sprintf(", %d steps merged", how.Merge)
		}
		all = append(all, name)
	}
	if c.Crew > 0 {
		all = append(all, fmt.Sprintf("%d workers over the link, bsp", c.Crew), fmt.Sprintf("%d workers as one host, bsp", c.Crew))
	}
	return all
}

// crew is the side of several workers, each for itself; as one host they are the next.
func (c *Config) crew() int { return int(sidesAll) + len(c.Compress) }

func (st *station) sides() (all []side) {
	trains := []func(context.Context) (outcome, error){
		func(ctx context.Context) (outcome, error) { return st.over(ctx, train.ASP, compress.Choice{}) },
		st.rival,
		func(ctx context.Context) (outcome, error) { return st.local(ctx, train.ASP) },
		st.bare,
		func(ctx context.Context) (outcome, error) { return st.job(ctx, st.data.surviving()) },
		st.beside,
	}
	for _, how := range st.cfg.Compress {
		trains = append(trains, func(ctx context.Context) (outcome, error) { return st.over(ctx, train.ASP, how) })
	}
	if st.cfg.Crew > 0 {
		for _, combine := range []string{train.CombineOff, train.CombineHost} {
			trains = append(trains, func(ctx context.Context) (outcome, error) { return st.job(ctx, st.data.crew(combine)) })
		}
	}
	for i, name := range st.cfg.names() {
		all = append(all, side{name, trains[i]})
	}
	return all
}

// calibrate trains with local rows, to count what a step moves and to choose the link's rate.
func (st *station) calibrate(ctx context.Context, m *measured) error {
	if err := st.step("training once with local rows"); err != nil {
		return err
	}
	counted, err := st.bare(ctx)
	if err != nil {
		return err
	}
	layout := st.data.model.Layout()
	m.bytes = 4 * (float64(counted.rows)/float64(st.cfg.Steps)*float64(st.data.model.RowDim()) + float64(layout.Total))
	out, err := st.local(ctx, train.ASP)
	if err != nil {
		return err
	}
	st.stepBytes, st.stepTime = int64(m.bytes), max(time.Microsecond, time.Duration(out.seconds/float64(st.cfg.Steps)*1e9))
	if st.cfg.Link == cable.Veth && st.cfg.RateBits == 0 {
		st.cfg.RateBits = int64(8 * m.bytes * float64(st.cfg.Steps) / (out.seconds * st.cfg.LinkShare))
		if st.cfg.RateBits < minRateBits || st.cfg.RateBits > maxRateBits {
			return fmt.Errorf("whole: a link that takes %g of a step has %d bit/s, want %d to %d: a larger --link-share for more, a smaller one for less",
				st.cfg.LinkShare, st.cfg.RateBits, minRateBits, int64(maxRateBits))
		}
	}
	return nil
}

// connect starts the server's process at the other end of a cable.
func (st *station) connect(ctx context.Context) (err error) {
	if st.server, err = cable.Start(ctx, st.cfg.Part, cable.Server, cable.Inside(st.cfg.Link)); err != nil {
		return err
	}
	if st.cfg.Link == cable.Veth {
		const port = "port"
		if err := errors.Join(cable.Lay(ctx, port, stationAddress, st.server.PID()), cable.RateHost(ctx, port, st.cfg.RateBits, st.cfg.QueueBytes)); err != nil {
			return err
		}
	}
	says, err := st.ask(serverOrder{Config: st.cfg, Model: st.data.spec, Token: st.token})
	st.stream = says.Stream
	return err
}

func (st *station) ask(o serverOrder) (says serverSays, err error) {
	if err := errors.Join(st.server.Tell(o), st.server.Hear(&says)); err != nil {
		return says, err
	}
	return says, errorOf(says.Err)
}

// over is the trainer over the link: one rank here, one there.
func (st *station) over(ctx context.Context, sync string, how compress.Choice) (out outcome, err error) {
	return st.job(ctx, st.data.job(sync, how))
}

// job runs one: its server there, its workers here.
func (st *station) job(ctx context.Context, j *train.Job) (out outcome, err error) {
	store := local.New()
	defer store.Close()
	l, err := secure.Listen("tcp", net.JoinHostPort(st.cfg.host(stationAddress), "0"), st.token)
	if err != nil {
		return out, err
	}
	meet := remote.Serve(l, store)
	defer meet.Close()
	if err := job.Publish(ctx, store, j); err != nil {
		return out, err
	}
	world := 1 + j.Workers
	if err := st.server.Tell(serverOrder{Store: l.Addr().String(), World: world}); err != nil {
		return out, err
	}
	results, errs := make([]*train.Result, j.Workers), make([]error, j.Workers)
	var running sync.WaitGroup
	for i := range j.Workers {
		running.Go(func() {
			results[i], errs[i] = job.RunRank(ctx, job.RankConfig{Rank: 1 + i, World: world, Coord: store, Token: st.token, Transport: "tcp", Cover: dial.CoverNone, Node: -1})
		})
	}
	running.Wait()
	res, err := results[0], errors.Join(errs...)
	var says serverSays
	if heard := st.server.Hear(&says); heard != nil || says.Err != "" {
		err = errors.Join(err, heard, errorOf(says.Err))
	}
	if err != nil {
		return out, err
	}
	return outcomeOf(res)
}

func errorOf(said string) error {
	if said == "" {
		return nil
	}
	return fmt.Errorf("server: %s", said)
}

// local is the trainer with its server beside it.
func (st *station) local(ctx context.Context, sync string) (out outcome, err error) {
	res, err := job.RunInProcess(ctx, st.data.job(sync, compress.Choice{}), "shm", nil)
	if err != nil {
		return out, err
	}
	return outcomeOf(res)
}

func outcomeOf(res *train.Result) (outcome, error) {
	if res.LogLoss == nil || !(res.TrainSeconds > 0) {
		return outcome{}, fmt.Errorf("whole: a training of %d examples took %g s and has no loss", res.Examples, res.TrainSeconds)
	}
	out := outcome{seconds: res.TrainSeconds, loss: *res.LogLoss, digest: res.Digest, packed: res.Compress,
		waits: waits{values: res.Pipeline.WaitValues, pushes: res.Pipeline.WaitPush}}
	for _, s := range res.Pipeline.Stages {
		if s.Name == "compute" {
			out.waits.compute = s.Busy
		}
	}
	for _, s := range res.ServerUse {
		for _, f := range s.Flows {
			out.moved += f.InBytes + f.OutBytes
		}
	}
	return out, nil
}

// rival is the classic worker over the link.
func (st *station) rival(ctx context.Context) (out outcome, err error) {
	says, err := st.ask(serverOrder{Rival: true})
	if err != nil {
		return out, err
	}
	conn, err := net.DialTimeout("tcp", says.Addr, patience)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	c, err := newClassic(st.data, rival.NewClient(conn))
	if err != nil {
		return out, err
	}
	return c.train(ctx)
}

// bare is the arithmetic alone.
func (st *station) bare(ctx context.Context) (outcome, error) {
	c, err := newClassic(st.data, nil)
	if err != nil {
		return outcome{}, err
	}
	return c.train(ctx)
}
