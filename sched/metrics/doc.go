// Package metrics shows a rank's counts to Prometheus.
//
// It owns the names (docs/metrics.md has each), the bound on how many series
// there can be, the endpoint with its probes (/healthz, /readyz), and how the
// ranks of one machine's job are shown as one. It must not know how anything is counted, nor where ranks come from.
//
// # The life of a scrape
//
//	Prometheus --HTTP--> Endpoint of the launcher    one address for the job
//	                       Rank's own registry
//	                       and one Remote a rank --HTTP over a unix socket--> Endpoint of the rank
//	                                                  Server or Worker collects: values are read,
//	                                                  nothing is kept between scrapes
//
// A rank that does not answer within a second is left out of that scrape and
// counted in psrt_ranks_missing; the others are there. Where ranks were started
// by hand each has an endpoint of its own.
//
// # Bounds
//
// Workers by themselves up to MaxWorkers, the rest as "other"; tables as the
// server counts them; sources up to MaxSources. So a server has at most some
// MaxWorkers x (tables + 6) + MaxSources series.
package metrics
