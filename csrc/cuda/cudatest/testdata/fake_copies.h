/* The part of fake.c that copies. Of memory of the host only what is pinned may be read or written
 * after a call has returned: by other copies the caller is kept until the stream has done them. */

static int spent(void)
{
	if (copies < 0)
		return OK;
	return copies-- > 0 ? OK : (broken = ILLEGAL_ADDRESS);
}

static void move(void *to, const void *from, size_t n, struct stream *s)
{
	struct op *o = give(named(s), COPY);
	o->to = to;
	o->from = from;
	o->n = n;
}

/* Bytes of the host that stay where they are. */
static int stays(const void *at, size_t n)
{
	const unsigned char *from = at;
	for (struct block *b = blocks; b; b = b->next)
		if (b->host && from >= b->at && from + n <= b->at + b->bytes)
			return 1;
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (kept[i].at && from >= (unsigned char *)kept[i].at && from + n <= (unsigned char *)kept[i].at + kept[i].bytes)
			return 1;
	return 0;
}

/* Waits for what was given to a stream, with the lock, which others have meanwhile. */
static void finish(struct stream *s)
{
	struct event here = { s, 1, 0 };
	struct op *o = give(s, EVENT);
	o->event = &here;
	o->turn = 1;
	while (hangs() || !until(&here, 1)) {
		pthread_mutex_unlock(&lock);
		usleep(100);
		pthread_mutex_lock(&lock);
	}
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t n, void *s)
{
	CALL({
		if (!(r = spent())) {
			move((void *)to, from, n, s);
			if (!stays(from, n))
				finish(named(s));
		}
	});
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t n, void *s)
{
	CALL({
		if (!(r = spent())) {
			move(to, (void *)from, n, s);
			if (!stays(to, n))
				finish(named(s));
		}
	});
}

/* Of rows, only those from a device to the host, from the corner of both. */
struct end {
	size_t x, y;
	int type;
	void *host;
	unsigned long long device;
	void *array;
	size_t pitch;
};

struct rect {
	struct end from, to;
	size_t width, height;
};

int cuMemcpy2DAsync_v2(const struct rect *c, void *s)
{
	CALL({
		if (c->from.type != 2 || c->to.type != 1 || c->from.x || c->from.y || c->to.x || c->to.y || !c->width || c->from.pitch < c->width || c->to.pitch < c->width)
			r = INVALID;
		else if (!(r = spent())) {
			unsigned char *to = c->to.host;
			for (size_t i = 0; i < c->height; i++)
				move(to + i * c->to.pitch, (char *)c->from.device + i * c->from.pitch, c->width, s);
			if (!stays(to, (c->height - 1) * c->to.pitch + c->width))
				finish(named(s));
		}
	});
}

int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t n, void *s) { CALL({ move((void *)to, (void *)from, n, s); }); }

int cuMemsetD8Async(unsigned long long at, unsigned char byte, size_t n, void *s)
{
	CALL({
		struct op *o = give(named(s), FILL);
		o->to = (void *)at;
		o->byte = byte;
		o->n = n;
	});
}
