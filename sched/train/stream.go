package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/sched/dataset"
	"psrt/sched/usage"
)

// Stream says how a job reads directories into which files keep coming.
type Stream struct {
	// A pass ends when it has Rows rows, or has lasted Seconds, whichever comes first; 0
	// is no bound, and with neither a pass is all there is.
	Rows    int64   `json:"rows,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Idle is for how many seconds no file may have come when the stream is over; 0: it
	// never is.
	Idle float64 `json:"idle_s,omitempty"`
	// Settle is for how many seconds a file must not have changed; 0: DefaultSettle.
	Settle float64 `json:"settle_s,omitempty"`
	// Log is the file in which worker 0 writes what the stream consists of, before anyone
	// reads it; "": none, and the job cannot be resumed.
	Log string `json:"log,omitempty"`
}

// Forever is the number of passes of a job that ends when its stream does.
const Forever = 1 << 30

// keptEpochs are the passes that a stream's result and checkpoints tell of, the last.
const keptEpochs = 1000

func (s *Stream) validate(j *Job) error {
	switch {
	case s == nil:
		return nil
	case s.Rows < 0 || s.Seconds < 0 || s.Idle < 0 || s.Settle < 0:
		return fmt.Errorf("train: a stream in passes of %d rows and %g s, over after %g s, of files settled for %g s: none may be negative", s.Rows, s.Seconds, s.Idle, s.Settle)
	case j.Dataset != dataset.Queue || j.Shuffle:
		return fmt.Errorf("train: a stream is read by --dataset queue, in the order in which files come, not by %s (shuffle: %v)", j.Dataset, j.Shuffle)
	case len(j.Valid) > 0:
		return errors.New("train: --valid with --stream: the best epoch of a stream would be an old one; each pass's training figures are of rows that the model had not seen, and --test is for its end")
	case j.Checkpoint != nil && s.Log == "":
		return errors.New("train: checkpoints of a stream need the log of its files: give --stream-log FILE")
	}
	return nil
}

// feed is the worker's part in saying what the stream consists of: worker 0 decides,
// writes down and tells, the others hear.
type feed interface {
	dataset.Feed
	// open is called where the job stands, before the first Entry.
	open(ctx context.Context) error
	// forget lets go of entries that nobody will ask for again.
	forget(ctx context.Context, before int) error
	close() error
}

// openStream makes the reader of this worker's share of the stream.
func (w *worker) openStream(ctx context.Context, busy *usage.Clock) (*dataset.Reader, error) {
	if w.rank.Index == 0 {
		w.feed = newLeader(w)
	} else {
		w.feed = follower{w.rank.Coord}
	}
	src, err := dataset.NewStream(w.feed, w.job.Stream.Rows, w.job.Reading)
	if err != nil {
		return nil, err
	}
	src.NoteNames(w.names)
	w.warnOf(src)
	opts := dataset.ReaderOptions{Threads: w.job.Threads, Limit: w.limit, Busy: busy, Begun: w.stages.reads}
	if w.rank.Index == 0 { // all workers read the same files
		opts.Note = func(note string) { w.rank.emit(Event{Note: note}) }
	}
	return src.NewReader(ctx, w.share, opts)
}

// seek puts the reader of a stream where the job stands, and counts the examples of
// the pass before that.
func (w *worker) seek(r *dataset.Reader) (before int64, err error) {
	at := dataset.Cursor{}
	if w.pos.Stream != nil {
		at = *w.pos.Stream
	}
	if at.Step != w.pos.Step {
		return 0, fmt.Errorf("train: step %d of pass %d of a stream, whose place is that of step %d: please report this", w.pos.Step, w.pos.Epoch+1, at.Step)
	}
	return int64(at.First), r.Seek(w.pos.Epoch, at)
}

// endStreamPass notes where the next pass begins, saves, and forgets what was before
// the last one.
func (w *worker) endStreamPass(ctx context.Context, next dataset.Cursor) error {
	if w.job.Stream == nil {
		return nil
	}
	w.pos.Stream = &next
	w.pos.Epochs = w.pos.Epochs[max(0, len(w.pos.Epochs)-keptEpochs):]
	if w.saver != nil && !w.keeper.busy() {
		w.saver.step(ctx, w.pos)
	}
	before := w.passBegan
	w.passBegan = next.Entry
	return w.feed.forget(ctx, before)
}

// lastSave writes the checkpoint of a stream that is over, or of a job of no epochs, and repeats the last one of a job
// if that failed. It does not where workers save what they have not sent: they have no step left to do it at.
func (w *worker) lastSave(ctx context.Context) {
	s := w.saver
	untrained := s != nil && w.job.Stream == nil && w.job.Epochs == 0 && s.sum.Newest == 0
	if s == nil || w.job.Stream == nil && (s.sum.LastFailure == "" && !untrained || w.job.savesUnsent()) {
		return
	}
	s.settle()
	if untrained {
		s.write(ctx, w.pos)
		s.settle()
	}
	if w.job.Stream != nil {
		s.step(ctx, w.pos)
		s.settle()
	}
	if s.sum.LastFailure != "" && ctx.Err() == nil {
		s.write(ctx, w.pos)
		s.settle()
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
