/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what a thread asks the system for: memory, and threads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

_Thread_local long counted_requests;

void* malloc(size_t bytes) {
  ++counted_requests;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++counted_requests;
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) {
  ++counted_requests;
  return __libc_realloc(block, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++counted_requests;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == NULL ? ENOMEM : 0;
}
void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  static void* (*real)(void*, size_t, int, int, int, off_t);
  ++counted_requests;
  if (real == NULL) real = (void* (*)(void*, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  return real(at, bytes, protection, flags, file, offset);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*f)(void*),
                   void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  ++counted_requests;
  if (real == NULL) {
    real = (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(
        RTLD_NEXT, "pthread_create");
  }
  return real(thread, attributes, f, argument);
}
