/* Chain replication as sched/chain does it, small enough to try every history: 3
 * servers, 2 workers with one push each, and maps that cut servers out or take one
 * in. Run by model_test.go; docs/replication.md has the protocol in words.
 *
 *   spin -a -DINIT=7 -DEPOCHS=3 chain.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan -m100000
 *
 * The network is what has been sent, for ever: what arrives is any of it, any time,
 * any number of times, or never. That is loss, delay, repetition and reordering at
 * once. So a server that is dead is one that does nothing any more, which any may at
 * any moment; one that was started again is another server.
 *
 * There is no time. A lease is a bit that one server grants another and that may
 * end at any moment; a fence waits for the end of what was granted to those cut out,
 * as the real one waits until it must have ended.
 *
 * With FLOW a push may come in two halves, of which the first gets its place in the
 * order and goes down the chain; its worker may die before the second.
 *
 * What has been sent whole takes the place of its first half: whoever may still hear that
 * may have heard it before. So there are fewer states.
 *
 * The defines of mutations (ACK_EARLY ...) each leave something out.
 */
#ifndef INIT
#define INIT 7          /* members of the first map, a bit each */
#endif
#ifndef EPOCHS
#define EPOCHS 3        /* maps, the first included */
#endif
#define N 3
#define OPS 2           /* the order's length: every worker's push once, or one and a place left empty */
#define NOBODY 3
#define VOID 3          /* what is in a place left empty: nobody's push */

/* The store's map. Order in a chain is by number: who joins is server 2, the last,
 * and survivors keep their order. */
byte mapEpoch = 1;
byte mapIn = INIT;
byte mapJoin = NOBODY;

/* Servers: the map that each has adopted, and what it has. */
byte ep[N] = 1;
byte mem[N] = INIT;
byte joiner[N] = NOBODY;
bool has[N];            /* the state holds all that is committed */
byte hist[N * OPS];     /* s*OPS + k: the worker whose push is op k+1; 0 none */
byte have[N];           /* ops in the log and before */
bool half[N];           /* of the last of them only the first half is here */
byte com[N];            /* of them committed: done to the state */
byte removed[N];        /* who must have stopped serving before this one goes on */
bool inStep[N];         /* the joiner behind this tail has the copy */
bool copied[N];         /* this joiner has it */
bool grant[9];          /* x*N + d: x's word to d that x is in d's epoch */

/* The network, by epoch and sender. */
byte data[15 * OPS];    /* (epoch*N + s)*OPS + k */
byte begin[15 * OPS];   /* the same, of first halves */
byte ack[15];           /* epoch*N + s: the highest commit that s has told */
bool clear[15];         /* epoch*N + s: s, and all before it, are past their fences */

/* What the world has been told. */
byte acked;             /* workers whose push was acknowledged, a bit each */
byte shown;             /* workers whose push a newest read has shown */
byte order[OPS];        /* committed ops */
bool begun;             /* worker 1 has pushed; worker 2 is second, they are alike */
byte i, j, k;
bool yes;
bool wasHead;

#define bit(x) (1 << (x))
#define net(x) (ep[x] * N + (x))
#define member(x) (has[x] && (mem[x] & bit(x)))
#define isHead(x) (member(x) && (mem[x] & (bit(x) - 1)) == 0)
#define isTail(x) (member(x) && (mem[x] >> ((x) + 1)) == 0)
#define isJoiner(x) (joiner[x] == (x))
#define whole(x) (have[x] - half[x])
#define before(x) ((x) == 2 && (mem[x] & 2) -> 1 : ((x) >= 1 && (mem[x] & 1) -> 0 : NOBODY))
#define after(x) ((x) == 0 && (mem[x] & 2) -> 1 : ((x) <= 1 && (mem[x] & 4) -> 2 : (inStep[x] -> joiner[x] : NOBODY)))

#ifdef JOINER_SILENT
#define confirms(x, j) (mem[x] & bit(j))
#else
#define confirms(x, j) ((mem[x] & bit(j)) || joiner[x] == j)
#endif

inline leased(x) {
	yes = true; j = 0;
	do
	:: j < N -> if :: confirms(x, j) && j != x && !grant[j * N + x] -> yes = false :: else fi; j++
	:: else -> break
	od; j = 0
}

inline fenced(x) {
	yes = true; j = 0;
#ifndef NO_FENCE
	do
	:: j < N -> if :: (removed[x] & bit(j)) && grant[x * N + j] -> yes = false :: else fi; j++
	:: else -> break
	od; j = 0
#endif
}

/* commit does op com[x] to x's state: it is the same op everywhere, and no push is
 * in it twice. */
inline commit(x) {
	assert(order[com[x]] == 0 || order[com[x]] == hist[x * OPS + com[x]]);
	order[com[x]] = hist[x * OPS + com[x]];
	k = 0;
	do
	:: k < com[x] -> assert(hist[x * OPS + k] == VOID || hist[x * OPS + k] != hist[x * OPS + com[x]]); k++
	:: else -> break
	od; k = 0;
	com[x]++;
	ack[net(x)] = com[x];
	if
	:: isHead(x) && hist[x * OPS + com[x] - 1] != VOID -> acked = acked | bit(hist[x * OPS + com[x] - 1])
	:: else
	fi
}

/* drive: what a clear member has goes to its successor, at once, for the network
 * may be as late as it likes; a clear tail commits. */
inline drive(x) {
	j = com[x];
	do
	:: member(x) && clear[net(x)] && j < whole(x) -> data[net(x) * OPS + j] = hist[x * OPS + j]; begin[net(x) * OPS + j] = 0; j++
	:: member(x) && clear[net(x)] && j < have[x] && j >= whole(x) -> begin[net(x) * OPS + j] = hist[x * OPS + j]; j++
	:: else -> break
	od; j = 0;
	do
#ifdef NO_STEP
	:: isTail(x) && clear[net(x)] && com[x] < whole(x) -> commit(x)
#else
	:: isTail(x) && clear[net(x)] && !inStep[x] && com[x] < whole(x) -> commit(x)
#endif
	:: isJoiner(x) && com[x] < whole(x) -> com[x]++; ack[net(x)] = com[x]
	:: else -> break
	od
}

inline drop(x) {
	has[x] = false; have[x] = 0; com[x] = 0; half[x] = false; k = 0;
	do
	:: k < OPS -> hist[x * OPS + k] = 0; k++
	:: else -> break
	od; k = 0
}

inline adopt(x) {
	removed[x] = (mapIn & bit(x) -> (removed[x] | mem[x]) & ~mapIn : 0);
	if
	:: (mapIn & bit(x)) && copied[x] -> has[x] = true     /* it has caught up, and is the tail */
	:: !(mapIn & bit(x)) -> drop(x)
	:: else
	fi;
	wasHead = isHead(x);
	ep[x] = mapEpoch; mem[x] = mapIn; joiner[x] = mapJoin;
	copied[x] = false; inStep[x] = false;
	/* Torn: its worker sends it again, to who is the head now. */
	if
#ifdef KEEP_TORN
	:: half[x] && isHead(x) && !wasHead -> half[x] = false; have[x]--; hist[x * OPS + have[x]] = 0
#else
	:: half[x] && !(isHead(x) && wasHead) -> half[x] = false; have[x]--; hist[x * OPS + have[x]] = 0
#endif
	:: else
	fi;
	wasHead = false;
	if
	:: has[x] && !isTail(x) -> ack[net(x)] = com[x]
	:: else
	fi;
	/* What was granted to it was for the epoch before, and that it has left. */
	grant[x] = false; grant[N + x] = false; grant[2 * N + x] = false;
	/* What nobody is left to hear is forgotten, to have fewer states. */
	i = 1;
	do
	:: i < ep[0] && i < ep[1] && i < ep[2] ->
		j = 0;
		do
		:: j < N ->
			k = 0;
			do
			:: k < OPS -> data[(i * N + j) * OPS + k] = 0; begin[(i * N + j) * OPS + k] = 0; k++
			:: else -> break
			od; k = 0;
			ack[i * N + j] = 0; clear[i * N + j] = false; j++
		:: else -> break
		od; j = 0;
		i++
	:: else -> break
	od; i = 0
}

/* A member that hears its predecessor is clear is so, too, once it is fenced. */
#define heard(x) (isHead(x) || clear[ep[x] * N + before(x)])

#ifdef NO_DEDUP
#define isNew(x, w) true
#else
#define isNew(x, w) ((have[x] < 1 || hist[x * OPS] != w) && (have[x] < 2 || hist[x * OPS + 1] != w))
#endif
#define takes(x, w) (isHead(x) && !half[x] && have[x] < OPS && isNew(x, w))

inline submit(x, w, torn) {
	hist[x * OPS + have[x]] = w; have[x]++; half[x] = torn; begun = true;
#ifdef ACK_EARLY
	acked = acked | bit(w);
#endif
	drive(x)
}

#define hears(x) ((member(x) || isJoiner(x) && copied[x]) && before(x) != NOBODY)
#define from(x) ((ep[x] * N + before(x)) * OPS)
#define beginsAt(x) (hears(x) && !half[x] && have[x] < OPS && begin[from(x) + have[x]])
#define arrives(x) (hears(x) && whole(x) < OPS && data[from(x) + whole(x)])

#ifdef SERVE_DEPOSED
#define serves true
#else
#define serves yes
#endif

inline read(x) {
	i = 0; k = 0;
	do
	:: i < com[x] -> k = k | bit(hist[x * OPS + i]); i++
	:: else -> break
	od;
	k = k & ~bit(VOID);
	assert((acked & ~k) == 0);      /* no acknowledged push is lost */
	assert((shown & ~k) == 0);      /* nor one that was shown */
	shown = shown | k; k = 0;
	i = 0;
	do                              /* one epoch at a time */
	:: i < N && i != x && isTail(i) && clear[net(i)] -> leased(i); assert(!yes); i++
	:: i < N && !(i != x && isTail(i) && clear[net(i)]) -> i++
	:: else -> break
	od; i = 0
}

/* The tail x copies its state to the joiner: one step here, for what matters is
 * its place among the ops. From then on it commits what the joiner has. */
inline copy(x) {
	inStep[x] = true; copied[2] = true; com[2] = com[x]; have[2] = com[x]; half[2] = false; k = 0;
	do
	:: k < OPS -> hist[2 * OPS + k] = (k < com[x] -> hist[x * OPS + k] : 0); k++
	:: else -> break
	od; k = 0;
	ack[net(2)] = com[2]
}

inline server(x) {
	do
	/* A worker asks, again and again. */
	:: atomic { takes(x, 1) -> submit(x, 1, false) }
	:: atomic { takes(x, 2) && begun -> submit(x, 2, false) }
#ifdef FLOW
	/* Its first half is here, then the second, or its place stays empty. */
	:: atomic { takes(x, 1) -> submit(x, 1, true) }
	:: atomic { takes(x, 2) && begun -> submit(x, 2, true) }
	:: atomic { isHead(x) && half[x] -> half[x] = false; drive(x) }
	:: atomic { isHead(x) && half[x] -> half[x] = false; hist[x * OPS + have[x] - 1] = VOID; drive(x) }
#endif
	/* It is clear. */
	:: atomic { member(x) && !clear[net(x)] && heard(x) ->
		fenced(x);
		if :: yes -> clear[net(x)] = true; ack[net(x)] = com[x]; drive(x) :: else fi; yes = false }
	/* The first half of an op comes from its predecessor. */
	:: atomic { beginsAt(x) -> hist[x * OPS + have[x]] = begin[from(x) + have[x]]; have[x]++; half[x] = true; drive(x) }
	/* All of it does, or what is still missing, or that its place stays empty. */
	:: atomic { arrives(x) ->
		k = data[from(x) + whole(x)];
		assert(!half[x] || k == VOID || hist[x * OPS + have[x] - 1] == k);      /* no push is made of two */
		hist[x * OPS + whole(x)] = k; have[x] = whole(x) + 1; half[x] = false; k = 0;
		drive(x) }
	/* Its successor has committed. */
	:: atomic { member(x) && com[x] < whole(x) && after(x) != NOBODY && ack[ep[x] * N + after(x)] > com[x] -> commit(x) }
	/* A reader asks for the newest. */
	:: atomic { isTail(x) && clear[net(x)] -> leased(x); if :: serves -> read(x) :: else fi; yes = false }
	/* It confirms an epoch to its tail, and that ends. */
	:: atomic { ((mem[x] & bit(x)) || isJoiner(x)) -> i = 0;
		do
		:: i < N && i != x && ep[i] == ep[x] && isTail(i) && !grant[x * N + i] -> grant[x * N + i] = true; break
		:: i < N -> i++
		:: else -> break
		od; i = 0 }
	:: atomic { grant[x * N] -> grant[x * N] = false }
	:: atomic { grant[x * N + 1] -> grant[x * N + 1] = false }
	:: atomic { grant[x * N + 2] -> grant[x * N + 2] = false }
	/* A joiner gets the copy, and is made the tail when its feeder says that it has
	 * all. */
	:: atomic { x != 2 && isTail(x) && clear[net(x)] && joiner[x] == 2 && !inStep[x] && ep[2] == ep[x] -> copy(x) }
	:: atomic { mapEpoch < EPOCHS && mapJoin == 2 && ep[x] == mapEpoch && isTail(x) && inStep[x] ->
		mapIn = mapIn | 4; mapJoin = NOBODY; mapEpoch++ }
	/* Somebody believes it dead, rightly or not, and cuts it out; never the last. */
	:: atomic { mapEpoch < EPOCHS && (mapIn & bit(x)) && mapIn != bit(x) -> mapIn = mapIn & ~bit(x); mapEpoch++ }
	/* It learns of a newer map. */
	:: atomic { ep[x] < mapEpoch -> adopt(x) }
	/* Server 2 begins to join. */
	:: atomic { x == 2 && mapEpoch < EPOCHS && !(INIT & 4) && !(mapIn & 4) && mapJoin == NOBODY -> mapJoin = 2; mapEpoch++ }
	od
}

init {
	d_step { has[0] = INIT & 1; has[1] = (INIT >> 1) & 1; has[2] = (INIT >> 2) & 1 };
	atomic { run server0(); run server1(); run server2() }
}

proctype server0() { server(0) }
proctype server1() { server(1) }
proctype server2() { server(2) }
