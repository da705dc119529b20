#pragma once
/* Locks between the instances of one agent's block: byte ranges of the state file. They belong to the open
 * file, so the kernel drops them with the process. Order: volume, allocation, table. */

/** Take one of HELPER_INSTANCES places until this process ends. Returns its number, or -EAGAIN. */
int lock_instance(int fd);

/** Lock @volume until lock_release(); -EAGAIN when another instance works on it. */
int lock_volume(int fd, const char *volume);

/** Wait for the lock of @alloc's directory, held only while one publish is made or removed. */
int lock_alloc(int fd, const char *alloc);

/** Wait for the lock of the state table. */
int lock_table(int fd);

/** Give the table's lock back. */
void unlock_table(int fd);

/** Give back every lock but the instance's. */
void lock_release(int fd);
