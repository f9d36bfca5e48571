// One thin-client connection: handshake with version fallback, request and response frames.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_CONNECTION_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "native/wire/buffer.h"
#include "native/wire/error.h"
#include "native/wire/frame.h"
#include "native/wire/security.h"
#include "native/wire/wait.h"

namespace ignite_strategy {

// Where a node is and how it is spoken to. Equal settings are one object, so that connections are shared only
// by those who would have opened them alike.
struct Endpoint {
  std::string host;
  std::uint16_t port = 10800;
  std::shared_ptr<const Security> security = nullptr;  // null = plain text, no user; see Security::Of

  bool operator==(const Endpoint& other) const { return Tie() == other.Tie(); }
  bool operator<(const Endpoint& other) const { return Tie() < other.Tie(); }
  // Another node of the same cluster: a partition's primary, for example.
  Endpoint At(const std::string& other_host, std::uint16_t other_port) const {
    return {other_host, other_port, security};
  }
  std::string ToString() const;  // host:port, IPv6 in brackets

 private:
  std::tuple<const std::string&, std::uint16_t, const Security*> Tie() const {
    return {host, port, security.get()};
  }
};

// Finite by default: nothing waits for ever because somebody forgot to say how long.
struct Timeouts {
  Millis connect{5000};   // name lookup, TCP, handshake
  Millis request{30000};  // one request until its response is complete
};

struct Version {
  std::int16_t major = 0, minor = 0, patch = 0;
  bool AtLeast(int want_major, int want_minor) const {
    return major > want_major || (major == want_major && minor >= want_minor);
  }
  std::string ToString() const;
};

// Feature bits of protocol 1.7 that this client implements.
enum class Feature { kNodeEndpoints = 3, kQueryPartitions = 7, kBinaryConfiguration = 8 };

struct Response {
  std::int64_t request_id = 0;
  std::int32_t status = 0;            // 0 = success
  std::string message;                // the server's, when status != 0
  bool topology_changed = false;      // >= 1.4; always set on a connection's first response
  std::int64_t topology_version = 0;  // with topology_changed
  std::int32_t topology_minor = 0;
  Frame frame;  // the whole body
  std::size_t payload_offset = 0;
  Reader payload() const { return Reader(frame.data() + payload_offset, frame.size() - payload_offset); }
};

// A frame larger than this is refused before memory is taken for it (the protocol's own ceiling is 2 GiB).
constexpr std::int32_t kMaxFrameBytes = 1 << 30;

// Not thread-safe: one owner at a time. After a throw other than a server error the connection is broken.
class Connection {
 public:
  // Encrypts as the endpoint says, then tries 1.7.0, then the version that the server offers, down to 1.1.0.
  // Errors: kUnavailable (refused, unreachable, closed), kDeadlineExceeded, kUnauthenticated (user, password
  // or a certificate), kFailedPrecondition (not an Ignite server, TLS on one side only, version too old),
  // kInvalidArgument (a certificate file that cannot be used).
  static std::unique_ptr<Connection> Open(const Endpoint& endpoint, const Timeouts& timeouts,
                                          const Wait& wait);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends one request in one write and returns its id. `tail` follows `payload` without being copied.
  std::int64_t Send(std::int16_t op, const Writer& payload, const void* tail, std::size_t tail_size,
                    const Wait& wait);
  std::int64_t Send(std::int16_t op, const Writer& payload, const Wait& wait);
  // The next response, whichever request it answers. A server error is returned, not thrown. A Receive that
  // ends with kDeadlineExceeded or kCancelled of `wait` has lost nothing: call it again. A response that
  // takes longer than Timeouts::request of waiting is kDeadlineExceeded too, but then the connection is
  // broken.
  Response Receive(const Wait& wait);
  // The same for loops of short waits: nothing if no response was complete within `limit`. Throws what
  // Receive throws, also kDeadlineExceeded once `wait` itself or Timeouts::request is over.
  std::optional<Response> TryReceive(Millis limit, const Wait& wait);
  // Takes a frame back, so that the next response of that size needs no new memory, and begins where this
  // does.
  void Recycle(Frame frame);
  // Send and receive; needs that nothing else is outstanding. Throws Error with the server's status and
  // message, `doing` ("scanning cache X") and the endpoint in its text.
  Response Call(std::int16_t op, const Writer& payload, const std::string& doing, const Wait& wait);
  // The exception for a failed response, with the endpoint and `doing` in its text.
  Error ServerError(const Response& response, const std::string& doing) const;

  const Endpoint& endpoint() const;
  const Version& version() const;
  const std::optional<Uuid>& node_id() const;  // >= 1.4: the node that answered the handshake
  bool Has(Feature feature) const;
  const Timeouts& timeouts() const;
  void set_timeouts(const Timeouts& timeouts);
  bool broken() const;
  // Neither broken nor waiting for anything, and the peer is still there: fit for the next user.
  bool Idle() const;
  // The numeric address that answered, with port.
  const std::string& peer() const;
  int outstanding() const;  // requests sent and not yet answered

 private:
  struct State;
  explicit Connection(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_CONNECTION_H_
