/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the status line for the service manager, and handles SIGHUP. */

#include "agent.h"
#include "agent_parts.h"

#include "base/clock.h"
#include "base/credential.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/pki.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>

static int put_session(const struct agent *agent, char *dst, size_t size)
{
	const struct session_info *session = session_info(agent->session);

	if (session->is_up)
		return str_format(dst, size, "connected to %s", agent->server);
	if (session->last_error.status != STATUS_OK)
		return str_format(dst, size, "not connected to %.80s: %.300s", agent->server,
				  session->last_error.msg);
	return str_format(dst, size, "not connected to %s yet", agent->server);
}

static int put_helper(const struct agent *agent, char *dst, size_t size)
{
	const struct helper_info *helper = helper_client_info(agent->helper);

	if (!helper->is_running && helper->last_error.status != STATUS_OK)
		return str_format(dst, size, "no mount helper: %.300s", helper->last_error.msg);
	if (!helper->is_running)
		return str_format(dst, size, "no mount helper yet");
	if (helper->abandoned > 0)
		return str_format(dst, size, "mount helper runs, %u instance%s of it hang%s",
				  helper->abandoned, str_s(helper->abandoned),
				  helper->abandoned == 1 ? "s" : "");
	return str_format(dst, size, "mount helper runs");
}

static bool put_expiry(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	const int64_t expires_ms = agent->certificate_expires_ms;
	const int64_t now_ms = clock_realtime_ms();
	char text[CLOCK_TEXT_SIZE];

	if (expires_ms == 0 || now_ms < agent->certificate_warns_ms)
		return false;
	(void)str_format(ret, AGENT_PROBLEM_SIZE,
			 "the node's certificate %s %s at %s; make another: holdfast operator cert node %s",
			 renewal_cert(agent->renewal), now_ms < expires_ms ? "expires" : "expired",
			 clock_format(expires_ms, text), agent->config->node_id);
	return true;
}

static bool put_clock(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	const int64_t skew_ms = session_info(agent->session)->clock_skew_ms;
	char text[NODE_CLOCK_TEXT_SIZE];

	if (!node_clock_is_off(skew_ms))
		return false;
	(void)str_format(ret, AGENT_PROBLEM_SIZE,
			 "this node's clock is %s the server's, as of the last welcome: set the one that is "
			 "wrong (chronyc makestep)",
			 node_clock_text(skew_ms, text));
	return true;
}

/* The helper will not mount what this server grants. */
static bool put_ticket_key(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	static const uint8_t none[TICKET_KEY_ID_SIZE];
	const struct helper_info *helper = helper_client_info(agent->helper);
	const uint8_t *server = session_info(agent->session)->ticket_key;
	char text[2 * TICKET_KEY_ID_SIZE + 1];
	bool knows_one = false;

	for (size_t i = 0; i < MH_KEYS_MAX; i++) {
		if (memcmp(helper->ticket_keys[i], server, sizeof(none)) == 0)
			return false; /* also when neither is known */
		knows_one = knows_one || memcmp(helper->ticket_keys[i], none, sizeof(none)) != 0;
	}
	if (!knows_one || helper->ticket_optional || memcmp(server, none, sizeof(none)) == 0)
		return false;
	hex_encode(text, server, TICKET_KEY_ID_SIZE);
	(void)str_format(
		ret, AGENT_PROBLEM_SIZE,
		"the server's ticket key (%s...) is another one than the mount helper's policy names: it "
		"refuses every mount. If holdfast operator status shows the right key, put it into "
		"the policy (ticket_key = in mounthelper.policy)",
		text);
	return true;
}

void agent_note_certificate(struct agent *agent)
{
	char warning[AGENT_PROBLEM_SIZE];
	struct pki_facts facts;

	/* it was loaded just now: a file that has disappeared since is no reason to stop */
	if (pki_read_facts(renewal_cert(agent->renewal), &facts, NULL) != STATUS_OK)
		facts = (struct pki_facts){.expires_ms = 0};
	memcpy(agent->certificate_issuer, facts.issuer, sizeof(facts.issuer));
	agent->certificate_expires_ms = facts.expires_ms;
	agent->certificate_warns_ms = pki_warns_at_ms(&facts);
	if (put_expiry(agent, warning))
		log_line(LOG_WARNING, "%s", warning);
}

static bool put_reload(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	return agent->reload_error.status != STATUS_OK &&
	       str_format(ret, AGENT_PROBLEM_SIZE, "the last reload kept what there was: %s",
			  agent->reload_error.msg) > 0;
}

static bool put_disk(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	return journal_disk_warning(agent->disk, ret, AGENT_PROBLEM_SIZE);
}

static bool put_renewal(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	const struct error *err = renewal_error(agent->renewal);

	return err &&
	       str_format(ret, AGENT_PROBLEM_SIZE, "the node's certificate is not renewed: %s", err->msg) > 0;
}

static bool put_trail(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	const struct helper_info *helper = helper_client_info(agent->helper);

	if (helper->trail_fault)
		return str_format(ret, AGENT_PROBLEM_SIZE,
				  "mount helper: it unmounts and mounts nothing, because it could not record "
				  "its start: %s",
				  helper->trail_fault) > 0;
	return helper->is_without_trail &&
	       str_format(ret, AGENT_PROBLEM_SIZE, "mount helper: " HELPER_NO_TRAIL) > 0;
}

static bool put_reverted(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	return session_info(agent->session)->is_reverted &&
	       str_format(
		       ret, AGENT_PROBLEM_SIZE,
		       "this node has gone back in time in this boot: it was reverted to a snapshot, or its "
		       "journal was put back or lost. Check what its volumes contain, and reboot it") > 0;
}

static bool put_folder(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE])
{
	return plugins_lack_folder(agent->plugins) &&
	       str_format(ret, AGENT_PROBLEM_SIZE,
			  "the folder of CSI plugins %s (plugin_dir in %s) is not there or cannot be read; "
			  "that of /run/holdfast is made by: systemd-tmpfiles --create holdfast-agent.conf",
			  agent->config->plugin_dir, agent->config->path) > 0;
}

typedef bool problem_fn(const struct agent *agent, char ret[static AGENT_PROBLEM_SIZE]);

static problem_fn *const problems[] = {
	put_reload,	put_disk,  put_expiry,	 put_renewal, put_clock,
	put_ticket_key, put_trail, put_reverted, put_folder,
};
static_assert(ARRAY_SIZE(problems) == AGENT_PROBLEMS_MAX, "each problem has room");

size_t agent_problems(const struct agent *agent, char ret[static AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE])
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(problems); i++)
		n += problems[i](agent, ret[n]);
	return n;
}

void agent_status_text(char *dst, size_t size, void *userdata)
{
	const struct agent *agent = userdata;
	const struct mount_snapshot *observed = volume_manager_observed(agent->volumes);
	size_t n_allocs = allocs_count(agent->allocs);
	size_t n_receipts = receipts_count(agent->receipts);
	char session[CSI_TEXT_MAX];
	char helper[CSI_TEXT_MAX];
	char receipts[64] = "";
	char texts[AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE];
	size_t n_problems = agent_problems(agent, texts);
	size_t used;

	(void)put_session(agent, session, sizeof(session));
	(void)put_helper(agent, helper, sizeof(helper));
	if (n_receipts > 0)
		(void)str_format(receipts, sizeof(receipts), "; %zu receipt%s to be sent", n_receipts,
				 str_s(n_receipts));
	used = (size_t)str_format(dst, size, "%s; %s; %zu allocation%s%s%s", session, helper, n_allocs,
				  str_s(n_allocs), receipts,
				  observed ? "" : "; the mounts are not known yet");
	for (size_t i = 0; i < n_problems && used < size; i++)
		used += (size_t)snprintf(dst + used, size - used, "; %s", texts[i]);
}

/* New for the sessions to come; one that is open keeps its own. */
static void reload_certificate(struct agent *agent, struct error *ret)
{
	const struct config *config = agent->config;
	struct error err;

	if (renewal_reload(agent->renewal, &err) == STATUS_OK) {
		log_line(LOG_NOTICE, "%s and %s loaded again, for new sessions", config->tls.ca,
			 renewal_cert(agent->renewal));
		return;
	}
	*ret = err;
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "reload", .err = &err}, "the old certificate stays%s",
		credential_is_one(config->tls.key) ? " (the key is a credential, which is handed over at a "
						     "start: systemctl restart holdfast-agent; mounts stay)"
						   : "");
}

static void reload_settings(struct agent *agent, struct error *ret)
{
	struct config *config = agent->config;
	struct config fresh;
	struct error err;

	if (config_load(config->path, &fresh, &err) != STATUS_OK) {
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "reload", .err = &err}, "the old settings stay");
		*ret = err;
		return;
	}
	if (!config->log_level_is_argument)
		config->log_level = fresh.log_level;
	log_set_level(config->log_level);
	fresh.log_level = config->log_level;
	fresh.log_level_is_argument = config->log_level_is_argument;
	/* both begin as zeroes, padding included; if a compiler has it otherwise, a line is logged in vain */
	// NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c): see above
	if (memcmp(&fresh, config, sizeof(fresh)) != 0)
		log_line(LOG_WARNING,
			 "%s: changes, except of log_level, take effect at the next start: systemctl restart "
			 "holdfast-agent; mounts stay",
			 config->path);
}

void agent_reload(struct agent *agent)
{
	(void)service_send("RELOADING=1\n");
	log_line(LOG_NOTICE, "replacing the mount helper upon SIGHUP; mounts stay");
	agent->reload_error = (struct error){0};
	reload_settings(agent, &agent->reload_error);
	reload_certificate(agent, &agent->reload_error);
	helper_client_restart(agent->helper);
	service_status_notify(agent->service, "READY=1\n");
}
