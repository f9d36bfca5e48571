/* Preloaded by test_addresses.py in place of the system's name lookup: "slow.test" takes 30 seconds, "several.test" has
 * the addresses in TEST_ADDRESSES, and other names are looked up as usual. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*lookup)(const char*, const char*, const struct addrinfo*, struct addrinfo**);

int getaddrinfo(const char* host, const char* port, const struct addrinfo* hints, struct addrinfo** found) {
  lookup real = (lookup)dlsym(RTLD_NEXT, "getaddrinfo");
  if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST)) return real(host, port, hints, found);
  if (strcmp(host, "slow.test") == 0) sleep(30);
  if (strcmp(host, "several.test") != 0) return real(host, port, hints, found);
  char* list = strdup(getenv("TEST_ADDRESSES"));
  struct addrinfo** end = found;
  for (char* one = strtok(list, ","); one != NULL; one = strtok(NULL, ",")) {
    const int error = real(one, port, hints, end);
    if (error != 0) return error;
    while (*end != NULL) end = &(*end)->ai_next;
  }
  free(list);
  return 0;
}
