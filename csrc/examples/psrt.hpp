// psrt.hpp - psrt for C++17: one header over psrt.h.
//
//   psrt::client client("servers: [127.0.0.1:7700]\ntoken_file: token\n");
//   psrt::table w = client.table("w");
//   std::vector<float> values = w.pull(keys);
//   w.push(keys, grads);
//
// Handles close themselves: a request before its table, a table before its client.
// Errors are exceptions: psrt::error, with the status of psrt.h and the library's
// message. What psrt.h says of threads, ownership and fork holds here; the pointer
// forms of pull and push copy nothing, the vector forms only make the vector.
#ifndef PSRT_HPP
#define PSRT_HPP

#include <psrt.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace psrt {

// What a failed call says. status() is one of psrt.h's PSRT_E*.
class error : public std::runtime_error {
public:
	error(int status, const std::string &message, std::uint64_t push = 0) : std::runtime_error(message), status_(status), push_(push) {}
	int status() const noexcept { return status_; }
	// The number of the push that is in doubt, for client::push_status and
	// table::push_missing; 0: none is.
	std::uint64_t push() const noexcept { return push_; }
	// The call may succeed when it is made again.
	bool temporary() const noexcept { return status_ == PSRT_ETIMEDOUT || status_ == PSRT_ECONNECT || status_ == PSRT_EBUSY; }

private:
	int status_;
	std::uint64_t push_;
};

// check throws what the status stands for.
inline void check(int status)
{
	if (status != PSRT_OK)
		throw error(status, psrt_last_error(), psrt_last_push());
}

// refused gives the rows that the servers left as they were of this thread's latest push,
// since their gradient was not finite; see psrt_last_refused.
inline std::uint64_t refused() noexcept { return psrt_last_refused(); }

// How a call shall run; the default is the client's.
class options {
public:
	options() noexcept
	{
		c_.size = sizeof c_;
	}
	options &timeout(std::chrono::microseconds limit) noexcept
	{
		c_.timeout_us = limit.count() > 0 ? static_cast<std::uint64_t>(limit.count()) : 1;
		return *this;
	}
	options &read_only() noexcept { return flag(PSRT_READ_ONLY); }       // pull: make no rows
	options &any_clock() noexcept { return flag(PSRT_ANY_CLOCK); }       // pull: wait for nobody
	options &weights_only() noexcept { return flag(PSRT_WEIGHTS_ONLY); } // save: no optimizer state
	options &check_finite() noexcept { return flag(PSRT_CHECK_FINITE); } // push: throw where rows were refused
	// Asynchronous calls: 1 is added to the eventfd when the call is done.
	options &eventfd(int fd) noexcept
	{
		c_.eventfd = fd;
		c_.use_eventfd = 1;
		return *this;
	}
	// values or grads are in a GPU's memory; see PSRT_DEVICE.
	options &on_device(void *stream = nullptr) noexcept
	{
		c_.stream = stream;
		return flag(PSRT_DEVICE);
	}
	const psrt_call_options *c() const noexcept { return &c_; }

private:
	options &flag(std::uint32_t f) noexcept
	{
		c_.flags |= f;
		return *this;
	}
	psrt_call_options c_{};
};

// A call under way. The memory of the call must live until it is done; a request
// that goes out of scope is waited for.
class request {
public:
	request() noexcept = default;
	explicit request(psrt_req *r) noexcept : r_(r) {}
	request(request &&o) noexcept : r_(std::exchange(o.r_, nullptr)) {}
	request &operator=(request &&o) noexcept
	{
		if (this != &o) {
			finish();
			r_ = std::exchange(o.r_, nullptr);
		}
		return *this;
	}
	~request() { finish(); }

	// Waits for the call; throws what it failed with. A second wait does nothing.
	void wait()
	{
		if (r_)
			check(psrt_wait(std::exchange(r_, nullptr), 0));
	}
	// Waits for at most limit; false where the call goes on.
	bool wait_for(std::chrono::microseconds limit)
	{
		if (!r_)
			return true;
		int status = psrt_wait(r_, limit.count() > 0 ? static_cast<std::uint64_t>(limit.count()) : 1);
		if (status == PSRT_EBUSY)
			return false;
		r_ = nullptr;
		check(status);
		return true;
	}
	// Looks whether the call is done; throws what it failed with.
	bool done()
	{
		int yes = 1;
		if (r_) {
			int status = psrt_test(r_, &yes);
			if (yes || status != PSRT_OK)
				r_ = nullptr;
			check(status);
		}
		return yes != 0;
	}

private:
	void finish() noexcept
	{
		if (r_)
			(void)psrt_wait(std::exchange(r_, nullptr), 0);
	}
	psrt_req *r_ = nullptr;
};

// The distinct keys of a batch in the servers' order; keys[i] is
// unique[index[i]].
struct batch {
	std::vector<std::uint64_t> unique;
	std::vector<std::int32_t> index;
};

// One sparse table. A copy is the same table; it ends with its client.
class table {
public:
	std::size_t dim() const noexcept { return info_.dim; }
	const psrt_table_info &info() const noexcept { return info_; }
	psrt_table *c() const noexcept { return t_; }

	// values[i*dim() ..] becomes the row of keys[i]. The result is a ticket.
	std::uint64_t pull(const std::uint64_t *keys, std::size_t n, float *values, const options &o = {}) const
	{
		std::uint64_t ticket = 0;
		check(psrt_pull_sparse_opt(t_, keys, n, values, &ticket, o.c()));
		return ticket;
	}
	std::vector<float> pull(const std::vector<std::uint64_t> &keys, const options &o = {}) const
	{
		std::vector<float> values(keys.size() * dim());
		check(psrt_pull_sparse_opt(t_, keys.data(), keys.size(), values.data(), nullptr, o.c()));
		return values;
	}
	request pull_async(const std::uint64_t *keys, std::size_t n, float *values, const options &o = {}) const
	{
		psrt_req *r = nullptr;
		check(psrt_pull_sparse_async(t_, keys, n, values, nullptr, o.c(), &r));
		return request(r);
	}

	// Sends grads[i*dim() ..] for keys[i]; returns when the servers have applied it.
	void push(const std::uint64_t *keys, std::size_t n, const float *grads, const options &o = {}) const
	{
		check(psrt_push_sparse_opt(t_, keys, n, grads, o.c()));
	}
	void push(const std::vector<std::uint64_t> &keys, const std::vector<float> &grads, const options &o = {}) const
	{
		if (grads.size() != keys.size() * dim())
			throw error(PSRT_EINVAL, "psrt: " + std::to_string(grads.size()) + " gradients for " + std::to_string(keys.size()) +
			                             " keys of dimension " + std::to_string(dim()));
		push(keys.data(), keys.size(), grads.data(), o);
	}
	// push to a table with a lifecycle: how often each key was shown and clicked, and
	// its slot. Empty is one show each, no click, slot 0.
	void push_counts(const std::vector<std::uint64_t> &keys, const std::vector<float> &grads, const std::vector<float> &shows = {},
	                 const std::vector<float> &clicks = {}, const std::vector<std::uint32_t> &slots = {}, const options &o = {}) const
	{
		const std::size_t n = keys.size();
		if (grads.size() != n * dim() || (!shows.empty() && shows.size() != n) || (!clicks.empty() && clicks.size() != n) ||
		    (!slots.empty() && slots.size() != n))
			throw error(PSRT_EINVAL, "psrt: gradients or counts that are not one for each of " + std::to_string(n) + " keys");
		check(psrt_push_sparse_counts(t_, keys.data(), n, grads.data(), shows.empty() ? nullptr : shows.data(),
		                              clicks.empty() ? nullptr : clicks.data(), slots.empty() ? nullptr : slots.data(), o.c()));
	}
	// Counters decay and rows go that are not worth their place; a day passes.
	void shrink() const { check(psrt_table_shrink(t_)); }
	void end_day() const { check(psrt_table_end_day(t_)); }

	// The same for the keys of a pull, which are not sent again. PSRT_ESTALE: push
	// with keys.
	void push(std::uint64_t ticket, std::size_t n, const float *grads, const options &o = {}) const
	{
		check(psrt_push_sparse_ticket_opt(t_, ticket, n, grads, o.c()));
	}
	request push_async(const std::uint64_t *keys, std::size_t n, const float *grads, const options &o = {}) const
	{
		psrt_req *r = nullptr;
		check(psrt_push_sparse_async(t_, keys, n, grads, o.c(), &r));
		return request(r);
	}

	batch plan(const std::vector<std::uint64_t> &keys) const
	{
		batch b{keys, std::vector<std::int32_t>(keys.size())};
		std::size_t n = 0;
		check(psrt_plan(t_, keys.data(), keys.size(), b.unique.data(), b.index.data(), &n));
		b.unique.resize(n);
		return b;
	}
	// What has become of each key in a push that failed (error::push): PSRT_PUSH_*.
	std::vector<std::uint8_t> push_states(std::uint64_t push, const std::vector<std::uint64_t> &keys) const
	{
		std::vector<std::uint8_t> states(keys.size());
		check(psrt_push_states(t_, push, keys.data(), keys.size(), states.data()));
		return states;
	}
	// Repeats exactly what is missing of a push that failed, with its keys and gradients.
	void push_missing(std::uint64_t push, const std::uint64_t *keys, std::size_t n, const float *grads, const options &o = {}) const
	{
		check(psrt_push_missing(t_, push, keys, n, grads, o.c()));
	}
	void prefetch(const std::vector<std::uint64_t> &keys) const { check(psrt_prefetch(t_, keys.data(), keys.size())); }

private:
	friend class client;
	table(psrt_client *c, const std::string &name)
	{
		check(psrt_table_open(c, name.c_str(), &t_));
		info_.size = sizeof info_;
		check(psrt_table_get_info(t_, &info_));
	}
	psrt_table *t_ = nullptr;
	psrt_table_info info_{};
};

// Memory that servers reach themselves, of n floats; it must not outlive its client.
class memory {
public:
	memory(memory &&o) noexcept : c_(o.c_), p_(std::exchange(o.p_, nullptr)), n_(std::exchange(o.n_, 0)) {}
	memory &operator=(memory &&o) noexcept
	{
		std::swap(c_, o.c_);
		std::swap(p_, o.p_);
		std::swap(n_, o.n_);
		return *this;
	}
	~memory()
	{
		if (p_)
			(void)psrt_mem_free(c_, p_);
	}
	float *data() const noexcept { return p_; }
	std::size_t size() const noexcept { return n_; }
	float &operator[](std::size_t i) const noexcept { return p_[i]; }
	float *begin() const noexcept { return p_; }
	float *end() const noexcept { return p_ + n_; }

private:
	friend class client;
	memory(psrt_client *c, std::size_t n) : c_(c), n_(n)
	{
		void *p = nullptr;
		check(psrt_mem_alloc(c, n * sizeof(float), &p));
		p_ = static_cast<float *>(p);
	}
	psrt_client *c_;
	float *p_ = nullptr;
	std::size_t n_;
};

// A connection to the servers. config is YAML, as psrt_client_open describes it.
class client {
public:
	explicit client(const std::string &config) { check(psrt_client_open(config.c_str(), &c_)); }
	client(client &&o) noexcept : c_(std::exchange(o.c_, nullptr)) {}
	client &operator=(client &&o) noexcept
	{
		std::swap(c_, o.c_);
		return *this;
	}
	~client()
	{
		if (c_)
			(void)psrt_client_close(c_);
	}
	psrt_client *c() const noexcept { return c_; }

	psrt::table table(const std::string &name) const { return psrt::table(c_, name); }
	psrt::memory alloc(std::size_t floats) const { return psrt::memory(c_, floats); }

	std::size_t dense_size() const
	{
		std::size_t n = 0;
		check(psrt_dense_size(c_, &n));
		return n;
	}
	// Where the named part lies: its first float and how many there are.
	std::pair<std::size_t, std::size_t> dense_range(const std::string &name) const
	{
		std::size_t first = 0, n = 0;
		check(psrt_dense_range(c_, name.c_str(), &first, &n));
		return {first, n};
	}
	std::vector<float> pull_dense(const options &o = {}) const
	{
		std::vector<float> values(dense_size());
		check(psrt_pull_dense_opt(c_, values.data(), values.size(), o.c()));
		return values;
	}
	void push_dense(const std::vector<float> &grads, const options &o = {}) const
	{
		check(psrt_push_dense_opt(c_, grads.data(), grads.size(), o.c()));
	}

	void clock() const { check(psrt_clock(c_)); }
	std::uint64_t step() const
	{
		std::uint64_t n = 0;
		check(psrt_clock_now(c_, &n));
		return n;
	}
	void barrier() const { check(psrt_barrier(c_)); }
	// No more steps of this worker: the others wait for it no longer. See psrt.h.
	void finish_steps() const { check(psrt_finish_steps(c_)); }
	// What has become of each part of a push that failed (error::push).
	std::vector<psrt_push_part> push_status(std::uint64_t push) const
	{
		std::vector<psrt_push_part> parts(64);
		for (;;) {
			std::size_t n = 0;
			parts[0].size = sizeof(psrt_push_part);
			const int status = psrt_push_status(c_, push, parts.data(), parts.size(), &n);
			if (status != PSRT_ETOOSMALL) {
				check(status);
				parts.resize(n);
				return parts;
			}
			parts.resize(n);
		}
	}
	void save(const std::string &dir, const options &o = {}) const { check(psrt_save(c_, dir.c_str(), o.c())); }
	void load(const std::string &dir, const options &o = {}) const { check(psrt_load(c_, dir.c_str(), o.c())); }
	std::string stats_json() const
	{
		std::string text(4096, '\0');
		for (;;) {
			std::size_t needed = 0;
			int status = psrt_stats_json(c_, &text[0], text.size(), &needed);
			if (status != PSRT_ETOOSMALL) {
				check(status);
				text.resize(needed - 1);
				return text;
			}
			text.resize(needed);
		}
	}

private:
	psrt_client *c_ = nullptr;
};

} // namespace psrt

#endif
