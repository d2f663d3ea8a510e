/* CUDA as a table of functions like anybody's: each is a call or two of calls.c. */
#include "table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

/* Results that are none of the driver's, which are negated: kernels that a card refuses,
 * by its number; a driver shows fewer than CARDS. */
enum { REFUSED = PSRT_ACCEL_NO_MEMORY + 1, CARDS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Set once, before a device can be opened. */
static struct {
	char *ptx, *names, *name[PSRT_ACCEL_KERNELS];
	uint32_t lanes, block;
} kernels;

/* Texts are asked for without a device and stay: each result's is made once. A driver has
 * some eighty results; those beyond are named only. */
static struct {
	int32_t result;
	char text[192];
} said[64];

/* Why a card refused the kernels, the first time. */
static char *refused[CARDS];

/* The kernels of a card, compiled once for all of its devices that are open, which have its one
 * context: the driver may be at that for a second. The lock is held meanwhile, so that others of the
 * card's wait for it and do not do the same; it is taken before the one above. */
static struct card {
	pthread_mutex_t lock;
	int users; /* devices whose streams may run them; with the last they go */
	void *module;
	void *kernel[PSRT_ACCEL_KERNELS];
} cards[CARDS] = {[0 ... CARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

struct device {
	psrt_cuda_place place;
	struct card *card;
	int uses; /* its kernels, once a stream is wanted */
};

static int32_t result(int e) { return e == PSRT_CU_OUT_OF_MEMORY ? PSRT_ACCEL_NO_MEMORY : -e; }

static const char *said_of(int32_t r)
{
	int e = r == PSRT_ACCEL_NO_MEMORY ? PSRT_CU_OUT_OF_MEMORY : -r;
	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		if (!said[i].result) {
			said[i].result = r;
			psrt_cuda_error_text(e, said[i].text, sizeof said[i].text);
		}
		if (said[i].result == r)
			return said[i].text;
	}
	const char *name = NULL;
	return psrt_cu.error_name(e, &name) || !name ? "unknown error" : name;
}

static const char *text(int32_t r)
{
	pthread_mutex_lock(&lock);
	const char *t = r < REFUSED ? said_of(r) : r < REFUSED + CARDS ? refused[r - REFUSED] : NULL;
	pthread_mutex_unlock(&lock);
	return t;
}

static int32_t count(int32_t *devices) { return result(psrt_cuda_count(devices)); }

static int32_t open_device(int32_t number, void **at)
{
	if (number < 0 || number >= CARDS)
		return result(PSRT_CU_INVALID_VALUE);
	struct device *d = calloc(1, sizeof *d);
	if (!d)
		return PSRT_ACCEL_NO_MEMORY;
	d->card = &cards[number];
	int e = psrt_cuda_retain(number, &d->place);
	if (e)
		free(d);
	else
		*at = d;
	return result(e);
}

/* Whatever the driver says, a card that has failed among it, nobody has them any more. Preconditions:
 * the card's lock. */
static int unload(const psrt_cuda_place *place, struct card *c)
{
	int e = c->module ? psrt_cuda_module_end(place, c->module) : 0;
	c->module = NULL;
	return e;
}

/* A device of a card that hangs is never closed, as nothing of it is given back: so its kernels stay,
 * for which the driver would wait. */
static int32_t close_device(void *at)
{
	struct device *d = at;
	pthread_mutex_lock(&d->card->lock);
	int e = d->uses && --d->card->users == 0 ? unload(&d->place, d->card) : 0;
	pthread_mutex_unlock(&d->card->lock);
	int f = psrt_cuda_release(&d->place);
	free(d);
	return result(e ? e : f);
}

#define PLACE(at) (&((struct device *)(at))->place)

static int32_t room(void *at, uint64_t *f, uint64_t *total) { return result(psrt_cuda_room(PLACE(at), f, total)); }
static int32_t alloc(void *at, uint64_t bytes, uint64_t *address) { return result(psrt_cuda_alloc(PLACE(at), bytes, address)); }
static int32_t drop(void *at, uint64_t address) { return result(psrt_cuda_free(PLACE(at), address)); }
static int32_t host_alloc(void *at, uint64_t bytes, void **address) { return result(psrt_cuda_host_alloc(PLACE(at), bytes, address)); }
static int32_t host_free(void *at, void *address) { return result(psrt_cuda_host_free(PLACE(at), address)); }

/* Keeps why a card refuses the kernels, and is the result that says so. */
static int32_t refuse(int card, int e, const char *what, const char *log)
{
	char why[200];
	psrt_cuda_error_text(e, why, sizeof why);
	size_t n = strlen(log) + sizeof why + 128;
	pthread_mutex_lock(&lock);
	if (!refused[card] && (refused[card] = malloc(n)))
		snprintf(refused[card], n, "kernels: %s: %s %s", what, why, log);
	int kept = refused[card] != NULL;
	pthread_mutex_unlock(&lock);
	return kept ? REFUSED + card : result(e);
}

/* Preconditions: the card's lock. */
static int32_t compile(const psrt_cuda_place *place, struct card *c)
{
	char log[4096] = "";
	const char *what = "cuModuleLoadDataEx";
	int e = psrt_cuda_module(place, kernels.ptx, log, sizeof log, &c->module);
	if (e)
		c->module = NULL;
	for (int i = 0; !e && i < PSRT_ACCEL_KERNELS; i++) {
		what = kernels.name[i];
		e = psrt_cuda_function(place, c->module, what, &c->kernel[i]);
	}
	if (e)
		unload(place, c);
	return !e || e == PSRT_CU_OUT_OF_MEMORY ? result(e) : refuse((int)(c - cards), e, what, log);
}

/* The driver compiles where it has not before: not for who only looks. */
static int32_t use(struct device *d)
{
	struct card *c = d->card;
	pthread_mutex_lock(&c->lock);
	int32_t r = c->users ? 0 : compile(&d->place, c);
	if (!r) {
		c->users++;
		d->uses = 1;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

static int32_t stream(void *at, void **made)
{
	struct device *d = at;
	int32_t r = d->uses ? 0 : use(d);
	return r ? r : result(psrt_cuda_stream(&d->place, made));
}

static int32_t stream_end(void *at, void *s) { return result(psrt_cuda_stream_end(PLACE(at), s)); }
static int32_t event(void *at, void **made) { return result(psrt_cuda_event(PLACE(at), 0, made)); }
static int32_t timed_event(void *at, void **made) { return result(psrt_cuda_event(PLACE(at), 1, made)); }
static int32_t between(void *at, void *first, void *last, float *ms) { return result(psrt_cuda_between(PLACE(at), first, last, ms)); }
static int32_t event_end(void *at, void *e) { return result(psrt_cuda_event_end(PLACE(at), e)); }
static int32_t record(void *at, void *e, void *s) { return result(psrt_cuda_record(PLACE(at), e, s)); }
static int32_t await(void *at, void *s, void *e) { return result(psrt_cuda_stream_wait(PLACE(at), s, e)); }
static int32_t passed(void *at, void *e, int32_t *yes) { return result(psrt_cuda_passed(PLACE(at), e, yes)); }

static int32_t to_device(void *at, void *s, uint64_t to, const void *from, uint64_t n) { return result(psrt_cuda_to_device(PLACE(at), to, from, n, s)); }
static int32_t to_host(void *at, void *s, void *to, uint64_t from, uint64_t n) { return result(psrt_cuda_to_host(PLACE(at), to, from, n, s)); }

static int32_t rows_to_host(void *at, void *s, void *to, uint64_t pitch, uint64_t from, uint64_t width, uint64_t n)
{
	return result(psrt_cuda_rows_to_host(PLACE(at), to, pitch, from, width, n, s));
}

static int32_t fill(void *at, void *s, uint64_t to, int32_t byte, uint64_t n) { return result(psrt_cuda_fill(PLACE(at), to, byte, n, s)); }

static int32_t run(void *at, void *s, int32_t kernel, uint64_t n, const void *argument, uint64_t bytes)
{
	struct device *d = at;
	uint64_t per = kernels.block / kernels.lanes, blocks = n / per + (n % per != 0);
	if (kernel < 0 || kernel >= PSRT_ACCEL_KERNELS || !bytes || blocks > INT32_MAX)
		return result(PSRT_CU_INVALID_VALUE);
	/* The driver takes the argument's address without const, and reads it before it returns. */
	return result(psrt_cuda_launch(&d->place, d->card->kernel[kernel], blocks ? (uint32_t)blocks : 1, kernels.block, (void *)(uintptr_t)argument, s));
}

static int take(const char *ptx, const char *names, uint32_t lanes, uint32_t block)
{
	int n = 0;
	char *rest, *text_of = strdup(ptx), *all = strdup(names);
	char *name[PSRT_ACCEL_KERNELS];
	for (char *w = all ? strtok_r(all, " ", &rest) : NULL; w; w = strtok_r(NULL, " ", &rest), n++)
		if (n < PSRT_ACCEL_KERNELS)
			name[n] = w;
	int good = text_of && n == PSRT_ACCEL_KERNELS && lanes && block >= lanes;
	if (!good || kernels.ptx) {
		free(text_of);
		free(all);
		return good;
	}
	kernels.ptx = text_of;
	kernels.names = all;
	memcpy(kernels.name, name, sizeof name);
	kernels.lanes = lanes;
	kernels.block = block;
	return 1;
}

const psrt_accel_ops *psrt_cuda_table(const char *ptx, const char *names, uint32_t lanes, uint32_t block)
{
	static const psrt_accel_ops ops = {
		.size = sizeof ops, .abi = PSRT_ACCEL_ABI, .name = "CUDA", .text = text, .count = count,
		.open = open_device, .close = close_device, .room = room, .alloc = alloc, .free = drop,
		.host_alloc = host_alloc, .host_free = host_free, .stream = stream, .stream_end = stream_end, .event = event,
		.event_end = event_end, .record = record, .passed = passed, .to_device = to_device, .to_host = to_host,
		.rows_to_host = rows_to_host, .fill = fill, .run = run, .wait = await,
		.timed_event = timed_event, .between = between,
	};
	pthread_mutex_lock(&lock);
	int known = take(ptx, names, lanes, block);
	pthread_mutex_unlock(&lock);
	return known ? &ops : NULL;
}
