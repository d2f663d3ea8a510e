package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"psrt/tiers/ckpt/files"
)

const (
	// PieceBytes is what a file being written is sent in, and the memory that
	// it takes. The store's limit of 10,000 pieces bounds a file to 156 GiB.
	PieceBytes = 16 << 20
	// chunkBytes is what one read asks for: large against a round trip.
	chunkBytes = 4 << 20
	// callTimeout bounds every request for a small object or a chunk.
	callTimeout = 2 * time.Minute
	maxRetries  = 5
)

// Store is a prefix of a bucket as a files.FS.
type Store struct {
	place
	core  minio.Core
	lease time.Duration

	mu   sync.Mutex
	lock *lock // the one taken last, held or lost; nil before
}

var _ files.FS = (*Store)(nil)

// Open makes a client; it sends nothing yet.
func Open(_ context.Context, location string) (*Store, error) {
	p, err := parse(location)
	if err != nil {
		return nil, err
	}
	creds := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	c, err := minio.New(p.endpoint, &minio.Options{Creds: creds, Secure: p.secure, Region: p.region, MaxRetries: maxRetries})
	if err != nil {
		return nil, fmt.Errorf("s3: %s: %w", location, err)
	}
	return &Store{place: p, core: minio.Core{Client: c}, lease: LeaseTime}, nil
}

// Path is a name for people, without parameters.
func (s *Store) Path(name string) string {
	return strings.TrimSuffix(scheme+s.bucket+"/"+s.prefix+name, "/")
}

func (s *Store) key(name string) string { return s.prefix + name }

// within bounds a request.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// meaning gives a store's error the meaning that callers look for.
func meaning(err error) error {
	if err == nil {
		return nil
	}
	switch code := minio.ToErrorResponse(err).Code; code {
	case minio.NoSuchKey:
		return fmt.Errorf("%w (%v)", fs.ErrNotExist, err)
	case minio.PreconditionFailed:
		return fmt.Errorf("%w (%v)", fs.ErrExist, err)
	case minio.NoSuchBucket:
		return fmt.Errorf("%w; make the bucket first", err)
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		return fmt.Errorf("%w (%s: %v); check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", fs.ErrPermission, code, err)
	}
	return err
}

func (s *Store) Create(ctx context.Context, name string) (files.File, error) {
	r, w := io.Pipe()
	f := &upload{w: w, done: make(chan error, 1)}
	go func() {
		_, err := s.core.Client.PutObject(ctx, s.bucket, s.key(name), r, -1, minio.PutObjectOptions{
			// Each piece has a checksum of its own, which every server understands;
			// the client's default is a framing of the body that some do not.
			PartSize: PieceBytes, DisableContentSha256: true, SendContentMd5: true})
		// Writes that come after a failure get it.
		r.CloseWithError(errors.Join(meaning(err), io.ErrClosedPipe))
		f.done <- meaning(err)
	}()
	return f, nil
}

// upload is an object on its way. It is there only after Close.
type upload struct {
	w    *io.PipeWriter
	done chan error
	over bool
}

var errAborted = errors.New("s3: the upload was aborted")

func (f *upload) Write(b []byte) (int, error) { return f.w.Write(b) }

func (f *upload) Close() error {
	if f.over {
		return fs.ErrClosed
	}
	f.over = true
	_ = f.w.Close() // a pipe's Close does not fail
	return <-f.done
}

func (f *upload) Abort() {
	if !f.over {
		f.over = true
		_ = f.w.CloseWithError(errAborted) // nor does this
		<-f.done
	}
}

func (s *Store) Open(ctx context.Context, name string) (files.Reader, error) {
	c, cancel := within(ctx)
	defer cancel()
	st, err := s.core.StatObject(c, s.bucket, s.key(name), minio.StatObjectOptions{})
	if err != nil {
		return nil, meaning(err)
	}
	return &object{ctx, s, s.key(name), st.ETag, st.Size}, nil
}

// object is read a range at a time. Its ETag keeps all ranges those of one
// object.
type object struct {
	ctx       context.Context
	s         *Store
	key, etag string
	size      int64
}

func (o *object) Size() int64  { return o.size }
func (o *object) Chunk() int   { return chunkBytes }
func (o *object) Close() error { return nil }
func (o *object) Forget()      {} // nothing is cached here

func (o *object) ReadAt(b []byte, at int64) (int, error) {
	want := min(int64(len(b)), o.size-at)
	if at < 0 || want < 0 {
		return 0, fmt.Errorf("s3: read at byte %d of %d", at, o.size)
	}
	if want == 0 {
		return 0, io.EOF
	}
	ctx, cancel := within(o.ctx)
	defer cancel()
	var opts minio.GetObjectOptions
	if err := opts.SetRange(at, at+want-1); err != nil {
		return 0, err
	}
	if err := opts.SetMatchETag(o.etag); err != nil {
		return 0, err
	}
	r, _, _, err := o.s.core.GetObject(ctx, o.s.bucket, o.key, opts)
	if err != nil {
		return 0, meaning(err)
	}
	defer r.Close()
	n, err := io.ReadFull(r, b[:want])
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (s *Store) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	r, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return files.ReadAll(r, limit)
}

func (s *Store) List(ctx context.Context, dir string) ([]files.Entry, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	prefix := s.prefix
	if dir != "" {
		prefix += dir + "/"
	}
	var list []files.Entry
	for o := range s.core.Client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if o.Err != nil {
			return nil, meaning(o.Err)
		}
		name := strings.TrimPrefix(o.Key, prefix)
		if base, isDir := strings.CutSuffix(name, "/"); base != "" {
			list = append(list, files.Entry{Name: base, Dir: isDir, Bytes: o.Size})
		}
	}
	return list, nil
}

func (s *Store) Put(ctx context.Context, name string, b []byte, absent bool) error {
	if err := s.mine(); err != nil {
		return err
	}
	var o minio.PutObjectOptions
	if absent {
		o.SetMatchETagExcept("*")
	}
	_, err := s.put(ctx, name, b, o)
	return err
}

// put gives the new object's ETag.
func (s *Store) put(ctx context.Context, name string, b []byte, o minio.PutObjectOptions) (string, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	o.DisableMultipart = true
	info, err := s.core.Client.PutObject(ctx, s.bucket, s.key(name), bytes.NewReader(b), int64(len(b)), o)
	return info.ETag, meaning(err)
}

// Sync does nothing: what a PUT made is durable when it is answered.
func (s *Store) Sync(context.Context, string) error { return nil }

func (s *Store) Remove(ctx context.Context, name string) error {
	if err := s.mine(); err != nil {
		return err
	}
	ctx, cancel := within(ctx)
	defer cancel()
	if err := meaning(s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{})); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	below, listed := make(chan minio.ObjectInfo), make(chan error, 1)
	go func() {
		defer close(below)
		for o := range s.core.Client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.key(name) + "/", Recursive: true}) {
			if o.Err != nil {
				listed <- meaning(o.Err)
				return
			}
			select {
			case below <- o:
			case <-ctx.Done():
			}
		}
		listed <- ctx.Err()
	}()
	var failed error
	for e := range s.core.RemoveObjects(ctx, s.bucket, below, minio.RemoveObjectsOptions{}) {
		failed = meaning(e.Err)
	}
	if failed != nil {
		cancel()
	}
	return errors.Join(failed, <-listed)
}
