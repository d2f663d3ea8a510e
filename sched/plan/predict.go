package plan

import (
	"fmt"
	"math"

	"psrt/sched/tree"
)

// Prediction is what a cluster will do.
type Prediction struct {
	StepSeconds  float64 `json:"step_s"`
	ExamplesPerS float64 `json:"examples_per_s"`
	// Bottleneck is the resource that is busy longest; where a step's way through all
	// of them is longer still (bsp), "the way of a step".
	Bottleneck string     `json:"bottleneck"`
	Resources  []Resource `json:"resources"`
	// WaySeconds is a step's way: pull, compute, push, one after the other.
	WaySeconds float64 `json:"way_s"`
	// Way is what it is made of.
	Way Way `json:"way"`

	DistinctRows float64 `json:"distinct_rows"` // of one worker's part of a batch
	PullBytes    float64 `json:"pull_bytes"`    // of one worker's step
	PushBytes    float64 `json:"push_bytes"`
	NeededRate   float64 `json:"needed_bytes_per_s"` // a worker's, so that its link keeps up with its computing
	QueuePairs   int     `json:"queue_pairs"`        // at one server
	ServerBytes  float64 `json:"server_table_bytes"` // each server's part of the table, replicas included
	// Of a job with dense ranks: activations of one worker's step, and as much comes back;
	// and how many workers keep one dense rank busy that keeps them busy.
	ActivationBytes float64 `json:"activation_bytes,omitempty"`
	WorkersPerDense float64 `json:"workers_per_dense_rank,omitempty"`
	MemoryShort     string  `json:"memory_short,omitempty"`
	AccessSeconds   float64 `json:"access_s"` // of a row, on average, over memory and SSD
	// RecoverSeconds is from a server's death to a whole chain, or to loaded rows; Recovery
	// is what it is made of.
	RecoverSeconds float64  `json:"recover_s"`
	Recovery       Recovery `json:"recovery"`
}

// Resource is one thing of each host of a kind.
type Resource struct {
	Host string  `json:"host"`
	Name string  `json:"resource"`
	Busy float64 `json:"busy_s"` // of a step
	Part float64 `json:"busy"`   // of the step's time
	Have float64 `json:"have"`   // units of it, over all hosts of the kind
	Need float64 `json:"need"`   // that would be busy all the time
	Unit string  `json:"unit"`   // what Have and Need count
}

// Way is the parts of a step's way.
type Way struct {
	Pull, Compute, Push, Latency float64
	// Between is the way of activations and their gradients over the link.
	Between float64 `json:",omitempty"`
	// Reading is what reading the next step takes of the cores that both halves compute on.
	Reading float64 `json:",omitempty"`
}

// Predict needs a cluster that is valid.
func Predict(c *Cluster) Prediction {
	w, s := c.count()
	m, j, k := c.Model, c.Job, c.Costs
	var p Prediction

	// One worker's step.
	examples := float64(j.Batch) / w
	ids := examples * float64(m.Fields)
	rows := m.distinct(examples)
	params, multiplyAdds := m.dense()
	floats := m.RowFloats()
	split := c.denseRanks()
	values := params * 4 // that a worker pulls and pushes
	if split > 0 {
		values = 0
		p.ActivationBytes = examples * m.between() * 4
	}
	between := 2 * p.ActivationBytes / 4 // floats, both ways
	p.DistinctRows = rows
	p.PullBytes = rows*4*floats + values
	p.PushBytes = rows*(8+4*floats) + values
	// Rows of all workers: what is touched at the servers.
	touched := m.distinct(float64(j.Batch))
	miss := 0.0
	if j.MemoryHit != nil {
		miss = touched * (1 - *j.MemoryHit)
	}
	socket := 0.0
	if j.Transport == "tcp" {
		socket = k.SocketByte * 1e-9
	}
	replicas := float64(j.Replicas)

	read := ids * k.ReadID * 1e-9
	compute := (ids*floats*k.ComputeFloat + between*k.BetweenFloat) * 1e-9
	dense := examples * multiplyAdds * k.MultiplyAdd * 1e-9
	carry := (rows*(k.WorkerRow+floats*k.WorkerFloat)+k.WorkerStep)*1e-9 + (p.PullBytes+p.PushBytes+2*p.ActivationBytes)*socket
	// A dense rank's step: its part of the batch's layers, activations, and the parameters.
	layers := 0.0
	if split > 0 {
		layers, dense = dense*w/split, 0
	}
	denseCarry := k.WorkerStep*1e-9 + 2*(ratio(p.ActivationBytes*w, split)+params*4)*socket
	// A server's part of one worker's step; a replica does pushes alone, taken as half.
	// Dense parameters are pulled, pushed and updated as the floats of rows are.
	serve := ((rows*(k.ServerRow+floats*k.ServerFloat)+values/4*k.ServerFloat)/s + k.ServerStep) * 1e-9 * (1 + (replicas-1)/2)
	serve += (p.PullBytes + p.PushBytes*(2*replicas-1)) / s * socket
	if split > 0 { // dense ranks are served, too: the parameters alone
		serve += ((k.ServerStep+params/s*k.ServerFloat)*1e-9*(1+(replicas-1)/2) + params*4/s*2*replicas*socket) * split / w
	}
	disk := miss * k.DiskRow * 1e-9 / s // of a step of all workers

	longest := 0.0
	add := func(h *Host, name, unit string, busy, have float64) {
		if busy > 0 {
			p.Resources = append(p.Resources, Resource{Host: h.Name, Name: name, Busy: busy, Have: have, Unit: unit})
			longest = max(longest, busy)
		}
	}
	gpu := false
	var slow struct{ compute, layers, serve, latency float64 }
	var link struct{ pull, push, on float64 }    // that a step's bytes take to move, and pushes to go on along a chain
	var threads struct{ workers, dense float64 } // seconds that processes of a kind are busy, all together
	for i := range c.Hosts {
		h := &c.Hosts[i]
		n, hw, hs, hd := float64(h.Count), float64(h.Workers), float64(h.Servers), float64(h.DenseRanks)
		work, serving := 0.0, 0.0
		if hw > 0 {
			mine := read + compute + carry
			if h.GPU.Devices > 0 && split == 0 {
				gpu = true
				onCard := hw * examples * multiplyAdds * 6 / (float64(h.GPU.Flops) * float64(h.GPU.Devices))
				add(h, "gpu", "cards", onCard, n*float64(h.GPU.Devices))
				slow.compute = max(slow.compute, onCard+compute/float64(h.Threads))
			} else {
				mine += dense
				slow.compute = max(slow.compute, (compute+dense)/float64(h.Threads))
			}
			add(h, "worker threads", "threads", mine/float64(h.Threads), n*hw*float64(h.Threads))
			add(h, "carrying rows", "workers", carry, n*hw) // one goroutine of each
			work = hw * mine
			threads.workers += n * hw * mine / float64(h.Threads)
		}
		if hd > 0 {
			mine, took := denseCarry, layers/float64(h.Threads)
			if h.GPU.Devices > 0 {
				took = hd * (float64(j.Batch) / split) * multiplyAdds * 6 / (float64(h.GPU.Flops) * float64(h.GPU.Devices))
				add(h, "gpu", "cards", took, n*float64(h.GPU.Devices))
			} else {
				mine += layers
				add(h, "dense threads", "dense threads", mine/float64(h.Threads), n*hd*float64(h.Threads))
			}
			slow.layers = max(slow.layers, took)
			work += hd * mine
			threads.dense += n * hd * max(took, mine/float64(h.Threads))
		}
		if hs > 0 {
			mine := serve*w + disk
			add(h, "server lanes", "lanes", mine/float64(h.Lanes), n*hs*float64(h.Lanes))
			slow.serve = max(slow.serve, mine/float64(h.Lanes))
			serving = hs * mine
			if d := float64(h.SSD.Devices); miss > 0 && d > 0 {
				reads, bytes := miss/s*hs, miss/s*hs*m.rowBytes()
				busy := max(ratio(reads, float64(h.SSD.ReadIOPS)*d), ratio(bytes, float64(h.SSD.ReadRate)*d)) + ratio(bytes, float64(h.SSD.WriteRate)*d)
				add(h, "ssd", "devices", busy, n*d)
			}
		}
		add(h, "cores", "cores", (work+serving)/float64(h.Cores), n*float64(h.Cores))
		if h.Network > 0 && j.Transport != "shm" {
			toDense := ratio(p.ActivationBytes*w, split) // of one dense rank
			out := hw*(p.PushBytes+p.ActivationBytes) + hs*(w*p.PullBytes+(replicas-1)*w*p.PushBytes)/s
			in := hw*(p.PullBytes+p.ActivationBytes) + hs*replicas*w*p.PushBytes/s
			if split > 0 {
				out += hd*(toDense+params*4) + hs*split*params*4*replicas/s
				in += hd*(toDense+params*4) + hs*split*params*4*replicas/s
				p.Way.Between = max(p.Way.Between, 2*max(hw*p.ActivationBytes, hd*toDense)/float64(h.Network))
			}
			busy := max(in, out) / float64(h.Network)
			add(h, "network", "links", busy, n)
			link.pull = max(link.pull, max(hw, hs*w/s)*p.PullBytes/float64(h.Network))
			link.push = max(link.push, max(hw, hs*w/s)*p.PushBytes/float64(h.Network))
			link.on = max(link.on, hs*(replicas-1)*w*p.PushBytes/s/float64(h.Network))
		}
		if want := hw*float64(h.Threads+1) + hd*float64(h.Threads); hw > 0 && hd > 0 {
			p.Way.Reading = max(p.Way.Reading, read*max(0, 1-float64(h.Cores)/want))
		}
		slow.latency = max(slow.latency, float64(h.Latency))
	}

	// The way of a step: nothing of it overlaps but reading, as far as there are cores.
	both := p.PullBytes + p.PushBytes
	p.Way.Compute, p.Way.Latency = slow.compute, (1+replicas)*slow.latency
	if split > 0 {
		// Micro-batch by micro-batch: the slower half, and of the other what stands at an end.
		_, leaves := tree.Leaves(j.Batch)
		p.Way.Compute = max(slow.compute, slow.layers) + min(slow.compute, slow.layers)*max(w, split)/max(float64(leaves), w, split)
		p.Way.Latency += 2 * slow.latency
		p.WorkersPerDense = ratio(threads.workers, threads.dense)
	}
	p.Way.Pull = (slow.serve+carry)*p.PullBytes/both + link.pull
	p.Way.Push = (slow.serve+carry)*p.PushBytes/both + link.push + link.on // each server has a push whole before it goes on
	p.WaySeconds = p.Way.Pull + p.Way.Compute + p.Way.Push + p.Way.Latency + p.Way.Between + p.Way.Reading
	p.StepSeconds = longest
	switch j.Sync {
	case "bsp":
		p.StepSeconds = max(longest, p.WaySeconds)
	case "ssp": // a worker may be Staleness steps ahead of what it has seen
		p.StepSeconds = max(longest, p.WaySeconds/float64(1+j.Staleness))
	default: // a step's pull goes out while the one before is computed and pushed
		p.StepSeconds = max(longest, p.WaySeconds/2)
	}
	p.Bottleneck = "the way of a step"
	for i := range p.Resources {
		r := &p.Resources[i]
		r.Part = r.Busy / p.StepSeconds
		r.Need = r.Have * r.Part
		if r.Busy >= p.StepSeconds {
			p.Bottleneck = fmt.Sprintf("%s of %s", r.Name, r.Host)
		}
	}
	p.ExamplesPerS = float64(j.Batch) / p.StepSeconds
	period := compute + dense // that a worker's computing takes
	if gpu {
		period = slow.compute
	}
	p.NeededRate = ratio(p.PushBytes, period/float64(max(1, c.threads())))
	each := 1 // a worker's at a lane, or group
	if j.Replicas == 1 {
		each = 2 // fetches have their own
	}
	p.QueuePairs = each*c.lanes()*int(w+split) + 2*(j.Replicas-1)
	p.memory(c)
	p.AccessSeconds = c.access(miss / max(touched, 1))
	p.Recovery = c.Recover(p.linkUse)
	p.RecoverSeconds = p.Recovery.Seconds()
	return p
}

// count is how many workers and servers there are.
func (c *Cluster) count() (workers, servers float64) {
	for _, h := range c.Hosts {
		workers += float64(h.Count * h.Workers)
		servers += float64(h.Count * h.Servers)
	}
	return workers, servers
}

// lanes is how many a server has at most.
func (c *Cluster) lanes() int {
	most := 1
	for _, h := range c.Hosts {
		if h.Servers > 0 {
			most = max(most, h.Lanes)
		}
	}
	return most
}

// denseRanks is how many ranks compute the dense layers; 0: workers do.
func (c *Cluster) denseRanks() (n float64) {
	for _, h := range c.Hosts {
		n += float64(h.Count * h.DenseRanks)
	}
	return n
}

// threads is the least that a worker has.
func (c *Cluster) threads() int {
	least := math.MaxInt
	for _, h := range c.Hosts {
		if h.Workers > 0 {
			least = min(least, h.Threads)
		}
	}
	return least
}

// memory says what a server holds, and where that is more than its host has.
func (p *Prediction) memory(c *Cluster) {
	p.ServerBytes = c.serverRows() * c.Model.rowBytes()
	for _, h := range c.Hosts {
		need := p.ServerBytes * float64(h.Servers)
		if h.Servers == 0 || h.Memory == 0 || need <= float64(h.Memory) || h.SSD.Devices > 0 {
			continue
		}
		p.MemoryShort = fmt.Sprintf("%s: its servers hold %.1f GB, it has %.1f: more servers, or --ssd with a memory_hit here", h.Name, need/1e9, float64(h.Memory)/1e9)
	}
}

// linkUse is how much of the time a host's link is busy.
func (p *Prediction) linkUse(h *Host) float64 {
	for _, r := range p.Resources {
		if r.Host == h.Name && r.Name == "network" {
			return r.Part
		}
	}
	return 0
}

// access is T_access: what a row takes where share of them comes from an SSD.
func (c *Cluster) access(share float64) float64 {
	row := (c.Costs.ServerRow + c.Model.RowFloats()*c.Costs.ServerFloat) * 1e-9
	rate := 0.0
	for _, h := range c.Hosts {
		if h.Servers > 0 {
			rate += float64(h.Count*h.SSD.Devices) * float64(h.SSD.ReadIOPS)
		}
	}
	return row + share*(c.Costs.DiskRow*1e-9+ratio(1, rate))
}

// ratio is 0 where nothing is known of the whole.
func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
