/* holdfast-mounthelper: the only privileged program of Holdfast.
 *
 * Started with a SEQPACKET socket on descriptor 3: by the agent, taken to be hostile, through the setuid bit,
 * or by systemd for a connection of the agent. It sheds what the caller left in the process, looks at the
 * machine with its own eyes, reads root's policy, opens all that it will ever need, gives up everything but
 * two capabilities and about thirty system calls, and then serves requests that name things by id. The order
 * of main() is the argument for its safety. */

#include "record.h"
#include "startup.h"
#include "trees.h"

#include "base/clock.h"

#include <signal.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

/* Static because they are large and the stack is small; everything below gets them as arguments. */
static struct policy policy;
static struct helper helper;

/* B. See the machine as root made it, and open what will be needed. */
static void look_around(struct helper *h)
{
	struct view view = view_enter_host(h);

	setup_peer(h);
	setup_policy(h, view.root_fd, HOLDFAST_POLICY_PATH, &policy);
	setup_records(h, view.root_fd);
	view_settle(h, &view);
	setup_trees(h);
	setup_types(h);
	setup_waits(h);
}

static void record_arrival(struct helper *h)
{
	struct census census = {.staged = 0};
	int sys_errno = 0;
	enum mh_start word;

	start_sys(census_take(h, &census), START_TREE, h->agent->stage_base);
	word = record_start(h, h->instance, census.staged, census.published, &sys_errno);
	if (word != START_OK)
		start_fail(word, sys_errno, 0, h->agent->log);
}

int main(int argc, char **argv)
{
	entry_shed(argc, argv, &helper); /* A. before anything is parsed */
	helper.own_pid = getpid();
	start_need(sodium_init() >= 0, START_PROCESS, 0, "libsodium");
	look_around(&helper);
	rate_init(&helper.rate, helper.agent->ops_per_second, helper.agent->burst, clock_monotonic_us());
	record_arrival(&helper);
	/* C. give up everything that serving does not need */
	sandbox_drop(helper.door, helper.agent);
	filter_load(&helper);
	_exit((int)serve(&helper));
}
