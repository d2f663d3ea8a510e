package kv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"psrt/rdma/dial"
	"psrt/rdma/secure"
	"psrt/sched/client"
	"psrt/sched/yamlkeys"
	"psrt/tiers/localpath"
	"psrt/tiers/table"
)

// Config says where the job is and who this client is in it. psrt.h explains the
// fields (psrt_client_open).
type Config struct {
	Servers        []string `yaml:"servers"`
	Coordinator    string   `yaml:"coordinator"`
	TokenFile      string   `yaml:"token_file"`
	Worker         int      `yaml:"worker"`
	Workers        int      `yaml:"workers"`
	Transport      string   `yaml:"transport"`
	Device         []string `yaml:"device"`
	Plaintext      bool     `yaml:"plaintext"`
	GIDIndex       *int     `yaml:"gid_index"`
	Port           int      `yaml:"port"`
	TrafficClass   int      `yaml:"traffic_class"`
	Timeout        Duration `yaml:"timeout"`
	ConnectTimeout Duration `yaml:"connect_timeout"`
	Requests       int      `yaml:"requests"`
	// Read is where pulls go at servers with replicas: "head", or "any" member of the
	// rows' chain.
	Read string `yaml:"read"`
	// HotRows of each table, those that are pulled most often, are answered by the values
	// that the client has kept, until they are HotStaleness steps old; 0: none. Not for
	// bsp.
	HotRows      int `yaml:"hot_rows"`
	HotStaleness int `yaml:"hot_staleness"`
	// StallAfter is how long a wait may last until Say is told who waits for whom, and
	// why; 0: however long.
	StallAfter Duration     `yaml:"stall_after"`
	Tables     []table.Spec `yaml:"tables"`
	// Audit is the directory into which this client records for psrt audit what it asked
	// and was answered; the servers must record, too. "": it does not.
	Audit string `yaml:"audit"`

	// Token is used instead of TokenFile where it is set.
	Token []byte `yaml:"-"`
	// Say takes a line; one call at a time. nil: StatsJSON alone tells of waits.
	Say func(line string) `yaml:"-"`
	// Aside is for who keeps a job whose trainers come and go (sched/serve/keeper): it
	// has the number after theirs, and no place in the clocks.
	Aside bool `yaml:"-"`
	// Looks is for who pulls with Options.AnyClock alone: it has a number of the trainers',
	// and no place in the clocks, so that nobody waits for its steps.
	Looks bool `yaml:"-"`
	// Host is used instead of one made from the above where it is set; it stays its
	// owner's.
	Host *dial.Host `yaml:"-"`

	given map[string]bool // keys of the text it was read from
}

// Where a Config's Read has pulls go. Without replicas both are the same.
const (
	ReadHead = "head"
	ReadAny  = "any"
)

// Duration is a time.Duration, in YAML text like 30s.
type Duration time.Duration

// UnmarshalYAML reads what time.ParseDuration reads.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %q is no duration, write 30s or 500ms", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

const (
	maxConfigBytes  = 1 << 20
	defaultTimeout  = 30 * time.Second
	maxTimeout      = 24 * time.Hour
	defaultRequests = 64
	defaultHotSteps = 4
	maxHotSteps     = 1 << 20
	maxRequests     = 1024
)

// ParseConfig reads YAML and checks it.
func ParseConfig(text []byte) (Config, error) {
	var c Config
	if len(text) > maxConfigBytes {
		return c, errorf(BadConfig, "kv: a configuration of %d bytes, at most %d", len(text), maxConfigBytes)
	}
	var key *yamlkeys.Key
	switch err := yamlkeys.Decode(text, &c); {
	case errors.As(err, &key):
		return c, errorf(BadConfig, "kv: line %d of the configuration: %w", key.Line, key)
	case err != nil && !errors.Is(err, io.EOF):
		return c, errorf(BadConfig, "kv: the configuration: %w", err)
	}
	if err := c.note(text); err != nil {
		return c, err
	}
	return c, c.complete()
}

// note keeps which keys text has, and refuses 0 where it would mean a key left out.
func (c *Config) note(text []byte) error {
	var given map[string]yaml.Node
	if err := yaml.Unmarshal(text, &given); err != nil {
		return errorf(BadConfig, "kv: the configuration: %w", err)
	}
	c.given = map[string]bool{}
	for name := range given {
		c.given[name] = true
	}
	for _, f := range []struct {
		name string
		zero bool
		def  any
	}{{"timeout", c.Timeout == 0, defaultTimeout}, {"connect_timeout", c.ConnectTimeout == 0, defaultTimeout},
		{"requests", c.Requests == 0, defaultRequests}, {"hot_staleness", c.HotStaleness == 0, defaultHotSteps}} {
		if f.zero && c.given[f.name] {
			return errorf(BadConfig, "kv: line %d of the configuration: %s 0, must be above 0; leave it out for %v", given[f.name].Line, f.name, f.def)
		}
	}
	return nil
}

// Has says whether the text of a configuration has a key, with whatever value.
func (c *Config) Has(key string) bool { return c.given[key] }

// complete checks, and fills in what is left out.
func (c *Config) complete() error {
	bad := func(format string, args ...any) error { return errorf(BadConfig, "kv: "+format, args...) }
	for name, d := range map[string]*Duration{"timeout": &c.Timeout, "connect_timeout": &c.ConnectTimeout} {
		if *d == 0 {
			*d = Duration(defaultTimeout)
		}
		if *d < 0 || time.Duration(*d) > maxTimeout {
			return bad("%s %v, must be above 0 and at most %v", name, time.Duration(*d), maxTimeout)
		}
	}
	if c.StallAfter < 0 || time.Duration(c.StallAfter) > maxTimeout {
		return bad("stall_after %v, must be 0 (never) to %v", time.Duration(c.StallAfter), maxTimeout)
	}
	if c.Requests == 0 {
		c.Requests = defaultRequests
	}
	if c.HotRows > 0 && c.HotStaleness == 0 {
		c.HotStaleness = defaultHotSteps
	}
	names := map[string]bool{}
	for _, t := range c.Tables {
		if err := t.Validate(); err != nil {
			return bad("%w", err)
		}
		if names[t.Name] {
			return bad("table %q is described twice", t.Name)
		}
		names[t.Name] = true
	}
	switch {
	case len(c.Servers) == 0 && c.Coordinator == "":
		return bad("neither servers nor coordinator: say servers: [HOST:PORT], as psrt serve prints it")
	case len(c.Servers) > 0 && c.Coordinator != "":
		return bad("both servers and coordinator: one is enough, leave the other out")
	case addressError(c.Servers, c.Coordinator) != nil:
		return bad("%w", addressError(c.Servers, c.Coordinator))
	case c.Worker < 0:
		return bad("worker %d, must be 0 or more", c.Worker)
	case c.Workers < 0 || c.Workers > 0 && c.Worker >= c.Workers:
		return bad("worker %d of %d workers, must be 0 to %d", c.Worker, c.Workers, c.Workers-1)
	case c.Read != "" && c.Read != ReadHead && c.Read != ReadAny:
		return bad("read %q, must be %s or %s", c.Read, ReadHead, ReadAny)
	case c.HotRows < 0 || c.HotRows > client.MaxHotRows:
		return bad("hot_rows %d, must be 0 (none) to %d", c.HotRows, client.MaxHotRows)
	case c.HotRows == 0 && c.HotStaleness != 0:
		return bad("hot_staleness %d has no effect without hot_rows: say how many rows the client keeps", c.HotStaleness)
	case c.HotRows > 0 && (c.HotStaleness < 1 || c.HotStaleness > maxHotSteps):
		return bad("hot_staleness %d, must be 1 to %d steps", c.HotStaleness, maxHotSteps)
	case c.Requests < 1 || c.Requests > maxRequests:
		return bad("requests %d, must be 1 to %d", c.Requests, maxRequests)
	case c.GIDIndex != nil && (*c.GIDIndex < 0 || *c.GIDIndex > 255):
		return bad("gid_index %d, must be 0 to 255", *c.GIDIndex)
	case c.Port < 0 || c.Port > 255:
		return bad("port %d of the device, must be 1 to 255", c.Port)
	case c.TrafficClass < 0 || c.TrafficClass > 255:
		return bad("traffic_class %d, must be 0 to 255: the DSCP times 4", c.TrafficClass)
	case localpath.Scheme(c.Audit) != "":
		return bad("audit: %v", localpath.Check(c.Audit))
	case localpath.Scheme(c.TokenFile) != "":
		return bad("token_file: %v", localpath.Check(c.TokenFile))
	case c.TokenFile == "" && c.Token == nil && c.Host == nil:
		return bad("token_file is missing: the file with the job's secret that psrt serve was given")
	}
	return nil
}

// addressError says which of the addresses cannot be dialed.
func addressError(servers []string, coordinator string) error {
	for _, a := range servers {
		if err := dial.CheckAddress(a); err != nil {
			return fmt.Errorf("servers: %w", err)
		}
	}
	if coordinator == "" {
		return nil
	}
	if err := dial.CheckCoordinator(coordinator); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	return nil
}

// Reach has servers reached as ranks of a job reach each other.
func (c *Config) Reach(transport string, devices dial.Devices, cover dial.Cover) {
	c.Transport, c.Device, c.Port, c.Plaintext, c.GIDIndex = transport, devices.Devices, devices.Config.Port, cover == dial.CoverNone, nil
	c.TrafficClass = int(devices.Config.TrafficClass)
	if devices.Config.PinGID {
		c.GIDIndex = &devices.Config.GIDIndex
	}
}

// token reads the job's secret as psrt's commands do.
func (c *Config) token() ([]byte, error) {
	if c.Token != nil {
		return c.Token, nil
	}
	b, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, errorf(BadConfig, "kv: token_file: %w", err)
	}
	if len(b) < secure.MinToken {
		return nil, errorf(BadConfig, "kv: token_file %s has %d bytes, at least %d are needed: head -c 32 /dev/urandom > token", c.TokenFile, len(b), secure.MinToken)
	}
	return b, nil
}

// host makes the process's transports for this client, which is told of their
// panics.
func (c *Config) host(token []byte, panicked func(any)) (*dial.Host, error) {
	cover := dial.CoverFar
	if c.Plaintext {
		cover = dial.CoverNone
	}
	h, err := dial.New(dial.Config{Transport: c.Transport, Token: token, Devices: c.devices(), Cover: cover, OnPanic: panicked})
	if err != nil {
		return nil, coded(err, BadConfig)
	}
	return h, nil
}

// devices are those that it names; Reach is the other way round.
func (c *Config) devices() dial.Devices {
	devices := dial.Devices{Devices: c.Device}
	devices.Config.Port, devices.Config.TrafficClass = c.Port, uint8(c.TrafficClass)
	if c.GIDIndex != nil {
		devices.Config.GIDIndex, devices.Config.PinGID = *c.GIDIndex, true
	}
	return devices
}
