package metrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"psrt/rdma/wire"
)

// AddressError is an address that nothing can listen on: the user's to mend.
type AddressError struct {
	Addr   string
	Cause  error
	Remedy string
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("metrics: cannot listen on %q: %v; %s", e.Addr, e.Cause, e.Remedy)
}
func (e *AddressError) Unwrap() error { return e.Cause }

// BadInput says whose fault it is.
func (e *AddressError) BadInput() bool { return true }

// Endpoint is an HTTP server that answers /metrics, /healthz and /readyz.
type Endpoint struct {
	listener net.Listener
	server   *http.Server
	done     chan error
	pages    map[string]func(context.Context) any
	header   time.Duration // within which a request's must come
}

// Listen takes "HOST:PORT", where an empty HOST is every address of this
// machine and port 0 any free one, or "unix:PATH".
func Listen(addr string) (*Endpoint, error) {
	network, address := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, address = "unix", path
	}
	l, err := net.Listen(network, address)
	if err == nil {
		return &Endpoint{listener: l, done: make(chan error, 1), header: headerWithin}, nil
	}
	e := &AddressError{Addr: addr, Cause: err, Remedy: "want HOST:PORT, such as 127.0.0.1:9090 or :9090"}
	var op *net.OpError
	if errors.As(err, &op) {
		e.Cause = op.Err
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Remedy = "another process listens there: end it, or give another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Remedy = "this machine does not have that address: give one of its own, or :PORT for all"
	case errors.Is(err, fs.ErrPermission):
		e.Remedy = "give a port from 1024 on"
	}
	return nil, e
}

// Addr is where it listens.
func (e *Endpoint) Addr() string { return e.listener.Addr().String() }

// What a client may take: nobody holds a connection for nothing.
const (
	headerWithin = 5 * time.Second
	answerWithin = 10 * time.Second
	idleFor      = 2 * time.Minute
	maxHeader    = 16 << 10
	scrapes      = 4  // at a time
	maxWaiting   = 64 // connections that ask for nothing; of more the oldest ends
	closeWithin  = time.Second
)

// On makes an endpoint of a listener, which it closes.
func On(l net.Listener) *Endpoint {
	return &Endpoint{listener: opaque{l}, done: make(chan error, 1), header: headerWithin}
}

// opaque hides what kind of connections a listener gives: package http closes TLS
// ones that speak a protocol that it does not know the name of.
type opaque struct{ net.Listener }

func (o opaque) Accept() (net.Conn, error) {
	c, err := o.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

// Page shows what f gives as JSON at a path; before Serve.
func (e *Endpoint) Page(path string, f func(context.Context) any) {
	if e.pages == nil {
		e.pages = map[string]func(context.Context) any{}
	}
	e.pages[path] = f
}

// Serve answers until Close.
func (e *Endpoint) Serve(g prometheus.Gatherer) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapes, Timeout: answerWithin,
	}))
	if who, ok := g.(waiter); ok {
		mux.HandleFunc("GET "+stallsPath, func(w http.ResponseWriter, r *http.Request) { showWaits(w, who.Waits(r.Context())) })
	}
	serveHealth(mux, g)
	for path, page := range e.pages {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { showJSON(w, page(r.Context())) })
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html><body><a href=\"/metrics\">metrics</a></body></html>\n"))
	})
	w := waiting{wire.NewGate(maxWaiting)}
	e.server = &http.Server{Handler: w.before(mux), ConnState: w.state, ConnContext: w.context,
		ReadHeaderTimeout: e.header, WriteTimeout: 2 * answerWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeader}
	go func() { e.done <- e.server.Serve(e.listener) }()
}

// waiting are the connections on which no whole request has come, or one with a body: a stranger that opens
// many, and says nothing or little, must not take all descriptors of a rank.
type waiting struct{ gate *wire.Gate }

func (w waiting) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew, http.StateIdle:
		w.gate.Enter(c)
	case http.StateClosed, http.StateHijacked:
		w.gate.Leave(c)
	}
}

type connOf struct{}

func (w waiting) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connOf{}, c)
}

// before takes a connection out while its request is answered.
func (w waiting) before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // the server would wait for the body, of which nothing may come
			_ = http.NewResponseController(rw).SetReadDeadline(time.Now().Add(closeWithin))
			rw.Header().Set("Connection", "close")
			http.Error(rw, "metrics are asked for without a body", http.StatusRequestEntityTooLarge)
			return
		}
		if c, ok := r.Context().Value(connOf{}).(net.Conn); ok {
			w.gate.Leave(c)
		}
		h.ServeHTTP(rw, r)
	})
}

// Close ends it; a scrape in progress may finish.
func (e *Endpoint) Close() error {
	if e.server == nil {
		return e.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if err != nil {
		err = e.server.Close()
	}
	if served := <-e.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
