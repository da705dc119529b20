/* holdfast-mounthelper: the only privileged program of Holdfast.
 *
 * The agent, taken to be hostile, starts it by its setuid bit with a SEQPACKET socket on descriptor 3. It
 * sheds what the agent left in the process, looks at the machine with its own eyes, reads root's policy,
 * opens all that it will ever need, gives up everything but two capabilities and about thirty system calls,
 * and then serves requests that name things by id. The order of main() is the argument for its safety. */

#include "channel.h"
#include "entry.h"
#include "filter.h"
#include "helper.h"
#include "policy_file.h"
#include "record.h"
#include "sandbox.h"
#include "serve.h"
#include "setup.h"
#include "startup.h"
#include "trees.h"
#include "view.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Static because they are large and the stack is small; everything below gets them as arguments. */
static struct policy policy;
static struct helper helper = {.policy = &policy,
			       .stage = {.fd = -EBADF},
			       .publish = {.fd = -EBADF},
			       .root_fd = -EBADF,
			       .dev_fd = -EBADF,
			       .sysfs_fd = -EBADF,
			       .sysfs_block_fd = -EBADF,
			       .state_fd = -EBADF,
			       .audit_fd = -EBADF,
			       .trail = {.fd = -EBADF, .read_fd = -EBADF},
			       .mountinfo = {.fd = -EBADF}};
static int message_fd = STDERR_FILENO;
static struct error error;

static void must(enum status status, enum exit_code code)
{
	if (status != STATUS_OK)
		startup_fail(message_fd, code, &error);
}

/* A. Shed the caller's state. Returns its uid. */
static uint32_t shed_caller(int argc, char **argv)
{
	struct entry_facts facts;
	enum exit_code code = EXIT_ARGUMENTS;
	enum status status;

	entry_read_facts(argc, argv, &facts);
	status = entry_check(&facts, &code, &error);
	must(status, code);
	must(entry_descriptors(&message_fd, &error), EXIT_DESCRIPTORS);
	must(entry_process_state(&error), EXIT_PROCESS);
	must(entry_limits(&error), EXIT_LIMITS);
	must(entry_become_root(&error), EXIT_PROCESS);
	return facts.ruid;
}

/* The policy's block for the caller, or the end. */
static const struct agent_policy *find_agent(uint32_t ruid)
{
	const struct agent_policy *agent = policy_agent(&policy, ruid);

	if (agent)
		return agent;
	error_fill(&error, STATUS_PERMISSION_DENIED, 0,
		   HOLDFAST_POLICY_PATH ": no block for agent uid %u; add: agent %u {...}", ruid, ruid);
	startup_fail(message_fd, EXIT_POLICY, &error);
}

/* B. See the machine as PID 1 sees it, read root's policy, and open what will be needed. Returns the caller's
 * block. */
static const struct agent_policy *look_around(struct helper *h, uint32_t ruid, uint32_t *ret_instance)
{
	struct view view = VIEW_INIT;
	const struct agent_policy *agent;
	unsigned int line;

	if (sodium_init() < 0)
		must(error_set(&error, STATUS_INTERNAL, 0, "initialise libsodium"), EXIT_PROCESS);
	must(view_enter_host(&view, &h->mountinfo, &error), EXIT_NAMESPACE);
	must(policy_file_load(view.host_root_fd, HOLDFAST_POLICY_PATH, &policy, h->policy_digest, &line,
			      &error),
	     EXIT_POLICY);
	agent = find_agent(ruid);
	h->agent = agent;
	memcpy(h->boot_id, view.boot_id, sizeof(h->boot_id));
	must(channel_open(h, ruid, &error), EXIT_DESCRIPTORS);
	must(setup_trail(h, view.host_root_fd, ret_instance, &error), EXIT_TRAIL);
	must(view_settle(&view, agent->container, &error), EXIT_NAMESPACE);
	must(view_open_mountinfo(&view, &h->mountinfo.fd, &error), EXIT_NAMESPACE);
	must(setup_trees(h, &error), EXIT_TREES);
	setup_types(h);
	h->audit_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT);
	view_release(&view);
	return agent;
}

static void record_arrival(struct helper *h, const struct agent_policy *agent, uint32_t instance)
{
	struct census census = {.staged = 0};
	int r = census_take(h, &census);

	if (r < 0)
		must(error_set(&error, STATUS_INTERNAL, r, "read the mount table"), EXIT_TREES);
	r = record_start(h, instance, agent->container, census.staged, census.published);
	if (r < 0)
		must(error_set(&error, STATUS_UNAVAILABLE, r,
			       "append to the log %s (if its end is no record of this program, move it away "
			       "and "
			       "create an empty one)",
			       agent->log),
		     EXIT_TRAIL);
}

/* C. Give up everything that serving does not need. */
static void lock_down(struct helper *h, const struct agent_policy *agent)
{
	const struct filter_fds fds = {.socket = HELPER_SOCKET_FD,
				       .log = h->trail.fd,
				       .log_read = h->trail.read_fd,
				       .mountinfo = h->mountinfo.fd,
				       .state = h->state_fd,
				       .audit = h->audit_fd};
	void *filter = NULL;

	must(sandbox_drop(agent->helper_uid, agent->helper_gid, &error), EXIT_LOCKDOWN);
	must(filter_build(&fds, agent->allow_detach, &filter, &error), EXIT_LOCKDOWN);
	/* nothing is ever written there again, and under the filter nothing could */
	close_fdp(&message_fd);
	message_fd = -EBADF;
	if (filter_load(filter) < 0)
		_exit(EXIT_LOCKDOWN);
}

int main(int argc, char **argv)
{
	uint32_t instance = 0;
	uint32_t ruid = shed_caller(argc, argv);
	const struct agent_policy *agent;

	helper.door = DOOR_SETUID;
	helper.own_pid = getpid();
	agent = look_around(&helper, ruid, &instance);
	rate_init(&helper.rate, agent->ops_per_second, agent->burst, clock_monotonic_us());
	record_arrival(&helper, agent, instance);
	lock_down(&helper, agent);
	_exit((int)serve(&helper));
}
