/* SPDX-License-Identifier: Apache-2.0 */
#include "access/local_operators.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "rpc/pki.h"

#include <pwd.h>

enum { OVERFLOW_UID = 65534 }; /* kernel.overflowuid, user_namespaces(7) */

enum status local_operators_find(const char names[static LOCAL_OPERATORS_MAX][NODE_ID_MAX + 1],
				 struct local_operators *ret, struct error *err)
{
	*ret = (struct local_operators){.n = 0};
	for (size_t i = 0; i < LOCAL_OPERATORS_MAX && names[i][0] != '\0'; i++) {
		const struct passwd *user = id_is_name(names[i], NODE_ID_MAX) ? getpwnam(names[i]) : NULL;

		if (!user || user->pw_uid == OVERFLOW_UID)
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"listen: operators: '%s' is not a user of this machine who can be one; "
				"see: getent passwd %s",
				names[i], names[i]);
		ret->list[ret->n].uid = user->pw_uid;
		(void)str_copy(ret->list[ret->n++].name, sizeof(ret->list[0].name), names[i]); /* same size */
	}
	return STATUS_OK;
}

mode_t local_operators_mode(const struct local_operators *operators)
{
	for (size_t i = 0; i < operators->n; i++)
		if (operators->list[i].uid != 0)
			return 0666; /* the uid decides, not the mode */
	return 0600;
}

enum status local_operators_name(const struct local_operators *operators, const char *cluster,
				 struct rpc_peer *peer, struct error *err)
{
	for (size_t i = 0; i < operators->n; i++) {
		if (operators->list[i].uid != peer->uid)
			continue;
		/* a revocation of this identity ends it, and those to come are good */
		peer->issued_ms = clock_realtime_ms() + PKI_AHEAD_MS;
		(void)str_format(peer->uri, sizeof(peer->uri), "holdfast://%s/operator/%s", cluster,
				 operators->list[i].name);
		return STATUS_OK;
	}
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "uid %u is not among the operators of listen { }%s", (unsigned int)peer->uid,
			 peer->uid == OVERFLOW_UID
				 ? "; with PrivateUsers= the unit sees no other user than root"
				 : "");
}
