// Host names to addresses, within a deadline.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_RESOLVE_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_RESOLVE_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "native/wire/wait.h"

namespace ignite_strategy {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family = 0;
  std::string ToString() const;  // numeric, with port
};

// All TCP addresses of a host, in the order the system prefers. Never empty. Errors: kUnavailable (no such
// host), kInvalidArgument (cannot be a host name), and those of `wait`.
std::vector<Address> Resolve(const std::string& host, std::uint16_t port, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_RESOLVE_H_
