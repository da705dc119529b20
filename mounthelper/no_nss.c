/* libcap-ng's archive is one object whose capng_change_id() looks users up. Nothing here calls it, but it
 * would link the name service, with its configuration files and plugins, into a setuid program. These take
 * its place. */

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>

struct passwd *getpwuid(uid_t uid)
{
	(void)uid;
	abort();
}

int initgroups(const char *user, gid_t group)
{
	(void)user;
	(void)group;
	abort();
}
