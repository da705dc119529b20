/* SPDX-License-Identifier: Apache-2.0 */
#include "access/foreign.h"

#include "access/access.h"
#include "base/str.h"

static bool is_seen(struct server *server, const struct rpc_call *call, enum access_right right,
		    const char *own, const char *namespace)
{
	return str_eq(namespace, own) ||
	       (call && access_check(server, call, right, namespace, NULL) == STATUS_OK);
}

const char *foreign_name(struct server *server, const struct rpc_call *call, const char *own,
			 const struct volume *volume, char ret[static FOREIGN_NAME_SIZE])
{
	if (is_seen(server, call, ACCESS_VOLUME_LIST, own, volume->namespace))
		(void)str_format(ret, FOREIGN_NAME_SIZE, "volume %s in namespace %s", volume->id,
				 volume->namespace);
	else
		(void)str_copy(ret, FOREIGN_NAME_SIZE, FOREIGN_VOLUME);
	return ret;
}

bool foreign_shows_claims(struct server *server, const struct rpc_call *call, const char *own,
			  const char *namespace)
{
	return is_seen(server, call, ACCESS_VOLUME_READ, own, namespace);
}
