/* SPDX-License-Identifier: Apache-2.0 */
#include "status_text.h"

#include "certificate.h"
#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "claim/release.h"
#include "lead/lead.h"

void server_status_text(char *dst, size_t size, void *userdata)
{
	const struct server *server = userdata;
	const struct state *state = &server->state;
	const int64_t left_ms = server->certificate->expires_at_ms - clock_realtime_ms();
	struct release_stats releases = {.stuck = 0};
	char stuck[64] = "";
	char certificate[64] = "";
	struct lead_view view;

	if (server->rpc && server->lead && !server->is_serving) {
		lead_view(server->lead, &view);
		(void)str_format(dst, size, "listening on %s:%u, cluster %s; %s%s", server->config.host,
				 (unsigned int)server->port, server->config.cluster,
				 view.is_known ? "follows " : "no server leads",
				 view.is_known ? view.name : "");
		return;
	}
	if (!server->rpc || !server->releases) { /* it is still being built, or being taken apart */
		(void)str_copy(dst, size, "not serving");
		return;
	}
	release_stats(server, &releases);
	releases.stuck += state->n_node_failing;
	if (releases.stuck > 0)
		(void)str_format(stuck, sizeof(stuck), " (%zu stuck)", releases.stuck);
	if (server->certificate->expires_at_ms != 0 &&
	    clock_realtime_ms() >= server->certificate->warns_at_ms)
		(void)str_copy(certificate, sizeof(certificate),
			       left_ms > 0 ? "; its certificate expires soon"
					   : "; its certificate has expired");
	(void)str_format(
		dst, size,
		"listening on %s:%u, cluster %s; %zu of %zu node%s connected; %zu release%s waiting%s%s",
		server->config.host, (unsigned int)server->port, server->config.cluster, server->n_sessions,
		state->n_nodes, str_s(state->n_nodes), state->n_releasing, str_s(state->n_releasing), stuck,
		certificate);
}
