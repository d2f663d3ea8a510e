package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/dataset"
	"psrt/sched/job"
	"psrt/sched/rendezvous"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// trainFlags are the flags of `psrt train`, named as in the contract.
type trainFlags struct {
	input inputFlags
	data  string
	test  string
	valid string

	model     *cli.Choice
	dim       int
	hidden    []int
	cross     int
	dropout   float32
	batchNorm bool

	optimizer, denseOptimizer *cli.Choice
	accessor, serving         string
	lr, denseLR, l1, l2       float32
	denseL2                   float32
	batch, epochs, patience   int
	seed                      uint64
	clip                      train.Clip
	sync                      syncFlags
	dense, collective         *cli.Choice
	combine                   *cli.Choice
	heter                     heterFlags
	dataset, sharding         *cli.Choice
	global                    bool
	metricsBy                 string
	servers, workers, threads int
	colocate                  bool
	lanes                     int
	replicas                  replicaFlags
	hot                       hotFlags
	workersLost               workerFlags
	transport                 transportFlags
	memBudget                 cli.Bytes
	storage                   storageFlags
	stream                    streamFlags
	checkpoint                snapshotFlags
	audit                     auditFlags
	out, json, report, config string
	rank, world               int
	coordinator, tokenFile    string
	joinTimeout               time.Duration
	listen, numa, iface       string
	rendezvous                string
	tlsCA, tlsCert, tlsKey    string
	launched                  *rendezvous.Identity // nil: by --rank, or psrt starts all ranks
	compress                  compressFlag
	quiet, noShuffle          bool
	metrics                   string
	stallAfter                time.Duration
	watch                     *cli.Choice
	see                       seeFlags
}

// stallAfter is the default of --stall-after.
const stallAfter = 10 * time.Second

// Defaults that depend on others are 0 here and settled in job.
func (f *trainFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.data, "data", "", "training `files`, globs or directories, comma separated; .gz, .zst, .lz4 as they are")
	fl.StringVar(&f.valid, "valid", "", "validation `files`: the best epoch is kept and training ends early")
	fl.StringVar(&f.test, "test", "", "test `files`: the final figures are of these")
	f.input.register(c)

	f.model = cli.NewChoice(model.FM, model.Kinds()...)
	fl.Var(f.model, "model", "kind of model")
	fl.IntVar(&f.dim, "dim", 16, "embedding dimension")
	fl.IntSliceVar(&f.hidden, "hidden", []int{64, 32}, "units of the hidden layers (widedeep, deepfm, dcn)")
	fl.IntVar(&f.cross, "cross-layers", 2, "cross layers (dcn)")
	fl.Float32Var(&f.dropout, "dropout", 0, "share of hidden units dropped in training")
	fl.BoolVar(&f.batchNorm, "batch-norm", false, "batch normalisation in the hidden layers")

	f.optimizer = cli.NewChoice(table.Adam, table.SGD, table.AdaGrad, table.RowAdaGrad, table.Adam, table.FTRL)
	fl.Var(f.optimizer, "optimizer", "optimizer of the sparse parameters")
	f.denseOptimizer = cli.NewChoice("", "", table.SGD, table.AdaGrad, table.Adam, table.FTRL)
	fl.Var(f.denseOptimizer, "dense-optimizer", "optimizer of the dense parameters (as --optimizer)")
	fl.Float32Var(&f.lr, "lr", 0, "learning rate (adam .005, with asp and ssp down to .001 where rows have many fields; adagrad and rowadagrad .05, ftrl .1, sgd .01)")
	fl.Float32Var(&f.denseLR, "dense-lr", 0, "learning rate of the dense parameters (as --lr)")
	fl.StringVar(&f.accessor, "accessor", "", "YAML `file` with the life of features: when rows are made, get their vector, decay and go (docs/lifecycle.md)")
	fl.StringVar(&f.serving, "serving", "", "`place` for models to serve, a base and then deltas, at the days that --accessor describes; psrt eval, predict and export read them")
	fl.Float32Var(&f.l1, "l1", 0, "L1 regularisation of the sparse parameters (ftrl)")
	fl.Float32Var(&f.l2, "l2", 0, "L2 regularisation of the sparse parameters")
	fl.Float32Var(&f.denseL2, "dense-l2", 0, "L2 regularisation of the dense parameters")

	fl.Float64Var(&f.clip.Norm, "clip-norm", 0, "most that the norm of a micro-batch's mean gradient, dense and sparse, may be (0: no bound)")
	fl.Float64Var(&f.clip.Value, "clip-value", 0, "most that a value of it may be (0: no bound)")
	fl.IntVar(&f.batch, "batch", train.BatchFor(1), "global batch, over all workers; of more than 8, 512 for each, up to 256 of them")
	fl.IntVar(&f.epochs, "epochs", 0, "passes over the data (1; with --valid at most 30); 0: write the model as it begins")
	fl.IntVar(&f.patience, "patience", 2, "epochs without a better validation figure before training ends; 0: never early")
	f.seed = 1
	fl.Var((*cli.Whole)(&f.seed), "seed", "the same seed with --sync bsp gives the same model, bit for bit")
	f.sync.register(fl)
	f.dense = cli.NewChoice(train.DensePS, train.DensePS, train.DenseAllReduce, train.DenseMixed)
	fl.Var(f.dense, "dense", "how dense gradients travel: ps, pushed by every worker, values pulled; allreduce, added among the workers, which keep the values; mixed, with --sync bsp: both at once, in shares that are measured")
	f.collective = cli.NewChoice(train.CollectiveRing, train.CollectiveRing, train.CollectiveNCCL)
	fl.Var(f.collective, "collective", "what adds with --dense allreduce or mixed: ring, psrt's own; nccl, where each worker has a GPU of its own, else the ring, which is said (docs/gpu.md)")
	f.combine = cli.NewChoice(train.CombineOff, train.CombineOff, train.CombineHost, train.CombineAuto)
	fl.Var(f.combine, "combine", "host: the workers of a host pull and push as one, over shared memory, so that servers and links see one worker a host; auto: where nothing else asked for forbids it")
	f.heter.register(fl)
	f.dataset = cli.NewChoice("auto", "auto", "memory", "queue")
	fl.Var(f.dataset, "dataset", "memory: rows are read once, kept and shuffled each epoch; queue: read anew in file order; auto: memory if they fit")
	f.sharding = cli.NewChoice(train.ShardStatic, train.ShardStatic, train.ShardDynamic)
	fl.Var(f.sharding, "sharding", "dynamic, with --sync asp: workers take ranges of files as fast as they train them, so that a slow one takes fewer; static: each has its part of every batch")
	fl.StringVar(&f.metricsBy, "metrics-by", "", "a `field` (name, or number from 0) of few values, such as the slot of an advertisement: figures of each value, too")
	fl.BoolVar(&f.global, "global-shuffle", false, "with --dataset memory, any row may come to any place of an epoch, whichever file it is in; workers keep a share each and exchange rows")
	fl.BoolVar(&f.noShuffle, "no-shuffle", false, "keep the file order with --dataset memory")

	fl.IntVar(&f.servers, "servers", 1, "server processes")
	fl.IntVar(&f.workers, "workers", 1, "worker processes")
	fl.BoolVar(&f.colocate, "colocate", false, "every process serves and works: as many workers as --servers, or as many of both as ranks")
	fl.IntVar(&f.threads, "threads", 0, "computing threads per worker (cores / workers)")
	fl.IntVar(&f.lanes, "lanes", 0, "lanes per server (cores / servers / 4)")
	f.replicas.register(fl)
	f.hot.register(fl)
	f.compress.register(fl)
	f.workersLost.register(fl)
	f.transport.add(fl)
	fl.Var(&f.memBudget, "mem-budget", "most memory for one server's tables, such as 2GiB; 0: what the machine has")

	f.storage.register(fl)
	f.stream.register(fl)
	f.checkpoint.register(fl)
	f.audit.register(fl)
	fl.DurationVar(&f.stallAfter, "stall-after", stallAfter, "a wait of so long is told: who waits for whom, why, and since when (0: never)")
	fl.StringVar(&f.out, "out", "", "`directory` for the trained model: new, empty, or with a model of psrt, which is replaced")
	fl.StringVar(&f.json, "json", "", "print one JSON object on stdout, or into `file`")
	fl.Lookup("json").NoOptDefVal = "-"
	fl.StringVar(&f.report, "report", "", "write an HTML report into `file`")
	fl.StringVar(&f.config, "config", "", "YAML `file` with any of these flags; flags on the command line win")
	fl.StringVar(&f.numa, "numa", "auto", "NUMA `node` of a rank's memory: auto deals ranks round the nodes, none pins nothing")
	fl.StringVar(&f.metrics, "metrics", "", "show all ranks to Prometheus at http://`HOST:PORT`/metrics; with --rank, this rank, at PORT + rank")
	f.watch = cli.NewChoice(train.WatchAuto, train.WatchAuto, train.WatchCounters, train.WatchOff)
	fl.Var(f.watch, "watch", "how servers see who sends how much; auto: the kernel's counts (eBPF) where they may, else their own counters")
	f.see.register(fl)
	fl.BoolVar(&f.quiet, "quiet", false, "no progress on stderr; warnings are printed")

	f.registerRanks(fl)
	cli.ZeroIsUnset(fl, "threads", "lanes", "world-size", "worker-timeout", "join-timeout")
}

// registerRanks is of the flags that say how ranks find each other.
func (f *trainFlags) registerRanks(fl *pflag.FlagSet) {
	fl.IntVar(&f.rank, "rank", -1, "this process's rank, when ranks are started one by one")
	fl.IntVar(&f.world, "world-size", 0, "number of ranks")
	fl.StringVar(&f.coordinator, "coordinator", embedded, "who keeps the job's keys: embedded in psrt (given: an etcd of the job's own); `address` HOST:PORT of rank 0, where ranks are started by hand; https://HOST:PORT[,…], your etcd (PSRT_ETCD_USER, PSRT_ETCD_PASSWORD)")
	fl.StringVar(&f.rendezvous, "rendezvous", "", "`HOST:PORT` of rank 0 at which ranks meet that are started by hand, where --coordinator is your etcd")
	fl.StringVar(&f.tlsCA, "tls-ca", "", "PEM `file` with the authority of your etcd's certificate (the system's)")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "PEM `file` with this job's certificate for your etcd")
	fl.StringVar(&f.tlsKey, "tls-key", "", "PEM `file` with its key")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with the job's secret, the same for all ranks")
	fl.DurationVar(&f.joinTimeout, "join-timeout", time.Minute, "how long ranks wait for each other at the start")
	fl.StringVar(&f.iface, "interface", "", "network `interface` by which ranks on several hosts reach each other: a name, or a network such as 10.0.0.0/8 (the fastest that all reach)")
	fl.StringVar(&f.listen, "listen", "", "`address` a server rank listens on (all interfaces)")
}

// job checks the flags, looks at the data, and settles every default. note
// says what was found.
func (f *trainFlags) describe(ctx context.Context, c *cobra.Command) (*train.Job, string, error) {
	if f.data == "" {
		return nil, "", cli.Usagef("--data is missing: name files, globs or directories with training data")
	}
	if err := f.check(); err != nil {
		return nil, "", err
	}
	if err := f.withoutEffect(c); err != nil {
		return nil, "", err
	}
	if err := f.replicas.check(c, f.servers); err != nil {
		return nil, "", err
	}
	opts, err := f.input.options()
	if err != nil {
		return nil, "", err
	}
	if f.global && (f.noShuffle || f.dataset.Value == dataset.Queue || f.stream.on) {
		return nil, "", cli.Usagef("--global-shuffle needs all rows in memory, to be shuffled: leave --no-shuffle, --dataset queue and --stream out")
	}
	if f.sharding.Value == train.ShardDynamic {
		if f.dataset.Value == dataset.Memory || f.global || f.stream.on {
			return nil, "", cli.Usagef("--sharding dynamic reads files in their order: leave --dataset memory, --global-shuffle and --stream out")
		}
		f.dataset.Value, f.noShuffle = dataset.Queue, true
	}
	snapshots, err := f.checkpoint.describe(c)
	if err != nil {
		return nil, "", err
	}
	if snapshots == nil && f.serving == "" && f.checkpoint.beginAnew {
		return nil, "", cli.Usagef("--begin-anew has no effect without --checkpoint or --serving: leave it out")
	}
	for _, place := range []struct{ flag, name string }{{"out", f.out}, {"serving", f.serving}} {
		if err := noNumber(place.flag, place.name); err != nil {
			return nil, "", err
		}
	}
	stream, err := f.stream.describe(c, snapshots)
	if err != nil {
		return nil, "", err
	}
	j := &train.Job{Stream: stream, Checkpoint: snapshots, Serving: f.serving, BeginAnew: f.checkpoint.beginAnew}
	if err := snapshots.Check(); err != nil {
		return nil, "", cli.Usagef("%w", err)
	}
	var d dataset.Description
	var src *dataset.Source // nil: a stream
	if stream != nil {
		// The first file may be hours away: what needs none is refused before.
		early := *j
		if err := f.build(ctx, c, &early, opts, dataset.Description{Fields: max(1, opts.Fields)}, nil); err != nil {
			return nil, "", err
		}
	}
	if err := j.CheckPlaces(ctx); err != nil {
		return nil, "", err
	}
	if stream != nil {
		opts, d, err = f.stream.look(ctx, stream, snapshots != nil && snapshots.Resume, paths(f.data), opts, newDisplay(os.Stderr, f.quiet).note)
	} else if src, err = dataset.Open(ctx, paths(f.data), opts); err == nil {
		opts, d = src.Options(), src.Describe()
	}
	if err != nil {
		return nil, "", err
	}
	if err := f.build(ctx, c, j, opts, d, src); err != nil {
		return nil, "", err
	}
	// The other files are opened here too: a mistake shall show before an hour
	// of training, not after.
	if src != nil {
		j.Files.Data = dataset.NewFileSet(src.Identities())
	}
	j.DataNotes = d.Notes
	for _, more := range []struct {
		flag  string
		paths []string
		files **dataset.FileSet
	}{{"--valid", j.Valid, &j.Files.Valid}, {"--test", j.Test, &j.Files.Test}} {
		if len(more.paths) == 0 {
			continue
		}
		src, err := dataset.Open(ctx, more.paths, j.Reading)
		if err != nil {
			return nil, "", err
		}
		*more.files = dataset.NewFileSet(src.Identities())
		for _, note := range src.Describe().Notes {
			j.DataNotes = append(j.DataNotes, more.flag+": "+note)
		}
	}
	if j.Out != "" {
		err := replaceable(c, "out", j.Out)
		if err == nil {
			err = writable(j.Out)
		}
		if err != nil {
			return nil, "", err
		}
	}
	note := fmt.Sprintf("%s, %d fields, %d file(s), %s; model %s, %s lr %g; %s; %d server(s), %d worker(s) of %d thread(s)",
		d.Format, d.Fields, len(d.Files), size(d.Bytes), f.model.Value, j.Optimizer.Kind, j.Optimizer.LR, j.Sync, j.Servers, j.Workers, j.Threads)
	if j.Batch != train.BatchFor(1) {
		note += fmt.Sprintf("; batch %d", j.Batch)
	}
	if j.Heter > 0 {
		note += fmt.Sprintf("; %d dense rank(s)", j.Heter)
	}
	if j.Chained() {
		note += fmt.Sprintf("; %d replica(s) of %d groups", max(1, j.Replicas), j.Groups)
	}
	if len(j.DataNotes) > 0 {
		note += "; " + strings.Join(j.DataNotes, "; ")
	}
	return j, note, nil
}

// mostUnasked is how many workers may raise the batch without --batch: more are a slip of the
// hand, or a batch that somebody should have chosen.
const mostUnasked = 256

// build fills in the job for data that are read so, and checks all but files. src is nil for
// a stream; d has no format where none of its files has come.
func (f *trainFlags) build(ctx context.Context, c *cobra.Command, j *train.Job, opts dataset.Options, d dataset.Description, src *dataset.Source) error {
	dense, err := f.heter.count(c, f.colocate)
	if err != nil {
		return err
	}
	if !c.Flags().Changed("batch") && f.workers <= mostUnasked {
		f.batch = train.BatchFor(f.workers)
	}
	*j = train.Job{
		Data: paths(f.data), Valid: paths(f.valid), Test: paths(f.test), Reading: opts,
		Dataset: f.dataset.Value, Shuffle: !f.noShuffle && j.Stream == nil, GlobalShuffle: f.global, Sharding: f.sharding.Value, Stream: j.Stream, Checkpoint: j.Checkpoint, BeginAnew: j.BeginAnew,
		Batch: f.batch, Epochs: f.epochs, Patience: f.patience, Seed: f.seed, Clip: f.clip,
		Dense: f.dense.Value, Collective: f.collective.Value, Combine: f.combine.Value, Heter: dense, DenseDevice: f.heter.device, Compress: f.compress.Choice,
		Servers: f.servers, Workers: f.workers, Threads: f.threads, Lanes: f.lanes, MaxBytes: int64(f.memBudget),
		Replicas: f.replicas.replicas, Groups: f.replicas.groups, AllowSameHost: f.replicas.sameHost, Read: f.replicas.read.Value,
		Out: f.out, Watch: f.watch.Value,
		Model: model.Spec{Kind: f.model.Value, Dim: f.dim, Fields: d.Fields, Hidden: f.hidden, CrossLayers: f.cross,
			Dropout: f.dropout, BatchNorm: f.batchNorm, Task: string(opts.Task), Seed: f.seed, MeanLabel: model.StartMean(string(opts.Task), d.MeanLabel, d.SniffedRows)},
	}
	if f.metricsBy != "" && d.Format != "" {
		names := d.FieldNames
		if names == nil { // of a stream
			names = make([]string, d.Fields)
		}
		field, err := fieldOf("--metrics-by", f.metricsBy, names)
		if err != nil {
			return err
		}
		j.MetricsBy = &field
	}
	if err := f.workersLost.describe(c, j, f.colocate); err != nil {
		return err
	}
	f.sync.describe(j)
	f.compress.settle(c, j)
	if j.Storage, err = f.storage.describe(c, d.Bytes/textBytes/idsPerRow); err != nil {
		return err
	}
	if j.Storage != nil && j.MaxBytes == 0 {
		j.MaxBytes = budget(j.Servers)
	}
	if j.Device, err = f.storage.device(c, f.storage.policy.Value); err != nil {
		return err
	}
	if j.Storage != nil || j.Device != nil {
		j.LookAhead = train.LookAhead
	}
	if j.Audit, err = f.audit.describe(c); err != nil {
		return err
	}
	if j.Hot, err = f.hot.describe(c); err != nil {
		return err
	}
	if err := f.see.describe(c, j); err != nil {
		return err
	}
	if err := f.optimizers(j); err != nil {
		return err
	}
	if err := f.readLifecycle(j); err != nil {
		return err
	}
	f.settle(ctx, j, src)
	if err := j.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// optimizers settles how rows and dense values are updated. A rate of 0 that was given is
// one; a rate that was not given is the kind's default.
func (f *trainFlags) optimizers(j *train.Job) (err error) {
	given := f.input.given
	var zeros, denseZeros []string
	j.Optimizer = table.Optimizer{Kind: f.optimizer.Value, LR: f.lr, L1: f.l1, L2: f.l2}
	switch {
	case !given("lr"):
		j.Optimizer.LR = j.RateOf(j.Optimizer.Kind)
	case f.lr == 0:
		zeros = []string{"lr"}
	}
	kind := f.denseOptimizer.Value
	if kind == "" {
		kind = f.optimizer.Value
	}
	if kind == table.RowAdaGrad {
		kind = table.AdaGrad
	}
	j.DenseOptimizer = table.Optimizer{Kind: kind, L2: f.denseL2}
	switch {
	case given("dense-lr"):
		if j.DenseOptimizer.LR = f.denseLR; f.denseLR == 0 {
			denseZeros = []string{"lr"}
		}
	case f.denseOptimizer.Value == "" || f.denseOptimizer.Value == f.optimizer.Value:
		j.DenseOptimizer.LR, denseZeros = f.lr, zeros
	}
	if j.DenseOptimizer.LR == 0 && denseZeros == nil && kind == table.Adam {
		j.DenseOptimizer.LR = train.AdamRate
		if j.Optimizer.Kind == table.Adam {
			j.DenseOptimizer.LR = j.Optimizer.LR
		}
	}
	if j.Optimizer, err = j.Optimizer.WithZeros(zeros...); err != nil {
		return cli.Usagef("--lr: %w", err)
	}
	if j.DenseOptimizer, err = j.DenseOptimizer.WithZeros(denseZeros...); err != nil {
		return cli.Usagef("--dense-lr: %w", err)
	}
	j.Optimizer, j.DenseOptimizer = j.Optimizer.WithDefaults(), j.DenseOptimizer.WithDefaults()
	return nil
}

// check refuses values that no job can have, naming the flag.
func (f *trainFlags) check() error {
	for _, p := range []struct {
		name  string
		value int
		least int
	}{{"dim", f.dim, 1}, {"batch", f.batch, 1}, {"servers", f.servers, 1}, {"workers", f.workers, 1},
		{"patience", f.patience, 0}, {"threads", f.threads, 0}, {"lanes", f.lanes, 0}, {"epochs", f.epochs, 0}} {
		if p.value < p.least {
			return cli.Usagef("--%s %d: must be at least %d", p.name, p.value, p.least)
		}
	}
	for _, p := range []struct {
		name  string
		value float32
	}{{"lr", f.lr}, {"dense-lr", f.denseLR}, {"l1", f.l1}, {"l2", f.l2}, {"dense-l2", f.denseL2}} {
		if !(p.value >= 0) || math.IsInf(float64(p.value), 0) {
			return cli.Usagef("--%s %v: must be a finite number, not negative", p.name, p.value)
		}
	}
	for _, units := range f.hidden {
		if units < 1 || units > model.MaxUnits {
			return cli.Usagef("--hidden %s: a layer has %d units, must be 1 to %d", strings.ReplaceAll(strings.Trim(fmt.Sprint(f.hidden), "[]"), " ", ","), units, model.MaxUnits)
		}
	}
	if f.batch > dataset.MaxBatch {
		return cli.Usagef("--batch %d: must be at most %d", f.batch, dataset.MaxBatch)
	}
	if _, err := f.transport.Devices(); err != nil {
		return err
	}
	if _, err := job.NUMANode(f.numa, 0, ""); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// settle fills in what depends on the machine or on other flags.
func (f *trainFlags) settle(ctx context.Context, j *train.Job, src *dataset.Source) {
	cores := runtime.NumCPU()
	if j.Threads == 0 {
		j.Threads = max(1, cores/j.Members())
	}
	if j.Lanes == 0 {
		j.Lanes = max(1, cores/j.Servers/4, len(j.Device.Kinds()))
	}
	switch {
	case f.input.given("epochs"):
	case j.Stream != nil:
		j.Epochs = train.Forever
	case len(j.Valid) > 0:
		j.Epochs = 30
	default:
		j.Epochs = 1
	}
	j.SettleChains()
	if j.Dataset == "auto" {
		j.Dataset = "queue"
		if j.GlobalShuffle || j.Epochs > 1 && src != nil && src.FitsMemory() {
			j.Dataset = "memory"
		}
		if was := train.SavedDataset(ctx, j.Checkpoint); was != "" { // with more --epochs, too
			j.Dataset = was
		}
	}
}

// writable finds out before training whether the model can be written.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cli.Usagef("--out %s: %w", dir, err)
	}
	probe, err := os.CreateTemp(dir, ".psrt-probe-")
	if err != nil {
		return cli.Usagef("--out %s: not writable: %w", dir, err)
	}
	_, err = probe.Write(make([]byte, 4096))
	probe.Close()
	os.Remove(probe.Name())
	if err != nil {
		return cli.Usagef("--out %s: %w", dir, err)
	}
	return nil
}

func (f *trainFlags) token() ([]byte, error) {
	if f.tokenFile == "" {
		return nil, cli.Usagef("--rank needs --token-file: a file with a secret of at least 16 bytes, the same at every rank (head -c 32 /dev/urandom > token)")
	}
	b, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return nil, cli.Usagef("--token-file: %w", err)
	}
	if len(b) < 16 {
		return nil, cli.Usagef("--token-file %s has %d bytes, want at least 16", f.tokenFile, len(b))
	}
	return b, nil
}

// inputFlags say how files are read; shared by train, eval and predict.
type inputFlags struct {
	format *cli.Choice
	schema string
	task   *cli.Choice
	fields int
	pipe   string
	wait   time.Duration
	given  func(flag string) bool
}

func (f *inputFlags) register(c *cobra.Command) {
	f.given = c.Flags().Changed
	f.format = cli.NewChoice("auto", "criteo", "libsvm", "libffm", "libfm", "csv", "auto")
	c.Flags().Var(f.format, "format", "format of the files")
	c.Flags().StringVar(&f.schema, "schema", "", "YAML `file` describing csv columns")
	f.task = cli.NewChoice(model.CTR, model.CTR, model.Regression)
	c.Flags().Var(f.task, "task", "ctr: labels 0/1 or -1/1, log loss; regression: real labels, squared loss")
	c.Flags().StringVar(&f.pipe, "pipe-command", "", "shell `command` of your own that reads a file of any kind on stdin (its name is in $PSRT_FILE) and writes rows of --format on stdout")
	c.Flags().DurationVar(&f.wait, "pipe-timeout", dataset.DefaultPipeTimeout, "how long --pipe-command may write nothing before it is taken to hang")
	c.Flags().IntVar(&f.fields, "fields", 0, "number of fields, where the first lines do not show all of them")
	cli.ZeroIsUnset(c.Flags(), "fields")
}

func (f *inputFlags) options() (dataset.Options, error) {
	opts := dataset.Options{Format: dataset.Format(f.format.Value), Task: dataset.Task(f.task.Value), Fields: f.fields, Pipe: f.pipe}
	switch {
	case f.given("pipe-command") && strings.TrimSpace(f.pipe) == "":
		return opts, cli.Usagef("--pipe-command %q: there is no command; leave the flag out to read the files as they are", f.pipe)
	case f.given("pipe-timeout") && f.pipe == "":
		return opts, cli.Usagef("--pipe-timeout %v has no effect without --pipe-command: name the command that it is for", f.wait)
	case f.pipe != "":
		if f.wait <= 0 {
			return opts, cli.Usagef("--pipe-timeout %v: must be above 0", f.wait)
		}
		opts.PipeTimeout = f.wait
	}
	if f.schema != "" {
		s, err := dataset.ReadSchema(f.schema)
		if err != nil {
			return opts, cli.Usagef("%w", err)
		}
		opts.Schema = s
		if opts.Format == dataset.Auto {
			opts.Format = dataset.CSV
		}
	}
	if opts.Format == dataset.CSV && opts.Schema == nil {
		return opts, cli.Usagef("--format csv needs --schema FILE.yaml, which says what each column is; see docs/data.md")
	}
	return opts, nil
}
