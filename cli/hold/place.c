/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/place.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING_WORD "ending"

enum { NOTE_SIZE = UUID_SIZE + sizeof(ENDING_WORD) + 1 };

enum status hold_place_init(struct hold_place *place, const char *state_dir, const char *runtime_dir,
			    struct error *err)
{
	/* room for the suffixes of temporary files */
	if (str_format(place->note, sizeof(place->note) - NAME_MAX, "%s/allocation", state_dir) < 0 ||
	    str_format(place->link, sizeof(place->link) - NAME_MAX, "%s/mnt", runtime_dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "%s, %s", state_dir,
				 runtime_dir);
	return STATUS_OK;
}

/* "UUID\n" or "UUID ending\n" */
static bool note_parse(char *text, struct hold_note *ret)
{
	size_t n = strlen(text);
	char *word;

	if (n < UUID_SIZE || text[n - 1] != '\n')
		return false;
	text[n - 1] = '\0';
	word = strchr(text, ' ');
	if (word)
		*word++ = '\0';
	if (!id_is_uuid(text) || (word && !str_eq(word, ENDING_WORD)))
		return false;
	(void)str_copy(ret->alloc_id, sizeof(ret->alloc_id), text);
	ret->is_ending = word != NULL;
	return true;
}

enum status hold_note_read(const struct hold_place *place, struct hold_note *ret, struct error *err)
{
	cleanup_free char *text = NULL;
	struct hold_note note = {.alloc_id = ""};
	size_t n = 0;
	int r = file_read(place->note, NOTE_SIZE, &text, &n);

	if (r == -ENOENT) {
		*ret = note;
		return STATUS_OK;
	}
	if (r < 0 && r != -EFBIG)
		return error_set(err, status_from_errno(r), r, "cannot read %s", place->note);
	if (r == -EFBIG || strlen(text) != n || !note_parse(text, &note))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%s does not name the allocation of this holder. Next: find it with "
				 "holdfast alloc status, stop it, and remove the file",
				 place->note);
	*ret = note;
	return STATUS_OK;
}

enum status hold_note_write(const struct hold_place *place, const struct hold_note *note, struct error *err)
{
	char text[NOTE_SIZE];
	int n = str_format(text, sizeof(text), "%s%s\n", note->alloc_id,
			   note->is_ending ? " " ENDING_WORD : "");
	int r = n < 0 ? n : file_write_atomic(place->note, 0600, text, (size_t)n);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "note allocation %s in %s", note->alloc_id,
				 place->note);
	return STATUS_OK;
}

enum status hold_note_remove(const struct hold_place *place, struct error *err)
{
	if (unlink(place->note) < 0 && errno != ENOENT)
		return error_set(err, status_from_errno(errno), errno, "cannot remove %s", place->note);
	return STATUS_OK;
}

enum status hold_link_make(const struct hold_place *place, const char *path, struct error *err)
{
	char fresh[PATH_MAX];

	(void)str_format(fresh, sizeof(fresh), "%s.new", place->link);
	(void)unlink(fresh); /* of a process that was killed in between */
	if (symlink(path, fresh) < 0 || rename(fresh, place->link) < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot make %s a link to %s",
				 place->link, path);
	return STATUS_OK;
}

bool hold_link_read(const struct hold_place *place, char ret[static PATH_MAX])
{
	char path[PATH_MAX];
	ssize_t n = readlink(place->link, path, sizeof(path));

	if (n <= 0 || n >= (ssize_t)sizeof(path))
		return false;
	path[n] = '\0';
	(void)str_copy(ret, PATH_MAX, path);
	return true;
}

void hold_link_remove(const struct hold_place *place)
{
	(void)unlink(place->link);
}

bool hold_is_gone(const char *path)
{
	struct statx stx = {.stx_mask = 0};
	int r = sys_statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0,
			  &stx);

	if (r == -ENOENT)
		return true;
	return r == 0 && (stx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) &&
	       !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}
