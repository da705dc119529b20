/* SPDX-License-Identifier: Apache-2.0 */
#include "model/source.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>

/* The kernel's inode counters are 64 bits wide, its tmpfs option is not: keep to what fits 31 bits. */
#define TMPFS_INODES_MAX (UINT64_C(1) << 31)

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

_Static_assert((int)MH_CLASS_BLOCK == (int)SOURCE_BLOCK && (int)MH_CLASS_TMPFS == (int)SOURCE_TMPFS &&
		       (int)MH_CLASS_NFS4 == (int)SOURCE_NFS4 && (int)MH_CLASS_BIND == (int)SOURCE_BIND,
	       "the helper's classes are the model's");
_Static_assert((int)BY_ID_MAX < (int)MH_BY_ID_SIZE && (int)SOURCE_EXPORT_MAX < (int)MH_EXPORT_SIZE &&
		       (int)HOST_VOLUME_MAX < (int)MH_LABEL_SIZE,
	       "what is valid fits the wire");

/* A server's address as bytes. */
struct address {
	uint8_t family; /* 4 or 6; 0 without an address */
	uint8_t bytes[16];
};

static struct address parse_address(const char *text)
{
	struct address address = {0};

	if (inet_pton(AF_INET, text, address.bytes) == 1)
		address.family = 4;
	else if (inet_pton(AF_INET6, text, address.bytes) == 1)
		address.family = 6;
	return address;
}

/* Addresses at which no server can be mounted, independent of the policy; NULL: it can be mounted. */
static const char *address_problem(const struct address *address)
{
	struct in6_addr v6;

	memcpy(&v6, address->bytes, sizeof(v6));
	switch (address->family) {
	case 4:
		if (address->bytes[0] == 0)
			return "is no server's address";
		return address->bytes[0] >= 224 ? "is a multicast or reserved address" : NULL;
	case 6:
		if (IN6_IS_ADDR_UNSPECIFIED(&v6))
			return "is no server's address";
		if (IN6_IS_ADDR_MULTICAST(&v6))
			return "is a multicast address";
		if (IN6_IS_ADDR_LINKLOCAL(&v6))
			return "is link-local, which needs an interface";
		return IN6_IS_ADDR_V4MAPPED(&v6) ? "is an IPv4 address in IPv6's clothes; write 192.0.2.7"
						 : NULL;
	default:
		return "is not an IPv4 or IPv6 address (names are not resolved on nodes)";
	}
}

static bool is_component(const char *s, size_t n)
{
	static const char allowed[] = LETTERS DIGITS "._-";

	if (n == 0 || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
		return false;
	return strspn(s, allowed) >= n;
}

static bool is_export(const char *path)
{
	const char *p = path;

	do {
		size_t n;

		if (*p != '/')
			return false;
		n = strcspn(++p, "/");
		if (!is_component(p, n))
			return false;
		p += n;
	} while (*p != '\0');
	return true;
}

static bool is_by_id(const char *s)
{
	static const char allowed[] = LETTERS DIGITS ":._+-";
	size_t n = strlen(s);

	return n > 0 && s[0] != '.' && strspn(s, allowed) == n;
}

void source_default(struct source *source)
{
	struct address address = parse_address(source->server);
	char text[INET6_ADDRSTRLEN];

	_Static_assert(INET6_ADDRSTRLEN <= SOURCE_SERVER_MAX + 1, "every address fits");
	if (address.family != 0 &&
	    inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes, text, sizeof(text)))
		(void)str_copy(source->server, sizeof(source->server), text);
}

/* A key of another class is a mistake of the writer. */
static enum status check_strangers(const struct source *source, struct error *err)
{
	static const char *const names[SOURCE_CLASS_N] = {
		[SOURCE_BLOCK] = "block",
		[SOURCE_TMPFS] = "tmpfs",
		[SOURCE_NFS4] = "nfs4",
		[SOURCE_BIND] = "bind",
	};
	const struct {
		const char *field;
		enum source_class class;
		bool is_set;
	} fields[] = {
		{"source.by_id", SOURCE_BLOCK, source->by_id[0] != '\0'},
		{"source.size", SOURCE_TMPFS, source->size_bytes != 0},
		{"source.inodes", SOURCE_TMPFS, source->inodes != 0},
		{"source.server", SOURCE_NFS4, source->server[0] != '\0'},
		{"source.export", SOURCE_NFS4, source->export[0] != '\0'},
		{"source.host_volume", SOURCE_BIND, source->host_volume[0] != '\0'},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (fields[i].is_set && fields[i].class != source->class)
			return error_invalid(err, fields[i].field,
					     "is for class \"%s\", the source is of class \"%s\"",
					     names[fields[i].class], names[source->class]);
	}
	return STATUS_OK;
}

static enum status check_block(const struct source *source, struct error *err)
{
	if (is_by_id(source->by_id))
		return STATUS_OK;
	return error_invalid(err, "source.by_id",
			     "'%.64s' is not an entry of /dev/disk/by-id (1 to %d of "
			     "A-Z a-z 0-9 : . _ + -, not beginning with a dot)",
			     source->by_id, BY_ID_MAX);
}

static enum status check_tmpfs(const struct source *source, struct error *err)
{
	if (source->size_bytes == 0)
		return error_invalid(err, "source.size",
				     "a tmpfs volume needs a size, for example \"64MiB\"");
	if (source->inodes == 0 || source->inodes > TMPFS_INODES_MAX)
		return error_invalid(err, "source.inodes",
				     "a tmpfs volume needs a number of inodes, 1 to %" PRIu64,
				     TMPFS_INODES_MAX);
	return STATUS_OK;
}

static enum status check_nfs4(const struct source *source, struct error *err)
{
	const struct address address = parse_address(source->server);
	const char *problem = address_problem(&address);

	if (problem)
		return error_invalid(err, "source.server", "'%s' %s", source->server, problem);
	if (is_export(source->export))
		return STATUS_OK;
	return error_invalid(err, "source.export",
			     "'%.64s' is not an export (absolute, up to %d, components of A-Z a-z 0-9 . _ -, "
			     "no . or .., no / at the end), for example \"/exports/a\"",
			     source->export, SOURCE_EXPORT_MAX);
}

static enum status check_bind(const struct source *source, struct error *err)
{
	if (id_is_label(source->host_volume))
		return STATUS_OK;
	return error_invalid(err, "source.host_volume",
			     "'%s' is not the name of a host volume of the helpers' policies "
			     "(a-z 0-9 and -, up to %d)",
			     source->host_volume, HOST_VOLUME_MAX);
}

enum status source_validate(const struct source *source, struct error *err)
{
	static enum status (*const checks[SOURCE_CLASS_N])(const struct source *, struct error *) = {
		[SOURCE_BLOCK] = check_block,
		[SOURCE_TMPFS] = check_tmpfs,
		[SOURCE_NFS4] = check_nfs4,
		[SOURCE_BIND] = check_bind,
	};

	if ((unsigned int)source->class >= SOURCE_CLASS_N || !checks[source->class])
		return error_invalid(err, "source.class", "use \"block\", \"tmpfs\", \"nfs4\" or \"bind\"");
	TRY(check_strangers(source, err));
	return checks[source->class](source, err);
}

bool source_eq(const struct source *a, const struct source *b)
{
	return a->class == b->class && str_eq(a->by_id, b->by_id) && a->size_bytes == b->size_bytes &&
	       a->inodes == b->inodes && str_eq(a->server, b->server) && str_eq(a->export, b->export) &&
	       str_eq(a->host_volume, b->host_volume);
}

enum status source_to_wire(const struct source *source, struct mh_source *ret, struct error *err)
{
	enum status status = source_validate(source, err);
	struct address address;

	if (status != STATUS_OK)
		return status;
	memset(ret, 0, sizeof(*ret));
	ret->class = (uint8_t)source->class;
	/* a valid one fits, as asserted above */
	switch (source->class) {
	case SOURCE_BLOCK:
		(void)str_copy(ret->u.block.by_id, sizeof(ret->u.block.by_id), source->by_id);
		break;
	case SOURCE_TMPFS:
		ret->u.tmpfs.size_bytes = source->size_bytes;
		ret->u.tmpfs.inodes = source->inodes;
		break;
	case SOURCE_NFS4:
		address = parse_address(source->server);
		ret->u.nfs4.family = address.family;
		memcpy(ret->u.nfs4.addr, address.bytes, sizeof(ret->u.nfs4.addr));
		(void)str_copy(ret->u.nfs4.export, sizeof(ret->u.nfs4.export), source->export);
		break;
	case SOURCE_BIND:
		(void)str_copy(ret->u.bind.name, sizeof(ret->u.bind.name), source->host_volume);
		break;
	case SOURCE_UNSPECIFIED:
	case SOURCE_CLASS_N:
		break; /* not valid */
	}
	return STATUS_OK;
}
