/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/kit_files.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/id.h"
#include "base/str.h"
#include "conf/conf.h"
#include "ticket/ticket.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define CREDSTORE "/etc/credstore"

/* --- from a server --- */

static enum status add_dropins(const char *config_path, struct kit *kit, struct error *err)
{
	cleanup_closedir DIR *dir = NULL;
	const struct dirent *entry;
	char name[KIT_NAME_SIZE];
	char folder[PATH_MAX];
	char path[PATH_MAX];
	int r;

	TRY(conf_dropin_dir(config_path, folder, err));
	dir = opendir(folder);
	r = dir || errno == ENOENT ? 0 : -errno;
	while (dir && (r = folder_next(dir, &entry)) > 0) {
		if (!conf_is_dropin(entry->d_name))
			continue;
		if (str_format(name, sizeof(name), KIT_DROPINS "%s", entry->d_name) < 0 ||
		    str_format(path, sizeof(path), "%s/%s", folder, entry->d_name) < 0)
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "%s/%s is too long a name for a kit", folder, entry->d_name);
		TRY(kit_add(kit, name, path, err));
	}
	return r < 0 ? error_set(err, status_from_errno(r), r, "read %s", folder) : STATUS_OK;
}

/* A key that was put there for the next start would make the kit useless until then. */
static enum status check_ticket_key(const struct config *config, const struct ticket_issuer *issuer,
				    struct error *err)
{
	uint8_t used[TICKET_KEY_SIZE], found[TICKET_KEY_SIZE];
	struct ticket_issuer *on_disk;

	TRY(ticket_issuer_new(config->ticket_key, config->cluster, &on_disk, err));
	ticket_issuer_file_key(on_disk, found);
	ticket_issuer_file_key(issuer, used);
	ticket_issuer_free(on_disk);
	if (memcmp(used, found, sizeof(used)) == 0)
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"%s is another ticket key than the one that the server has used since its start: restart the "
		"server first, or put the old key back",
		config->ticket_key);
}

enum status kit_collect(const struct server *server, struct kit *ret, struct error *err)
{
	const struct config *config = &server->config;

	*ret = (struct kit){.made_at_ms = clock_realtime_ms()};
	TRY(check_ticket_key(config, server->issuer, err));
	TRY(kit_add(ret, KIT_TICKET_KEY, config->ticket_key, err));
	TRY(kit_add(ret, KIT_KEY, server->in_use.key, err));
	TRY(kit_add(ret, KIT_CERT, server->in_use.cert, err)); /* the same file, perhaps */
	TRY(kit_add(ret, KIT_CA, config->ca, err));
	TRY(kit_check(ret, err));
	if (config->kit_certificate[0] != '\0')
		TRY(kit_add(ret, KIT_RECIPIENT, config->kit_certificate, err));
	if (config->path[0] == '\0')
		return STATUS_OK;
	TRY(kit_add(ret, KIT_SETTINGS, config->path, err));
	return add_dropins(config->path, ret, err);
}

/* --- the settings that count --- */

static enum status write_private(const char *path, const struct kit_file *file, struct error *err)
{
	int r = file_write_atomic(path, 0600, file->data, file->len);

	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

/* "server.d/NAME.hcl" without a folder in NAME. */
static bool is_dropin(const char *name)
{
	const char *base = name + strlen(KIT_DROPINS);

	return str_starts_with(name, KIT_DROPINS) && !strchr(base, '/') && conf_is_dropin(base);
}

static bool is_settings(const char *name)
{
	return str_eq(name, KIT_SETTINGS) || is_dropin(name);
}

static enum status each_settings(const struct kit *kit, const char *dir,
				 enum status (*each)(const char *path, const struct kit_file *file,
						     struct error *err),
				 struct error *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < kit->n; i++)
		if (is_settings(kit->files[i].name) &&
		    str_format(path, sizeof(path), "%s/%s", dir, kit->files[i].name) >= 0)
			TRY(each(path, &kit->files[i], err));
	return STATUS_OK;
}

static enum status drop(const char *path, const struct kit_file *file, struct error *err)
{
	(void)unlink(path);
	return STATUS_OK;
}

/* Read as they are in the kit, to know whether they are good and what they name. */
static enum status load_from_kit(const struct kit *kit, struct config *config, struct error *err)
{
	char dir[] = "/var/tmp/holdfast-kit-XXXXXX";
	char dropins[sizeof(dir) + sizeof(KIT_DROPINS)];
	char path[sizeof(dir) + sizeof(KIT_SETTINGS) + 1];
	enum status status;

	if (!kit_find(kit, KIT_SETTINGS))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"neither this machine nor the kit has settings of the server: write them first, "
			"see holdfast-server.hcl(5)");
	if (!mkdtemp(dir))
		return error_set(err, status_from_errno(errno), errno, "make %s", dir);
	(void)str_format(path, sizeof(path), "%s/" KIT_SETTINGS, dir);
	(void)str_format(dropins, sizeof(dropins), "%s/" KIT_DROPINS, dir);
	if (mkdir(dropins, 0700) < 0)
		status = error_set(err, status_from_errno(errno), errno, "make %s", dropins);
	else
		status = each_settings(kit, dir, write_private, err);
	if (status == STATUS_OK)
		status = config_load(path, config, err);
	(void)each_settings(kit, dir, drop, err);
	(void)rmdir(dropins);
	(void)rmdir(dir);
	return status;
}

/* --- where each file goes --- */

struct planning {
	char dir[PATH_MAX];	/* of the settings */
	char dropins[PATH_MAX]; /* theirs */
	const struct config *config;
};

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return str_starts_with(path, dir) && path[n] == '/';
}

static enum status place_key(const char *path, bool is_default, const char *credential,
			     struct kit_place *place, struct error *err)
{
	place->is_key = true;
	place->is_credential = is_default && sd_booted() > 0;
	if (str_format(place->path, sizeof(place->path), "%s%s", place->is_credential ? CREDSTORE "/" : "",
		       place->is_credential ? credential : path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: the path is too long", path);
	return STATUS_OK;
}

/* @ret_known false: not one that this version knows. */
static enum status name_place(const struct planning *planning, const char *config_path,
			      struct kit_place *place, bool *ret_known, struct error *err)
{
	const struct config *config = planning->config;
	const char *name = place->file->name;
	const char *path = NULL;

	*ret_known = true;
	if (str_eq(name, KIT_TICKET_KEY))
		return place_key(config->ticket_key, config->ticket_key_is_default, CONFIG_TICKET_CREDENTIAL,
				 place, err);
	if (str_eq(name, KIT_KEY))
		return place_key(config->key, config->key_is_default, CONFIG_KEY_CREDENTIAL, place, err);
	if (str_eq(name, KIT_SETTINGS))
		path = config_path;
	else if (str_eq(name, KIT_CA))
		path = config->ca;
	else if (str_eq(name, KIT_CERT))
		path = config->cert;
	else if (str_eq(name, KIT_RECIPIENT) && config->kit_certificate[0] != '\0')
		path = config->kit_certificate;
	if (path)
		return str_copy(place->path, sizeof(place->path), path) >= 0
			       ? STATUS_OK
			       : error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: the path is too long", path);
	*ret_known = is_dropin(name);
	if (*ret_known && str_format(place->path, sizeof(place->path), "%s/%s", planning->dropins,
				     name + strlen(KIT_DROPINS)) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: the path is too long", name);
	return STATUS_OK;
}

static enum status look_at(struct kit_place *place, struct error *err)
{
	cleanup_free char *found = NULL;
	size_t n = 0;
	int r = file_read(place->path, KIT_FILE_MAX, &found, &n);

	if (r < 0 && r != -ENOENT)
		return error_set(err, status_from_errno(r), r, "look at %s", place->path);
	place->there = KIT_MISSING;
	if (r >= 0)
		place->there = n == place->file->len && memcmp(found, place->file->data, n) == 0 ? KIT_SAME
												 : KIT_OTHER;
	if (found)
		explicit_bzero(found, n);
	return STATUS_OK;
}

/* As OpenSSL ends the first line of every kind of private key. */
static bool has_key(const struct kit_file *file)
{
	return memmem(file->data, file->len, "PRIVATE KEY-----", 16);
}

static enum status check_place(const struct planning *planning, const struct kit_place *place,
			       struct error *err)
{
	if (place->there == KIT_OTHER && str_eq(place->file->name, KIT_TICKET_KEY))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%s is another ticket key than that of the kit: nodes would refuse to mount "
				 "anything. If nothing needs it, move it away (mv %s %s.old) and try again",
				 place->path, place->path, place->path);
	if (place->there == KIT_MISSING && !place->is_credential && !is_below(place->path, planning->dir))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the settings name %s for the kit's %s, and that is not below %s: put it there "
			"yourself (openssl cms -decrypt, see KIT in holdfast-server(8)) and try again",
			place->path, place->file->name, planning->dir);
	return STATUS_OK;
}

static const struct kit_place *find_place(const struct kit_plan *plan, const char *path)
{
	for (size_t i = 0; i < plan->n; i++)
		if (str_eq(plan->places[i].path, path))
			return &plan->places[i];
	return NULL;
}

/* The settings may name one file for the certificate and its key. */
static enum status share_place(const struct kit_place *first, const struct kit_place *place,
			       struct error *err)
{
	const struct kit_file *a = first->file, *b = place->file;

	if (place->there != KIT_MISSING || (a->len == b->len && memcmp(a->data, b->data, a->len) == 0))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "the settings name %s for the kit's %s and %s, which differ: put it there yourself "
			 "(openssl cms -decrypt, see KIT in holdfast-server(8)) and try again",
			 place->path, a->name, b->name);
}

static enum status add_place(const struct planning *planning, const char *config_path,
			     const struct kit_file *file, struct kit_plan *plan, struct error *err)
{
	struct kit_place *place = &plan->places[plan->n];
	const struct kit_place *first;
	bool is_known;

	if (str_eq(file->name, KIT_STORE))
		return STATUS_OK;
	*place = (struct kit_place){.file = file};
	TRY(name_place(planning, config_path, place, &is_known, err));
	if (!is_known)
		return STATUS_OK;
	TRY(look_at(place, err));
	TRY(check_place(planning, place, err));
	place->is_key |= has_key(file);
	first = find_place(plan, place->path);
	if (first)
		return share_place(first, place, err);
	plan->n++;
	return STATUS_OK;
}

enum status kit_plan_make(const struct kit *kit, const char *config_path, struct config *ret_config,
			  struct kit_plan *ret, struct error *err)
{
	struct planning planning = {.config = ret_config};
	bool has_settings = access(config_path, F_OK) == 0;
	char *slash;

	if (str_copy(planning.dir, sizeof(planning.dir), config_path) < 0 || config_path[0] != '/')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "--config: an absolute path is wanted");
	slash = strrchr(planning.dir, '/');
	*slash = '\0';
	TRY(conf_dropin_dir(config_path, planning.dropins, err));
	TRY(has_settings ? config_load(config_path, ret_config, err) : load_from_kit(kit, ret_config, err));
	(void)str_copy(ret_config->path, sizeof(ret_config->path), config_path);
	ret->n = 0;
	for (size_t i = 0; i < kit->n; i++)
		/* drop-ins go with the settings that they change */
		if (!has_settings || !is_dropin(kit->files[i].name))
			TRY(add_place(&planning, config_path, &kit->files[i], ret, err));
	return STATUS_OK;
}

/* --- doing it --- */

static enum status make_folder(const struct kit_place *place, struct error *err)
{
	char folder[PATH_MAX];

	(void)str_copy(folder, sizeof(folder), place->path);
	*strrchr(folder, '/') = '\0';
	if (mkdir(folder, place->is_credential ? 0700 : 0755) < 0 && errno != EEXIST)
		return error_set(err, status_from_errno(errno), errno, "make %s", folder);
	return STATUS_OK;
}

/* Never over a file that came meanwhile. */
static enum status write_place(const struct kit_place *place, uid_t uid, gid_t gid, struct error *err)
{
	cleanup_close int fd = open(place->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "create %s", place->path);
	r = fd_write_all(fd, place->file->data, place->file->len);
	if (r == 0 && place->is_key && !place->is_credential && fchown(fd, uid, gid) < 0)
		r = -errno;
	if (r == 0 && (fchmod(fd, place->is_key ? 0600 : 0644) < 0 || fsync(fd) < 0))
		r = -errno;
	if (r == 0)
		r = file_sync_folder(place->path);
	if (r == 0)
		return STATUS_OK;
	(void)unlink(place->path); /* a part of it would be taken for another one */
	return error_set(err, status_from_errno(r), r, "write %s", place->path);
}

enum status kit_plan_do(const struct kit_plan *plan, uid_t uid, gid_t gid, struct error *err)
{
	for (size_t i = 0; i < plan->n; i++) {
		if (plan->places[i].there != KIT_MISSING)
			continue;
		TRY(make_folder(&plan->places[i], err));
		TRY(write_place(&plan->places[i], uid, gid, err));
	}
	return STATUS_OK;
}
