package train

import (
	"context"
	"fmt"
)

// Whether the workers of a host pull and push as one; see carried.
const (
	CombineOff  = "off"
	CombineHost = "host"
	CombineAuto = "auto" // as host where nothing else of the job forbids it, and the model is the same
)

// Combines says whether hosts do.
func (j *Job) Combines() bool {
	return j.Predict == nil && j.Workers > 1 && (j.Combine == CombineHost || j.Combine == CombineAuto && j.apart() == nil && !j.roundsSums())
}

// roundsSums says whether the model of a job in BSP depends on who is carried: what is
// rounded is what is pushed, a worker's gradients or a host's sum.
func (j *Job) roundsSums() bool { return j.bsp() && j.Compress.On() }

// apart says why each worker of the job has to ask servers itself.
func (j *Job) apart() error {
	with, why := "", ""
	switch {
	case j.Heter > 0:
		with, why = "--heter", "dense ranks push what belongs to their own leaves"
	case j.Dense == DenseMixed:
		with, why = "--dense "+j.Dense, "a host's workers would push some blocks as one and some each for itself"
	case j.dynamic():
		with, why = "--sharding "+ShardDynamic, "workers would make other numbers of steps"
	case j.OnWorkerLoss == LossContinue:
		with, why = "--on-worker-loss "+j.OnWorkerLoss, fmt.Sprintf("nobody goes on in its own process for one whose memory its host shares; say --on-worker-loss %s", LossRestart)
	case j.Compress.Keeps():
		with, why = j.Compress.Flag(), "what a worker keeps is pushed in steps of its own"
	case j.Lifecycle != nil:
		with, why = "--accessor", "the ends of days are agreed on by workers at the servers"
	case j.Hot.Rows > 0:
		with, why = "--hot-rows", "the workers of a host do not keep rows together"
	case j.Audit != nil:
		with, why = "--audit", "a record has what each worker asked and was told"
	default:
		return nil
	}
	return fmt.Errorf("train: --combine %s with %s: %s; leave one of them out", CombineHost, with, why)
}

func (j *Job) validateCombine() error {
	switch j.Combine {
	case "", CombineOff, CombineAuto:
		return nil
	case CombineHost:
		if j.Workers < 2 {
			return fmt.Errorf("train: --combine %s has no effect on one worker: use --workers 2 or more, or leave it out", j.Combine)
		}
		return j.apart()
	}
	return fmt.Errorf("train: combine %q, must be %s, %s or %s", j.Combine, CombineHost, CombineAuto, CombineOff)
}

// Combined is what hosts did for their workers.
type Combined struct {
	// Hosts are the workers that pulled and pushed together, the first of each for all;
	// those that are alone, too.
	Hosts [][]int `json:"hosts"`
	// RowsAsked are those in workers' pulls, RowsPulled what servers were asked for;
	// RowsGiven and RowsPushed are those that workers pushed, and that servers were sent.
	// All are of the hosts with several workers.
	RowsAsked  uint64 `json:"rows_asked"`
	RowsPulled uint64 `json:"rows_pulled"`
	RowsGiven  uint64 `json:"rows_given"`
	RowsPushed uint64 `json:"rows_pushed"`
	// QueuePairs is by server how many endpoints its lanes have to workers.
	QueuePairs []int `json:"queue_pairs"`
}

// combinedUse brings together what carriers tell.
func (w *worker) combinedUse(res *Result, all []workerUsage) *Combined {
	if !w.job.Combines() {
		return nil
	}
	c := &Combined{}
	for i, u := range all {
		switch g := u.Carried; {
		case g == nil:
			c.Hosts = append(c.Hosts, []int{i})
		case len(g.Workers) > 0: // it carries them
			c.Hosts = append(c.Hosts, g.Workers)
			c.RowsAsked += g.Use.RowsAsked
			c.RowsPulled += g.Use.RowsPulled
			c.RowsGiven += g.Use.RowsGiven
			c.RowsPushed += g.Use.RowsPushed
		}
	}
	for _, s := range res.ServerUse {
		n := 0
		for _, l := range s.Lanes {
			n += l.QueuePairs
		}
		c.QueuePairs = append(c.QueuePairs, n)
	}
	return c
}

func carrierKey(worker int) string { return fmt.Sprintf("carrier/%d", worker) }

// hostsName is the gathering at which workers say where they are.
const hostsName = "hosts"

// whereabouts is what a worker says there.
type whereabouts struct {
	Machine string `json:"machine"` // "": it cannot share memory
	Label   string `json:"label"`
}

// hostOf is the name of a worker's host among all.
func (a whereabouts) hostOf(worker int) string {
	if a.Machine == "" {
		return fmt.Sprintf("worker %d", worker)
	}
	return a.Machine + "\n" + a.Label
}

// gatherHosts has every worker learn where all are.
func (w *worker) gatherHosts(ctx context.Context, machine string) ([]string, error) {
	all, err := gather(ctx, w, hostsName, whereabouts{Machine: machine, Label: w.rank.Label})
	hosts := make([]string, len(all))
	for i, a := range all {
		hosts[i] = a.hostOf(i)
	}
	return hosts, err
}
