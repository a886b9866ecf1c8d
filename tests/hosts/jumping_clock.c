/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before the C library: the clock of the day jumps by an hour every 100 ms, ahead and back. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t jump(const struct timespec* now) {
  return now->tv_nsec / 100000000 % 2 == 0 ? 3600 : -3600;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int status = (int)syscall(SYS_clock_gettime, clock, now);
  if (status == 0 && clock == CLOCK_REALTIME) now->tv_sec += jump(now);
  return status;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec precise;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* to) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (to != NULL) *to = precise.tv_sec;
  return precise.tv_sec;
}
