#include "native/wire/resolve.h"

#include <netdb.h>
#include <netinet/in.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "native/wire/error.h"
#include "native/wire/socket.h"

namespace ignite_strategy {
namespace {

// Shared with the thread that looks the name up: getaddrinfo cannot be interrupted, so a caller whose time is
// over leaves it behind and the last one out frees this.
struct Lookup {
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
  int error = 0;
  int system_error = 0;
  std::vector<Address> addresses;
};

int LookUp(const std::string& host, std::uint16_t port, int flags, std::vector<Address>* addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return error;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    Address address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
    address.family = info->ai_family;
    addresses->push_back(address);
  }
  return addresses->empty() ? EAI_NONAME : 0;
}

[[noreturn]] void Fail(const std::string& where, int error, int system_error) {
  const std::string why = error == EAI_SYSTEM ? std::strerror(system_error) : gai_strerror(error);
  throw Error(Code::kUnavailable, where + ": the host name cannot be resolved: " + why);
}

}  // namespace

std::string Address::ToString() const {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unprintable address";
  }
  return FormatEndpoint(host, static_cast<std::uint16_t>(std::stoi(port)));
}

std::vector<Address> Resolve(const std::string& host, std::uint16_t port, const Wait& wait) {
  const std::string where = FormatEndpoint(host, port);
  if (host.empty() || host.size() > 253 ||
      host.find_first_of(std::string(" \t\r\n/\0", 6)) != std::string::npos) {
    throw Error(Code::kInvalidArgument, "not a host name: \"" + host + "\"");
  }
  std::vector<Address> addresses;
  if (LookUp(host, port, AI_NUMERICHOST, &addresses) == 0) return addresses;

  const auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([lookup, host, port] {
      std::vector<Address> found;
      const int error = LookUp(host, port, 0, &found);
      const int system_error = errno;
      const std::lock_guard<std::mutex> lock(lookup->mutex);
      lookup->addresses = std::move(found);
      lookup->error = error;
      lookup->system_error = system_error;
      lookup->done = true;
      lookup->done_changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    throw Error(Code::kResourceExhausted, where + ": no thread to look the host name up");
  }
  std::unique_lock<std::mutex> lock(lookup->mutex);
  while (!lookup->done) {
    lock.unlock();  // the check may wait for Python's lock
    const Millis slice = wait.NextSlice("resolving the host name");
    lock.lock();
    lookup->done_changed.wait_for(lock, slice, [&lookup] { return lookup->done; });
  }
  if (lookup->error != 0) Fail(where, lookup->error, lookup->system_error);
  return std::move(lookup->addresses);
}

}  // namespace ignite_strategy
