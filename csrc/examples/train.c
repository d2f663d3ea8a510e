/* train.c - logistic regression in C, through psrt serve.
 *
 *   cc -O2 -o train_c train.c $(pkg-config --cflags --libs psrt) -lm
 *   ./train_c 127.0.0.1:7700 token train.libsvm test.libsvm
 *
 * The model is the table "w" of tables.yaml: one weight for every id, kept and
 * updated by the server. This program reads lines "label id:value id:value ...",
 * pulls the weights of a batch, and pushes what the loss's derivative says. */
#include <psrt.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 512, EPOCHS = 3 };

/* Lines begin[i] <= feature < begin[i+1] of ids and values. */
struct data {
	size_t lines, features;
	float *label;
	size_t *begin;
	uint64_t *id;
	float *value;
};

static void die(const char *what)
{
	fprintf(stderr, "train: %s: %s\n", what, psrt_last_error());
	exit(1);
}

static void *grown(void *p, size_t n, size_t size)
{
	/* Doubles at powers of two. */
	if (n & (n - 1))
		return p;
	p = realloc(p, (n ? 2 * n : 1) * size);
	if (!p) {
		fprintf(stderr, "train: out of memory\n");
		exit(1);
	}
	return p;
}

static struct data read_libsvm(const char *path)
{
	struct data d = {0, 0, NULL, NULL, NULL, NULL};
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	if (!f) {
		perror(path);
		exit(2);
	}
	d.begin = grown(NULL, 0, sizeof *d.begin);
	d.begin[0] = 0;
	while (getline(&line, &room, f) > 0) {
		char *at;
		d.label = grown(d.label, d.lines, sizeof *d.label);
		d.label[d.lines] = strtof(line, &at) > 0;
		for (;;) {
			char *end;
			uint64_t id = strtoull(at, &end, 10);
			if (end == at || *end != ':')
				break;
			d.id = grown(d.id, d.features, sizeof *d.id);
			d.value = grown(d.value, d.features, sizeof *d.value);
			d.id[d.features] = id;
			d.value[d.features++] = strtof(end + 1, &at);
		}
		d.lines++;
		d.begin = grown(d.begin, d.lines, sizeof *d.begin);
		d.begin[d.lines] = d.features;
	}
	free(line);
	fclose(f);
	return d;
}

static void free_data(struct data *d)
{
	free(d->label);
	free(d->begin);
	free(d->id);
	free(d->value);
}

/* The probability of a click for the lines from first; w are the weights of
 * their features. */
static void predict(const struct data *d, size_t first, size_t lines, const float *w, float *p)
{
	size_t from = d->begin[first];
	for (size_t i = 0; i < lines; i++) {
		float z = 0;
		for (size_t j = d->begin[first + i]; j < d->begin[first + i + 1]; j++)
			z += w[j - from] * d->value[j];
		p[i] = 1 / (1 + expf(-z));
	}
}

static const float *by_score;
static int compare(const void *a, const void *b)
{
	float x = by_score[*(const size_t *)a], y = by_score[*(const size_t *)b];
	return (x > y) - (x < y);
}

/* The share of pairs (click, no click) in the right order; ties count half. */
static double auc(const float *score, const float *label, size_t n)
{
	size_t *order = malloc(n * sizeof *order), clicks = 0;
	double ranks = 0;
	if (!order)
		return 0;
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	by_score = score;
	qsort(order, n, sizeof *order, compare);
	for (size_t i = 0; i < n;) {
		size_t j = i, here = 0;
		for (; j < n && score[order[j]] == score[order[i]]; j++)
			here += label[order[j]] > 0;
		ranks += here * ((double)(i + j) + 1) / 2;
		clicks += here;
		i = j;
	}
	free(order);
	return (ranks - (double)clicks * (clicks + 1) / 2) / ((double)clicks * (double)(n - clicks));
}

static void train(psrt_table *w, const struct data *d, float *p, float *weights, float *grads)
{
	for (size_t first = 0; first < d->lines; first += BATCH) {
		size_t lines = d->lines - first < BATCH ? d->lines - first : BATCH;
		size_t from = d->begin[first], n = d->begin[first + lines] - from;
		uint64_t ticket;
		if (psrt_pull_sparse(w, d->id + from, n, weights, &ticket))
			die("pull");
		predict(d, first, lines, weights, p);
		for (size_t i = 0; i < lines; i++)
			for (size_t j = d->begin[first + i]; j < d->begin[first + i + 1]; j++)
				grads[j - from] = (p[i] - d->label[first + i]) * d->value[j] / lines;
		/* By ticket: the keys of the pull, which need not be sent again. Gradients
		 * of an id that is there several times are added. */
		if (psrt_push_sparse_ticket(w, ticket, n, grads))
			die("push");
	}
}

int main(int argc, char **argv)
{
	char config[1024];
	psrt_client *client;
	psrt_table *w;
	if (argc != 5) {
		fprintf(stderr, "usage: %s HOST:PORT TOKEN_FILE TRAIN.libsvm TEST.libsvm\n", argv[0]);
		return 2;
	}
	struct data data = read_libsvm(argv[3]), test = read_libsvm(argv[4]);
	size_t most = data.features > test.features ? data.features : test.features;
	size_t lines = test.lines > BATCH ? test.lines : BATCH;
	float *p = malloc(lines * sizeof *p), *weights = malloc(most * sizeof *weights), *grads = malloc(most * sizeof *grads);
	if (!p || !weights || !grads) {
		fprintf(stderr, "train: out of memory\n");
		return 1;
	}
	snprintf(config, sizeof config, "servers: ['%s']\ntoken_file: '%s'\n", argv[1], argv[2]);
	if (psrt_client_open(config, &client))
		die("open");
	if (psrt_table_open(client, "w", &w))
		die("table w");
	for (int epoch = 0; epoch < EPOCHS; epoch++)
		train(w, &data, p, weights, grads);

	/* Ids that were never seen give zeros, and no rows are made for them. */
	psrt_call_options options = {.size = sizeof options, .flags = PSRT_READ_ONLY};
	if (psrt_pull_sparse_opt(w, test.id, test.features, weights, NULL, &options))
		die("pull");
	predict(&test, 0, test.lines, weights, p);
	printf("auc %.4f\n", auc(p, test.label, test.lines));
	if (psrt_client_close(client))
		die("close");
	free_data(&data);
	free_data(&test);
	free(p);
	free(weights);
	free(grads);
	return 0;
}
