/* The fake driver's compiler: PTX text, of what clang makes of csrc/ptx, to instructions that
 * fake_warps.h runs. It refuses what it does not know, by line. */
#include "fake_ops.h"

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum { WARP = 32, ADDRESS = 5, OPERANDS };

#define NEXT(name, text, does) OP_##name,
enum operation { INSTRUCTIONS OP_SIMPLE, OP_LOAD = OP_SIMPLE, OP_STORE, OP_PARAMETER, OP_ADD_ATOMIC, OP_SHUFFLE, OP_MEET, OP_BRANCH, OP_RETURN };
#undef NEXT

#define NEXT(name, text, does) text,
static const char *const simple[] = { INSTRUCTIONS };
#undef NEXT

/* What a register has in one lane. */
union cell {
	u64 u;
	i64 i;
	u32 w;
	int s;
	float f;
	double d;
};

struct instruction {
	enum operation op;
	int guard, unless; /* a register, or -1; whether it is to be false */
	int operand[OPERANDS]; /* registers; numbers have one of their own each */
	int vector, bytes, sign; /* of memory: elements, of so many bytes, extended by sign */
	i64 offset;
	int to; /* a branch's */
	int line;
};

struct function {
	struct function *next;
	char name[64];
	size_t argument; /* bytes */
	struct instruction *code;
	int length, registers;
	union cell *first; /* registers as they are in the beginning, numbers among them */
	int line; /* where the function begins */
};

struct module {
	struct function *functions;
};

/* Where the text is read. */
struct text {
	const char *at;
	int line;
	struct function *f;
	struct { char class[4]; int base, count; } classes[8];
	int n_classes, capacity, numbers;
	struct { char name[32]; int to; } labels[1024];
	int n_labels;
	char jumps[4096][32]; /* names that instructions branch to */
	char wrong[200];
};

enum { TID, NTID, CTAID, NCTAID, LANEID, SPECIALS };
static const char *const specials[] = { "%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x", "%laneid" };

static int refuse(struct text *t, const char *what, const char *word)
{
	if (!*t->wrong)
		snprintf(t->wrong, sizeof t->wrong, "line %d: %s: %.80s", t->line, what, word);
	return -1;
}

static int grow(struct function *f, union cell value)
{
	f->first = realloc(f->first, (size_t)(f->registers + 1) * sizeof *f->first);
	if (!f->first)
		abort();
	f->first[f->registers] = value;
	return f->registers++;
}

/* The register of a number: 12, -3, 0f3F800000, 0d3FF0000000000000. */
static int number(struct text *t, const char *word)
{
	union cell c = { 0 };
	char *end;
	if (word[0] == '0' && (word[1] == 'f' || word[1] == 'F'))
		c.u = strtoull(word + 2, &end, 16);
	else if (word[0] == '0' && (word[1] == 'd' || word[1] == 'D'))
		c.u = strtoull(word + 2, &end, 16);
	else if (word[0] == '-')
		c.i = strtoll(word, &end, 0);
	else
		c.u = strtoull(word, &end, 0);
	return end == word || *end ? refuse(t, "no number", word) : grow(t->f, c);
}

static int operand(struct text *t, const char *word)
{
	if (*word != '%') {
		if (strstr(word, "_param_")) { /* its place in the one argument there is */
			union cell c = { 0 };
			return grow(t->f, c);
		}
		return number(t, word);
	}
	for (int i = 0; i < SPECIALS; i++)
		if (!strcmp(word, specials[i]))
			return i;
	size_t letters = strcspn(word + 1, "0123456789");
	for (int i = 0; i < t->n_classes; i++)
		if (strlen(t->classes[i].class) == letters && !strncmp(t->classes[i].class, word + 1, letters)) {
			int n = atoi(word + 1 + letters);
			return n < t->classes[i].count ? t->classes[i].base + n : refuse(t, "no such register", word);
		}
	return refuse(t, "no such register", word);
}

/* .reg .b32 %r<20>; */
static void declare(struct text *t, char *line)
{
	char class[4] = "";
	int count = 0;
	if (sscanf(line, ".reg .%*s %%%3[a-z]<%d>", class, &count) != 2 || count < 1 || count > 1 << 16 || t->n_classes == 8) {
		refuse(t, "no registers", line);
		return;
	}
	strcpy(t->classes[t->n_classes].class, class);
	t->classes[t->n_classes].base = t->f->registers;
	t->classes[t->n_classes++].count = count;
	const union cell never = { .u = 0xdeadbeefdeadbeef };
	for (int i = 0; i < count; i++)
		grow(t->f, never);
}

/* The words behind an instruction's name: registers, numbers, and where there are brackets an
 * address with an offset, which has a place of its own. */
static void operands(struct text *t, struct instruction *x, char *rest)
{
	int n = 0;
	for (char *word = strtok(rest, ", \t{};"); word; word = strtok(NULL, ", \t{};")) {
		if (n == ADDRESS) {
			refuse(t, "too many operands", word);
			return;
		}
		if (*word != '[') {
			x->operand[n++] = operand(t, word);
			continue;
		}
		word[strcspn(word, "]")] = 0;
		char *plus = strchr(word, '+'), *end; /* before a negative offset, too */
		if (plus) {
			x->offset = strtoll(plus + 1, &end, 0);
			if (*end || end == plus + 1)
				refuse(t, "no offset", plus);
			*plus = 0;
		}
		x->operand[ADDRESS] = operand(t, word + 1);
	}
}

/* ld.global.v4.f32 and its like: how much is moved. */
static int moves(struct instruction *x, const char *type)
{
	x->vector = 1;
	if (*type == 'v') {
		x->vector = atoi(type + 1);
		type = strchr(type, '.');
		if (!type++)
			return 0;
	}
	x->sign = *type == 's';
	x->bytes = atoi(type + 1) / 8;
	return (x->vector == 1 || x->vector == 2 || x->vector == 4) && (x->bytes == 4 || x->bytes == 8) && strchr("usbf", *type);
}

static int begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static void instruct(struct text *t, char *line)
{
	struct function *f = t->f;
	if (f->length == t->capacity) {
		t->capacity = t->capacity ? 2 * t->capacity : 256;
		f->code = realloc(f->code, (size_t)t->capacity * sizeof *f->code);
		if (!f->code)
			abort();
	}
	struct instruction *x = &f->code[f->length];
	memset(x, 0, sizeof *x);
	x->line = t->line;
	x->guard = -1;
	if (*line == '@') {
		x->unless = line[1] == '!';
		line += 1 + x->unless;
		char *end = line + strcspn(line, " \t");
		char *next = end + strspn(end, " \t");
		*end = 0;
		x->guard = operand(t, line);
		line = next;
	}
	size_t length = strcspn(line, " \t;");
	char name[40];
	if (length >= sizeof name) {
		refuse(t, "no instruction", line);
		return;
	}
	memcpy(name, line, length);
	name[length] = 0;
	char *rest = line + length;
	if (begins(name, "bra")) {
		x->op = OP_BRANCH;
		if (f->length >= (int)(sizeof t->jumps / sizeof *t->jumps) || sscanf(rest, " %31[A-Za-z0-9_$]", t->jumps[f->length]) != 1)
			refuse(t, "no label", rest);
	} else if (!strcmp(name, "ret"))
		x->op = OP_RETURN;
	else {
		int known = 1;
		if (begins(name, "ld.param.")) {
			x->op = OP_PARAMETER;
			known = moves(x, name + strlen("ld.param."));
		} else if (begins(name, "ld.global.")) {
			x->op = OP_LOAD;
			known = moves(x, name + strlen("ld.global."));
		} else if (begins(name, "st.global.")) {
			x->op = OP_STORE;
			known = moves(x, name + strlen("st.global."));
		} else if (!strcmp(name, "atom.global.add.u64")) {
			x->op = OP_ADD_ATOMIC;
			x->vector = 1;
			x->bytes = 8;
		} else if (!strcmp(name, "shfl.sync.bfly.b32"))
			x->op = OP_SHUFFLE;
		else if (!strcmp(name, "bar.warp.sync"))
			x->op = OP_MEET;
		else {
			int i = 0;
			while (i < OP_SIMPLE && strcmp(simple[i], name))
				i++;
			x->op = (enum operation)i;
			known = i < OP_SIMPLE;
		}
		if (!known) {
			refuse(t, "no instruction that this driver knows", name);
			return;
		}
		operands(t, x, rest);
	}
	f->length++;
}

static void label(struct text *t, const char *line, size_t length)
{
	if (t->n_labels == (int)(sizeof t->labels / sizeof *t->labels) || length >= sizeof t->labels->name) {
		refuse(t, "too many labels", line);
		return;
	}
	memcpy(t->labels[t->n_labels].name, line, length);
	t->labels[t->n_labels].name[length] = 0;
	t->labels[t->n_labels++].to = t->f->length;
}

static void resolve(struct text *t)
{
	for (int i = 0; i < t->f->length; i++) {
		if (t->f->code[i].op != OP_BRANCH)
			continue;
		int l = 0;
		while (l < t->n_labels && strcmp(t->labels[l].name, t->jumps[i]))
			l++;
		if (l == t->n_labels)
			refuse(t, "no such label", t->jumps[i]);
		else
			t->f->code[i].to = t->labels[l].to;
	}
	const struct instruction *last = t->f->length ? &t->f->code[t->f->length - 1] : NULL;
	if (!last || (last->op != OP_RETURN && last->op != OP_BRANCH) || last->guard >= 0)
		refuse(t, "a function that does not end", t->f->name);
}

static struct function *enter(struct text *t, const char *line)
{
	struct function *f = calloc(1, sizeof *f);
	if (!f || sscanf(strstr(line, ".entry") + 6, " %63[A-Za-z0-9_]", f->name) != 1)
		abort();
	f->line = t->line;
	const union cell zero = { 0 };
	for (int i = 0; i < SPECIALS; i++)
		grow(f, zero);
	t->n_classes = t->n_labels = t->capacity = 0;
	return f;
}

static void line_of(struct text *t, struct module *m, char *line)
{
	size_t word = strcspn(line, " \t:;");
	if (!*line || begins(line, "//") || *line == '{' || *line == '(' || *line == ')')
		return;
	if (strstr(line, ".entry")) {
		struct function *f = enter(t, line);
		f->next = m->functions;
		m->functions = t->f = f;
	} else if (*line == '}') {
		if (t->f)
			resolve(t);
		t->f = NULL;
	} else if (begins(line, ".param")) {
		char *bytes = strchr(line, '[');
		if (!t->f || t->f->argument || !bytes)
			refuse(t, "not the one argument that this driver takes", line);
		else
			t->f->argument = strtoull(bytes + 1, NULL, 10);
	} else if (begins(line, ".reg") && t->f)
		declare(t, line);
	else if (*line == '.' || !t->f)
		;
	else if (line[word] == ':')
		label(t, line, word);
	else
		instruct(t, line);
}

static void unload(struct module *m)
{
	for (struct function *f = m->functions, *next; f; f = next) {
		next = f->next;
		free(f->code);
		free(f->first);
		free(f);
	}
	free(m);
}

/* NULL, and what is wrong, where the text is none that this driver knows. */
static struct module *compile(const char *ptx, char *wrong, size_t room)
{
	struct module *m = calloc(1, sizeof *m);
	struct text *t = calloc(1, sizeof *t);
	char line[1024];
	if (!m || !t)
		abort();
	if (!strstr(ptx, ".version") || !strstr(ptx, ".entry"))
		refuse(t, "this is no PTX", "");
	for (const char *at = ptx; *at && !*t->wrong; at += *at == '\n') {
		size_t length = strcspn(at, "\n");
		t->line++;
		if (length >= sizeof line) {
			refuse(t, "a line too long", "");
			break;
		}
		memcpy(line, at, length);
		line[length] = 0;
		line_of(t, m, line + strspn(line, " \t"));
		at += length;
	}
	if (*t->wrong) {
		snprintf(wrong, room, "%s", t->wrong);
		unload(m);
		m = NULL;
	}
	free(t);
	return m;
}
