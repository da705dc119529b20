/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Scope-bound cleanup and explicit hand-over of ownership.
 *
 * A variable declared with a cleanup attribute owns what it holds until TAKE_FD or TAKE_PTR hands it on. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/** Close *@fd unless it is negative; errno is preserved. */
static inline void close_fdp(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd); /* nothing can be done about an error here */
	errno = saved;
}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static inline void closedirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

#define cleanup(f) __attribute__((cleanup(f)))
#define cleanup_close cleanup(close_fdp)
#define cleanup_free cleanup(freep)
#define cleanup_fclose cleanup(fclosep)
#define cleanup_closedir cleanup(closedirp)

/* DEFINE_CLEANUP(struct claim, claim_free) defines claim_freep for use with cleanup(). */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be in parentheses */
#define DEFINE_CLEANUP(type, func)           \
	static inline void func##p(type **p) \
	{                                    \
		if (*p)                      \
			func(*p);            \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

/* Returns from the caller with the negative errno that @expr is, if it is one. */
#define TRY_SYS(expr)                    \
	do {                             \
		int try_sys_ = (expr);   \
		if (try_sys_ < 0)        \
			return try_sys_; \
	} while (0)

#define TAKE_FD(fd)                        \
	__extension__({                    \
		int *take_fd_ = &(fd);     \
		int taken_fd_ = *take_fd_; \
		*take_fd_ = -EBADF;        \
		taken_fd_;                 \
	})

#define TAKE_PTR(p)                                    \
	__extension__({                                \
		__typeof__(p) *take_ptr_ = &(p);       \
		__typeof__(p) taken_ptr_ = *take_ptr_; \
		*take_ptr_ = NULL;                     \
		taken_ptr_;                            \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof(*(a)))
