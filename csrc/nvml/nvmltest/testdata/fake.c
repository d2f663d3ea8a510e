/* A libnvidia-ml.so.1 for tests: five cards at buses 1 to 5. Those at 1 and 2 have two
 * NVLinks to each other, of which one of card 2's is down; 3 is reached over PCIe, 4 by
 * nobody, and 5, both of whose NVLinks are down, over PCIe. WITHOUT_PAIRS leaves a function out, as an old library does, and with
 * WITHOUT_DRIVER it does not begin. */
#include <stdio.h>
#include <string.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, NO_DRIVER = 9 };

static int ready;
static int cards[6];

#ifdef WITHOUT_DRIVER
int nvmlInit_v2(void) { return NO_DRIVER; }
#else
int nvmlInit_v2(void) { ready = 1; return OK; }
#endif

const char *nvmlErrorString(int e) { return e == NOT_FOUND ? "Not Found" : e == UNINITIALIZED ? "Uninitialized" : e == NO_DRIVER ? "Driver Not Loaded" : "another"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **card)
{
	unsigned domain, b;
	if (!ready)
		return UNINITIALIZED;
	if (sscanf(bus, "%x:%x:00.0", &domain, &b) != 2 || b < 1 || b > 5)
		return NOT_FOUND;
	*card = &cards[b];
	return OK;
}

int nvmlDeviceGetNvLinkState(void *card, unsigned link, unsigned *active)
{
	long b = (int *)card - cards;
	if (link >= 18)
		return INVALID;
	if (b == 3 || b == 4 || link % 2 || link > 2) /* links 0 and 2 */
		return NOT_SUPPORTED;
	*active = b == 1 || (b == 2 && link == 0);
	return OK;
}

#ifndef WITHOUT_PAIRS
int nvmlDeviceGetP2PStatus(void *x, void *y, unsigned index, unsigned *status)
{
	long a = (int *)x - cards, b = (int *)y - cards;
	if (index > 4)
		return INVALID;
	*status = index == 2 ? (a > 2 || b > 2) * 5 : (a == 4 || b == 4) * 1;
	return OK;
}
#endif
