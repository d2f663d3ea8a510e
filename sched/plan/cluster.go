package plan

import (
	"errors"
	"fmt"
	"io"

	"psrt/sched/yamlkeys"
)

// Cluster is what is to be judged: hosts, a model, a job, and what the work costs.
type Cluster struct {
	Hosts []Host `yaml:"hosts"`
	Model Model  `yaml:"model"`
	Job   Job    `yaml:"job"`
	Costs Costs  `yaml:"costs"`
}

// Host is one kind of host, of which there are Count.
type Host struct {
	Name    string  `yaml:"name"`
	Count   int     `yaml:"count"`
	Cores   int     `yaml:"cores"`
	Memory  Bytes   `yaml:"memory"`
	Network Rate    `yaml:"network"` // each way
	Latency Seconds `yaml:"latency"` // there and back, of a small message
	Workers int     `yaml:"workers"` // processes on each host
	Threads int     `yaml:"threads"` // of a worker or dense rank; 0: its share of the cores
	// DenseRanks compute the dense layers, and workers do not; 0 on all hosts: workers do.
	DenseRanks int `yaml:"dense_ranks"`
	Servers    int `yaml:"servers"`
	Lanes      int `yaml:"lanes"` // of a server; 0: 1
	SSD        SSD `yaml:"ssd"`
	GPU        GPU `yaml:"gpu"`
}

// SSD is what a host's devices do, each.
type SSD struct {
	Devices   int   `yaml:"devices"`
	ReadIOPS  Count `yaml:"read_iops"`
	ReadRate  Rate  `yaml:"read"`
	WriteRate Rate  `yaml:"write"`
}

// GPU is what a host's cards do, each, with the dense layers.
type GPU struct {
	Devices int   `yaml:"devices"`
	Flops   Count `yaml:"flops"` // a second, that training reaches, not the data sheet's
}

// Model is what is trained.
type Model struct {
	Fields int    `yaml:"fields"` // ids of an example
	Dim    int    `yaml:"dim"`    // floats of an embedding; a first-order weight comes on top unless dcn
	Kind   string `yaml:"kind"`
	Hidden []int  `yaml:"hidden"`
	// CrossLayers are dcn's.
	CrossLayers int `yaml:"cross_layers"`
	// StateFloats is the optimizer's state for each weight: 2 for adam, 1 for adagrad.
	StateFloats float64 `yaml:"state_floats"`
	Rows        Count   `yaml:"rows"` // of the whole table, the fields' together
	Zipf        float64 `yaml:"zipf"` // exponent with which ids are met; 0: all alike
}

// Job is how it is trained.
type Job struct {
	Batch     int    `yaml:"batch"` // over all workers
	Sync      string `yaml:"sync"`
	Staleness int    `yaml:"staleness"`
	Replicas  int    `yaml:"replicas"`
	// MemoryHit is the share of the rows asked for that are found in memory; the others
	// are read from the servers' SSDs.
	MemoryHit *float64 `yaml:"memory_hit"`
	// Transport is shm, tcp or verbs: whose cores move the bytes.
	Transport string `yaml:"transport"`
}

// maxText is the longest description.
const maxText = 1 << 20

// Parse reads a description; what is left out has its default.
func Parse(text []byte) (*Cluster, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("plan: a description of %d bytes, at most %d are read", len(text), maxText)
	}
	c := &Cluster{Model: Model{Fields: 26, Dim: 16, Kind: "fm", StateFloats: 2, Rows: 1e8, Zipf: 1.1}, Job: Job{Batch: 4096, Sync: "asp", Replicas: 1, Transport: "tcp"}, Costs: Measured()}
	var key *yamlkeys.Key
	switch err := yamlkeys.Decode(text, c); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("plan: the description is empty; it needs hosts, see docs/planning.md")
	case errors.As(err, &key):
		return nil, fmt.Errorf("plan: line %d: %w", key.Line, key)
	case err != nil:
		return nil, fmt.Errorf("plan: the description: %w", err)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return c, nil
}

// maxRows is far beyond what all memory of a cluster holds, and below the numbers of which
// each has a next one.
const maxRows = 1e15

// Validate says what is wrong, with value and limit, and fills in what follows from the rest.
func (c *Cluster) Validate() error {
	workers, servers, dense, disks := 0, 0, 0, 0
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if h.Name == "" {
			h.Name = fmt.Sprintf("host %d", i)
		}
		for _, v := range []struct {
			name     string
			is, from int
		}{{"count", h.Count, 1}, {"cores", h.Cores, 1}, {"workers", h.Workers, 0}, {"dense_ranks", h.DenseRanks, 0}, {"servers", h.Servers, 0}, {"lanes", h.Lanes, 0}, {"threads", h.Threads, 0}, {"ssd.devices", h.SSD.Devices, 0}, {"gpu.devices", h.GPU.Devices, 0}} {
			if v.is < v.from || v.is > 1<<20 {
				return fmt.Errorf("%s: %s is %d, must be from %d to %d", h.Name, v.name, v.is, v.from, 1<<20)
			}
		}
		if h.Lanes == 0 {
			h.Lanes = 1
		}
		if computing := h.Workers + h.DenseRanks; h.Threads == 0 && computing > 0 {
			h.Threads = max(1, h.Cores/computing)
		}
		if h.GPU.Devices > 0 && h.GPU.Flops == 0 {
			return fmt.Errorf("%s: gpu.flops is missing: what training reaches on one card, such as 60T", h.Name)
		}
		workers += h.Count * h.Workers
		servers += h.Count * h.Servers
		dense += h.Count * h.DenseRanks
		disks += h.Servers * h.SSD.Devices
	}
	m, j := &c.Model, &c.Job
	switch {
	case len(c.Hosts) == 0:
		return errors.New("hosts is missing: a list of kinds of hosts, each with count, cores, workers or servers")
	case workers == 0 || servers == 0:
		return fmt.Errorf("%d workers and %d servers on all hosts together: both are needed", workers, servers)
	case m.Fields < 1 || m.Fields > 4096:
		return fmt.Errorf("model.fields is %d, must be from 1 to 4096", m.Fields)
	case m.Dim < 0 || m.Dim > 4096:
		return fmt.Errorf("model.dim is %d, must be from 0 to 4096", m.Dim)
	case !(m.Rows >= 1 && m.Rows <= maxRows):
		return fmt.Errorf("model.rows is %v, must be from 1 to %v", m.Rows, maxRows)
	case !(m.Zipf >= 0 && m.Zipf <= 4):
		return fmt.Errorf("model.zipf is %v, must be from 0 to 4", m.Zipf)
	case j.Batch < workers:
		return fmt.Errorf("job.batch is %d for %d workers: it is over all of them", j.Batch, workers)
	case dense > j.Batch:
		return fmt.Errorf("job.batch is %d for %d dense ranks: it is over all of them", j.Batch, dense)
	case j.Replicas < 1 || j.Replicas > servers:
		return fmt.Errorf("job.replicas is %d, must be from 1 to the number of servers, %d", j.Replicas, servers)
	case j.Sync != "bsp" && j.Sync != "ssp" && j.Sync != "asp":
		return fmt.Errorf("job.sync is %q, must be bsp, ssp or asp", j.Sync)
	case j.Transport != "shm" && j.Transport != "tcp" && j.Transport != "verbs":
		return fmt.Errorf("job.transport is %q, must be shm, tcp or verbs", j.Transport)
	case j.Staleness < 0:
		return fmt.Errorf("job.staleness is %d, must not be less than 0", j.Staleness)
	case j.MemoryHit != nil && !(*j.MemoryHit >= 0 && *j.MemoryHit <= 1):
		return fmt.Errorf("job.memory_hit is %v, must be from 0 to 1", *j.MemoryHit)
	case j.MemoryHit != nil && *j.MemoryHit < 1 && disks == 0:
		return fmt.Errorf("job.memory_hit is %v, but no host with servers has an ssd from which the other rows could be read; give ssd: {devices: 1, …} there, or leave memory_hit out", *j.MemoryHit)
	}
	if !m.known() {
		return fmt.Errorf("model.kind is %q, must be lr, fm, widedeep, deepfm or dcn", m.Kind)
	}
	return c.Costs.validate()
}
