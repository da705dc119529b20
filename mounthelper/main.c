/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-mounthelper: the only privileged program of Holdfast.
 *
 * Started with a SEQPACKET socket on descriptor 3: by the agent, taken to be hostile, through the setuid bit,
 * or by systemd for a connection of the agent. It sheds what the caller left in the process, looks at the
 * machine with its own eyes, reads root's compiled policy, opens all that it will ever need, gives up
 * everything but two capabilities and about thirty system calls, and then serves requests that name things by
 * id. The order of main() is the argument for its safety. */

#include "assertion.h"
#include "record.h"
#include "startup.h"
#include "trees.h"

#include <sodium.h>
#include <unistd.h>

/* Static because they are large and the stack is small; everything below gets them as arguments. */
static struct policy_file policy;
static struct helper helper;

int main(int argc, char **argv)
{
	struct helper *h = &helper;
	struct census census = {.staged = 0};
	struct view view;
	enum mh_exit code;

	/* A. Shed what the caller left, before anything is parsed. */
	entry_shed(argc, argv, h);
	h->own_pid = getpid();
	start_need(sodium_init() >= 0, START_PROCESS, 0, "libsodium");
	/* B. See the machine as root made it, and open what will be needed. */
	view = view_enter_host(h);
	setup_peer(h);
	setup_policy(h, view.root_fd, HOLDFAST_POLICY_PATH, &policy);
	setup_records(h, view.root_fd);
	view_settle(h, &view);
	setup_trees(h);
	setup_types(h);
	setup_waits(h);
	start_sys(census_take(h, &census), START_TREE, h->agent->stage_base);
	record_start(h, census.staged, census.published);
	/* C. Give up everything that serving does not need. */
	sandbox_drop(h->launch_mode, h->agent);
	start_sys(setup_compare_policy(h), START_POLICY, HOLDFAST_POLICY_PATH);
	setup_folders(h);
	assertion_arm(h);
	filter_load(h);
	code = serve(h);
	/* the locks go before anything that the agent may have slipped in, whose closing could hang */
	(void)close(h->state_fd);
	_exit((int)code);
}
