package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/coord"
	"psrt/sched/job"
	"psrt/sched/launch"
)

// serverFlags say which job is meant.
type serverFlags struct {
	coordinator, tokenFile string
	tlsCA, tlsCert, tlsKey string
	pid                    int
	wait                   time.Duration
	force                  bool
	json                   string
	token                  []byte // of the job that was found
	dir                    string // its launcher's, "": it has none here
}

const serverJobs = `The job is the one that runs on this machine for this user, with the same TMPDIR: of "psrt train" or
"psrt serve", or one of which mpirun, srun or ssh has started a rank here (--pid where there are several). From
anywhere else --coordinator and --token-file, as the ranks have them, find it.`

func newServer() *cobra.Command {
	c := &cobra.Command{
		Use: "server", Short: "Add servers to a running job, take them away, list them",
		Long: "Servers of a job that was started with --replicas or --groups can change while it trains.\n\n" + serverJobs,
		Args: noArgs,
		Example: `  psrt server ls
  psrt server add
  psrt server remove 1
  psrt server ls --coordinator node0:7000 --token-file token`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newServerAdd(), newServerRemove(), newServerList())
	return c
}

func (f *serverFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.coordinator, "coordinator", "", "`address` HOST:PORT of the job's rank 0, or https://HOST:PORT[,…], your etcd (PSRT_ETCD_USER, PSRT_ETCD_PASSWORD)")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with the job's secret, where --coordinator says where it is")
	fl.StringVar(&f.tlsCA, "tls-ca", "", "PEM `file` with the authority of your etcd's certificate (the system's)")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "PEM `file` with a certificate for your etcd")
	fl.StringVar(&f.tlsKey, "tls-key", "", "PEM `file` with its key")
	fl.IntVar(&f.pid, "pid", 0, "the job of this launcher")
	cli.ZeroIsUnset(fl, "pid")
}

// waiting is for those that change something.
func (f *serverFlags) waiting(fl *pflag.FlagSet) {
	fl.DurationVar(&f.wait, "wait", 10*time.Minute, "how long to wait until rows have moved (0: not at all)")
}

func newServerAdd() *cobra.Command {
	f, own := &serverFlags{}, &trainFlags{}
	c := &cobra.Command{
		Use: "add", Short: "Add a server to a running job",
		Long: `Add a server. A job of psrt's own launcher on this machine gets it from there. Of a job of mpirun, srun or
ssh, and with --coordinator, this process is the server, until the job ends or it is removed. Rows move to it
while training goes on.

` + serverJobs,
		Example: `  psrt server add
  psrt server add --coordinator node0:7000 --token-file token --rack r2`,
		Args: noArgs,
	}
	fl := c.Flags()
	f.register(fl)
	f.waiting(fl)
	own.transport.add(fl)
	own.replicas.labels(fl)
	fl.StringVar(&own.numa, "numa", "auto", "NUMA `node` of the server's memory")
	fl.StringVar(&own.listen, "listen", "", "`address` to listen on (that by which this host reaches the job)")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.unlessOver(addServer(c, f, own)) }
	return c
}

func newServerRemove() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use: "remove NUMBER", Short: "Take a server out of a running job",
		Long:    "Have a server's rows move to others while training goes on, and end it then.\n\n" + serverJobs,
		Example: "  psrt server remove 3\n  psrt server remove 1 --coordinator node0:7000 --token-file token",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("remove takes one number of a server, not %d arguments; psrt server ls shows them", len(args))
			}
			return nil
		},
	}
	f.register(c.Flags())
	f.waiting(c.Flags())
	c.Flags().BoolVar(&f.force, "force", false, "remove it though fewer servers are left than rows are to have replicas: one more death may end the job")
	c.RunE = func(_ *cobra.Command, args []string) error { return f.unlessOver(removeServer(f, args[0])) }
	return c
}

func newServerList() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use: "ls", Short: "List the servers of a running job, and what they have",
		Long: "Show each server of a job with replicas or groups, and how many groups it has.\n\n" + serverJobs,
		Args: noArgs, Example: "  psrt server ls --json",
	}
	f.register(c.Flags())
	c.Flags().StringVar(&f.json, "json", "", "print one JSON object on stdout, or into `file`")
	c.Flags().Lookup("json").NoOptDefVal = "-"
	c.RunE = func(*cobra.Command, []string) error { return f.unlessOver(listServers(f)) }
	return c
}

// attach finds the job. Where no launcher of psrt's runs it, coordinator and token are
// those that its ranks use.
func (f *serverFlags) attach(ctx context.Context) (*job.Control, error) {
	if f.coordinator != "" {
		t := &trainFlags{tokenFile: f.tokenFile}
		if f.tokenFile == "" {
			return nil, cli.Usagef("--coordinator %s needs --token-file, the job's", f.coordinator)
		}
		var err error
		if err = checkCoordinator(f.coordinator); err == nil {
			f.token, err = t.token()
		}
		if err != nil {
			return nil, err
		}
		return job.Attach(ctx, f.coordinator, f.token, f.store())
	}
	list, err := launch.Running(os.TempDir())
	if err != nil {
		return nil, err
	}
	joined, err := job.JoinedJobs(os.TempDir())
	if err != nil {
		return nil, err
	}
	var pids []string // one of each job
	dir, ranks := "", job.Joined{}
	for _, l := range list {
		if _, err := os.Stat(job.TokenOf(l.Path)); err == nil && (f.pid == 0 || f.pid == l.PID) {
			pids, dir = append(pids, strconv.Itoa(l.PID)), l.Path
		}
	}
	for _, j := range joined {
		if f.pid == 0 || slices.Contains(j.PIDs, f.pid) {
			pids, ranks = append(pids, strconv.Itoa(j.PIDs[0])), j
		}
	}
	switch {
	case len(pids) == 0 && f.pid != 0:
		return nil, noPID(f.pid)
	case len(pids) == 0:
		return nil, noJob("--coordinator and --token-file reach a job elsewhere")
	case len(pids) > 1:
		return nil, cli.Usagef("%d jobs run on this machine: say which by --pid %s", len(pids), strings.Join(pids, ", or --pid "))
	case dir == "":
		f.coordinator, f.token = ranks.Coordinator, ranks.Token
		return job.Attach(ctx, f.coordinator, f.token, f.store())
	}
	if f.token, err = os.ReadFile(job.TokenOf(dir)); err != nil {
		return nil, err
	}
	f.dir = dir
	return job.AttachLauncher(ctx, dir, f.token)
}

// endsWithin is how long a launcher takes to be gone when its job does not answer any more.
const endsWithin = 2 * time.Second

// unlessOver says of a job that could not be reached that it has ended, where it has.
func (f *serverFlags) unlessOver(err error) error {
	if f.dir == "" || !errors.Is(err, coord.ErrUnavailable) {
		return err
	}
	for end := time.Now().Add(endsWithin); time.Now().Before(end); time.Sleep(endsWithin / 100) {
		if _, gone := os.Stat(f.dir); errors.Is(gone, fs.ErrNotExist) {
			return fmt.Errorf("the job has ended meanwhile (%w)", err)
		}
	}
	return err
}

// noPID and noJob are alike in all commands that look for a job: a number that the user
// gave is wrong, and that nothing runs is no fault of the command line.
func noPID(pid int) error {
	return cli.Usagef("--pid %d: no job of this user runs under that number; psrt status shows all jobs", pid)
}

func noJob(elsewhere string) error {
	return fmt.Errorf("no job of this user runs on this machine (below %s): neither psrt train or psrt serve, nor a rank that mpirun, srun or ssh has started; %s", os.TempDir(), elsewhere)
}

func (f *serverFlags) store() job.StoreConfig {
	return job.StoreConfig{Endpoints: job.Endpoints(f.coordinator), CA: f.tlsCA, Cert: f.tlsCert, Key: f.tlsKey,
		User: os.Getenv("PSRT_ETCD_USER"), Password: os.Getenv("PSRT_ETCD_PASSWORD"), Note: func(s string) { fmt.Fprintln(os.Stderr, s) }}
}

func listServers(f *serverFlags) error {
	ctx, stop := cli.Interruptible()
	defer stop()
	k, err := f.attach(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	out, err := cli.OpenOutput("json", f.json)
	if err != nil {
		return err
	}
	v, err := k.View(ctx)
	if err != nil {
		return err
	}
	if out != nil {
		return errors.Join(json.NewEncoder(out).Encode(v), out.Close())
	}
	return printServers(os.Stdout, v)
}

func printServers(w io.Writer, v *job.View) error {
	fmt.Fprintf(w, "%d groups of %d replica(s), %s; map of epoch %d\n\n", v.Groups, v.Replicas, wholeness(v), v.Epoch)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "server\tgroups\tas head\tcoming\tweight\thost\track\tpid\twire\taddress\tstate\t")
	for _, s := range v.Servers {
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%g\t%s\t%s\t%d\t%d\t%s\t%s\t\n", s.Server, s.Groups, s.Heads, s.Joins, s.Weight, s.Host, s.Rack, s.PID, s.Speaks, s.Addr, s.State())
	}
	if err := t.Flush(); err != nil || len(v.Keepers) == 0 {
		return err
	}
	names := make([]string, len(v.Keepers))
	for i, k := range v.Keepers {
		if names[i] = k.Name; !k.Lives {
			names[i] += " (silent: another takes its place, where there is one)"
		}
	}
	_, err := fmt.Fprintf(w, "\nthe coordinator is kept by %s\n", strings.Join(names, ", "))
	return err
}

// wholeness says what is missing.
func wholeness(v *job.View) string {
	switch {
	case v.Short > 0 && v.Joins > 0:
		return fmt.Sprintf("%d of them with fewer, %d being copied", v.Short, v.Joins)
	case v.Short > 0:
		return fmt.Sprintf("%d of them with fewer", v.Short)
	case v.Joins > 0:
		return fmt.Sprintf("all there, %d moving", v.Joins)
	}
	return "all there"
}

func removeServer(f *serverFlags, arg string) error {
	number, err := strconv.Atoi(arg)
	if err != nil || number < 0 {
		return cli.Usagef("remove %s: want the number of a server; psrt server ls shows them", arg)
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	k, err := f.attach(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Remove(ctx, number, f.force); err != nil {
		return err
	}
	return f.settled(ctx, k, fmt.Sprintf("server %d has left", number), func(v *job.View) bool {
		s := v.Find(number)
		return s == nil || !s.Listed && s.Groups == 0
	})
}

// settled waits until what was asked for has happened, saying how far it is.
func (f *serverFlags) settled(ctx context.Context, k *job.Control, what string, done func(*job.View) bool) error {
	if f.wait == 0 {
		return nil
	}
	wait, cancel := context.WithTimeoutCause(ctx, f.wait, fmt.Errorf("after %v (--wait) it is still under way; psrt server ls shows how far", f.wait))
	defer cancel()
	last := ""
	err := k.Settle(wait, done, func(v *job.View) {
		if s := wholeness(v); s != last {
			fmt.Fprintln(os.Stderr, s)
			last = s
		}
	})
	if err != nil {
		return cli.InterruptedOr(ctx, err)
	}
	fmt.Println(what)
	return nil
}

func addServer(c *cobra.Command, f *serverFlags, own *trainFlags) error {
	if err := own.replicas.checkLabels(); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible()
	defer stop()
	k, err := f.attach(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	if f.coordinator != "" {
		if err := checkListen(own.listen); err != nil {
			return err
		}
		return own.serveAdded(ctx, k, f)
	}
	for _, name := range []string{"listen", "numa", "rack", "host-label", "weight"} {
		if c.Flags().Changed(name) {
			return cli.Usagef("--%s is for a server that this process is: give --coordinator, too, or leave it out to have the job's launcher start one", name)
		}
	}
	number, err := k.Reserve(ctx, false)
	if err != nil {
		return err
	}
	joining, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	return f.settled(joining, k, fmt.Sprintf("server %d has joined", number), func(v *job.View) bool {
		if v.Find(number) == nil {
			if err := k.Refused(ctx, number); err != nil {
				giveUp(err)
			}
		}
		return hasJoined(number)(v)
	})
}

// hasJoined says whether a server has all groups that it is to have.
func hasJoined(number int) func(*job.View) bool {
	return func(v *job.View) bool {
		s := v.Find(number)
		return s != nil && s.Groups > 0 && v.Joins == 0
	}
}

// serveAdded is a server for a job that runs, in this process.
func (f *trainFlags) serveAdded(ctx context.Context, k *job.Control, at *serverFlags) error {
	devices, err := f.transport.Devices()
	if err != nil {
		return err
	}
	if k.Job.Workers == 0 {
		return cli.Usagef("these servers are for trainers of your own: start one more with psrt serve, the flags of the others and a --rank that none of them has; psrt server ls shows them")
	}
	number, err := k.Reserve(ctx, true)
	if err != nil {
		return err
	}
	node, err := job.NUMANode(f.numa, number, "")
	if err != nil {
		return cli.Usagef("--numa: %w", err)
	}
	show := newDisplay(os.Stderr, false)
	show.note(fmt.Sprintf("joins, as server %d, a job that began with %d server(s) and %d worker(s)", number, k.Job.Servers, k.Job.Workers))
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if k.Settle(watching, hasJoined(number), func(*job.View) {}) == nil {
			show.note(fmt.Sprintf("server %d has joined", number))
		}
	})
	defer watch.Wait()
	defer stop()
	_, err = job.RunAdded(ctx, at.coordinator, number, k, job.RankConfig{Token: at.token, Seen: true, Transport: f.transport.kind.Value, Devices: devices, Cover: f.transport.cover(),
		Listen: f.listen, Node: node, Events: show.event, HostLabel: f.replicas.host, Rack: f.replicas.rack, Weight: f.replicas.weight, Store: at.store()})
	return cli.InterruptedOr(ctx, err)
}
