// One connection to the endpoint of IGFS: handshake, requests, responses.
#ifndef IGNITE_STRATEGY_NATIVE_ENDPOINT_CONNECTION_H_
#define IGNITE_STRATEGY_NATIVE_ENDPOINT_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "native/endpoint/input.h"
#include "native/endpoint/protocol.h"
#include "native/wire/connection.h"
#include "native/wire/socket.h"

namespace ignite_strategy {
namespace endpoint {

// The begin of a response; what follows is read by the function for its type.
struct Answer {
  std::int64_t request = 0;
  ResultType type = ResultType::kNothing;
  std::size_t length = 0;  // of kBytes
};

// Not thread-safe: one owner at a time. After a throw of anything but a ServerError it is broken. Nothing
// waits for longer than Timeouts::request: a server that does not answer within it is kUnavailable.
class Connection {
 public:
  // Errors: kUnavailable (refused, unreachable, closed, silent), kFailedPrecondition (something else than
  // IGFS answers, or one with another name).
  static std::unique_ptr<Connection> Open(const Endpoint& endpoint, const std::string& file_system,
                                          const Timeouts& timeouts, const Wait& wait);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends a request and returns its id.
  std::int64_t Send(Command command, const Request& payload, const Wait& wait);
  std::int64_t SendReadBlock(std::int64_t stream, std::uint64_t position, std::size_t size, const Wait& wait);
  // The server says nothing to a block that it could write.
  void SendWriteBlock(std::int64_t stream, const char* data, std::size_t size, const Wait& wait);
  // Writes what there is of it first, so that a small file is one message.
  std::int64_t SendClose(std::int64_t stream, const char* data, std::size_t size, const Wait& wait);

  // The next response, whichever request it answers. Throws ServerError, with `doing` ("listing /a") in its
  // text, if it is an error.
  Answer Receive(const std::string& doing, const Wait& wait);
  // Throws the error that the server has sent already about a block, if there is one.
  void CheckNothingArrived(const std::string& doing, const Wait& wait);

  // What follows an Answer of that type.
  bool ReadBool(const Wait& wait);
  std::int64_t ReadLong(const Wait& wait);
  std::optional<FileInfo> ReadFile(const Wait& wait);
  std::optional<Stream> ReadStream(const Wait& wait);
  std::vector<FileInfo> ReadFiles(const Wait& wait);
  void ReadBytes(char* out, std::size_t size, const Wait& wait);

  // Send and Receive of a request whose answer has this type; needs that nothing else is outstanding.
  void Call(Command command, const Request& payload, ResultType type, const std::string& doing,
            const Wait& wait);
  // Receive of the answer to this very request.
  void Await(std::int64_t request, ResultType type, const std::string& doing, const Wait& wait);

  const Endpoint& endpoint() const { return endpoint_; }
  const std::string& file_system() const { return file_system_; }
  // Neither broken nor waiting for anything, and the peer is still there: fit for the next user.
  bool Idle() const;

 private:
  Connection(Endpoint endpoint, std::string file_system, Timeouts timeouts);

  void Handshake(const Wait& wait);
  std::int64_t SendParts(const iovec* parts, int count, const Wait& wait);
  template <typename Body>
  auto Limited(const Wait& wait, Body body) -> decltype(body(wait));
  [[noreturn]] void Break(const std::string& what);

  const Endpoint endpoint_;
  const std::string file_system_;
  const Timeouts timeouts_;
  Socket socket_;
  bool broken_ = true;
  std::int64_t next_id_ = 0;
  int outstanding_ = 0;
  Input input_;
};

}  // namespace endpoint
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_ENDPOINT_CONNECTION_H_
