#include "native/endpoint/connection.h"

#include <array>
#include <limits>
#include <type_traits>
#include <utility>

namespace ignite_strategy {
namespace endpoint {
namespace {

constexpr const char* kSending = "sending a request to IGFS";

}  // namespace

Connection::Connection(Endpoint endpoint, std::string file_system, Timeouts timeouts)
    : endpoint_(std::move(endpoint)),
      file_system_(std::move(file_system)),
      timeouts_(timeouts),
      input_(socket_, endpoint_.ToString()) {}

// Runs `body(wait)` within the time for one request; the connection is broken unless it succeeds.
template <typename Body>
auto Connection::Limited(const Wait& wait, Body body) -> decltype(body(wait)) {
  if (broken_) throw Error(Code::kUnavailable, endpoint_.ToString() + ": the connection is broken");
  const Wait limited = wait.Within(timeouts_.request);
  broken_ = true;
  try {
    if constexpr (std::is_void_v<decltype(body(wait))>) {
      body(limited);
      broken_ = false;
    } else {
      auto result = body(limited);
      broken_ = false;
      return result;
    }
  } catch (const Error& error) {
    socket_.Close();
    if (error.code() != Code::kDeadlineExceeded || Clock::now() >= wait.deadline) throw;
    throw Error(Code::kUnavailable, error.message() + " (" +
                                        std::to_string(timeouts_.request.count() / 1000) +
                                        " s): the server is overloaded, hangs or cannot be reached");
  } catch (...) {
    socket_.Close();
    throw;
  }
}

std::unique_ptr<Connection> Connection::Open(const Endpoint& endpoint, const std::string& file_system,
                                             const Timeouts& timeouts, const Wait& wait) {
  std::unique_ptr<Connection> connection(new Connection(endpoint, file_system, timeouts));
  const Wait limited = wait.Within(timeouts.connect);
  try {
    connection->socket_ = Socket::Connect(endpoint.host, endpoint.port, limited);
    connection->broken_ = false;
    connection->Handshake(limited);
  } catch (const Error& error) {
    if (error.code() != Code::kDeadlineExceeded || Clock::now() >= wait.deadline) throw;
    throw Error(Code::kUnavailable, error.message());  // silent is not there
  }
  return connection;
}

void Connection::Handshake(const Wait& wait) {
  const std::string doing = "opening the file system '" + file_system_ + "'";
  Request request;
  request.PutString(file_system_).PutString(std::nullopt);  // no directory for logs
  const std::int64_t id = Send(Command::kHandshake, request, wait);
  try {
    Await(id, ResultType::kHandshake, doing, wait);
    Limited(wait, [&](const Wait& limited) {
      if (!input_.GetBool(limited)) input_.Damaged("a handshake without content");
      input_.GetString(limited);
      input_.Get<std::int64_t>(limited);                     // the size of a block's group
      if (input_.GetBool(limited)) input_.GetBool(limited);  // sampling
    });
  } catch (const ServerError& error) {
    throw Error(Code::kFailedPrecondition, endpoint_.ToString() + ": IGFS refuses the file system '" +
                                               file_system_ +
                                               "' (IGFS_FS_NAME, or FS@ in the URI): " + error.reason());
  } catch (const Error& error) {
    const bool silent = error.code() == Code::kUnavailable || error.code() == Code::kDeadlineExceeded;
    if (!silent && error.code() != Code::kDataLoss) throw;
    throw Error(
        silent ? error.code() : Code::kFailedPrecondition,
        error.message() + ", at the handshake: is " + endpoint_.ToString() +
            " the endpoint of IGFS in an Ignite <= 2.8.1 (port 10500 by default)? A thin client's port "
            "(10800) needs IGFS_BACKEND=caches");
  }
}

// The server is not what it should be: nothing that follows can be understood.
void Connection::Break(const std::string& what) {
  broken_ = true;
  socket_.Close();
  input_.Damaged(what);
}

bool Connection::Idle() const { return !broken_ && outstanding_ == 0 && input_.empty() && socket_.Quiet(); }

// --- Sending

std::int64_t Connection::SendParts(const iovec* parts, int count, const Wait& wait) {
  return Limited(wait, [&](const Wait& limited) {
    socket_.Write(parts, count, limited, kSending);
    return next_id_++;
  });
}

std::int64_t Connection::Send(Command command, const Request& payload, const Wait& wait) {
  std::array<std::uint8_t, kHeaderSize> header;
  PutHeader(header.data(), next_id_, command, 0, 0);
  const iovec parts[] = {{header.data(), header.size()},
                         {const_cast<std::uint8_t*>(payload.bytes().data()), payload.bytes().size()}};
  ++outstanding_;
  return SendParts(parts, 2, wait);
}

std::int64_t Connection::SendReadBlock(std::int64_t stream, std::uint64_t position, std::size_t size,
                                       const Wait& wait) {
  std::array<std::uint8_t, kHeaderSize> header;
  PutHeader(header.data(), next_id_, Command::kReadBlock, stream, static_cast<std::int32_t>(size));
  Request where;
  where.PutLong(static_cast<std::int64_t>(position));
  const iovec parts[] = {{header.data(), header.size()},
                         {const_cast<std::uint8_t*>(where.bytes().data()), where.bytes().size()}};
  ++outstanding_;
  return SendParts(parts, 2, wait);
}

void Connection::SendWriteBlock(std::int64_t stream, const char* data, std::size_t size, const Wait& wait) {
  std::array<std::uint8_t, kHeaderSize> header;
  PutHeader(header.data(), next_id_, Command::kWriteBlock, stream, static_cast<std::int32_t>(size));
  const iovec parts[] = {{header.data(), header.size()}, {const_cast<char*>(data), size}};
  SendParts(parts, 2, wait);
}

std::int64_t Connection::SendClose(std::int64_t stream, const char* data, std::size_t size,
                                   const Wait& wait) {
  std::array<std::uint8_t, kHeaderSize> block, close;
  PutHeader(block.data(), next_id_, Command::kWriteBlock, stream, static_cast<std::int32_t>(size));
  if (size > 0) ++next_id_;
  PutHeader(close.data(), next_id_, Command::kClose, stream, 0);
  const iovec parts[] = {
      {block.data(), block.size()}, {const_cast<char*>(data), size}, {close.data(), close.size()}};
  ++outstanding_;
  return size > 0 ? SendParts(parts, 3, wait) : SendParts(parts + 2, 1, wait);
}

// --- Receiving

Answer Connection::Receive(const std::string& doing, const Wait& wait) {
  struct Failure {
    bool failed = false;
    std::string reason;
    Refusal refusal = Refusal::kGeneric;
  } failure;
  const Answer answer = Limited(wait, [&](const Wait& limited) {
    Answer begin;
    begin.request = input_.Get<std::int64_t>(limited);
    const auto command = input_.Get<std::int32_t>(limited);
    if (command != static_cast<std::int32_t>(Command::kResponse) || begin.request < 0 ||
        begin.request >= next_id_) {
      input_.Damaged("a message of kind " + std::to_string(command) + " to request " +
                     std::to_string(begin.request));
    }
    input_.Skip(kHeaderSize - 12, limited);
    begin.type = static_cast<ResultType>(input_.Get<std::int32_t>(limited));
    failure.failed = input_.GetBool(limited);
    begin.length = input_.GetSize(std::numeric_limits<std::int32_t>::max(), "bytes of a block", limited);
    if (failure.failed) {
      failure.reason = input_.GetText(limited);
      failure.refusal = static_cast<Refusal>(input_.Get<std::int32_t>(limited));
      if (begin.type == ResultType::kStreamError) input_.Get<std::int64_t>(limited);
    }
    return begin;
  });
  if (!failure.failed) {
    --outstanding_;
    return answer;
  }
  // To a block that could not be written: the server may not have read all of it, and takes the rest for
  // requests.
  if (answer.type == ResultType::kStreamError) {
    broken_ = true;
    socket_.Close();
  }
  --outstanding_;
  throw ServerError(failure.refusal, failure.reason, endpoint_.ToString() + ": " + doing);
}

void Connection::CheckNothingArrived(const std::string& doing, const Wait& wait) {
  if (!Limited(wait, [&](const Wait&) { return input_.Poll(); })) return;
  ++outstanding_;
  const Answer answer = Receive(doing, wait);
  Break("an answer to request " + std::to_string(answer.request) + ", which has none");
}

void Connection::Await(std::int64_t request, ResultType type, const std::string& doing, const Wait& wait) {
  const Answer answer = Receive(doing, wait);
  if (answer.request == request && answer.type == type) return;
  Break("type " + std::to_string(static_cast<std::int32_t>(answer.type)) + " to request " +
        std::to_string(answer.request) + " instead of type " +
        std::to_string(static_cast<std::int32_t>(type)) + " to request " + std::to_string(request));
}

void Connection::Call(Command command, const Request& payload, ResultType type, const std::string& doing,
                      const Wait& wait) {
  Await(Send(command, payload, wait), type, doing, wait);
}

bool Connection::ReadBool(const Wait& wait) {
  return Limited(wait, [&](const Wait& limited) { return input_.GetBool(limited); });
}

std::int64_t Connection::ReadLong(const Wait& wait) {
  return Limited(wait, [&](const Wait& limited) { return input_.Get<std::int64_t>(limited); });
}

std::optional<FileInfo> Connection::ReadFile(const Wait& wait) {
  return Limited(wait, [&](const Wait& limited) -> std::optional<FileInfo> {
    if (!input_.GetBool(limited)) return std::nullopt;
    return input_.GetFile(limited);
  });
}

std::optional<Stream> Connection::ReadStream(const Wait& wait) {
  return Limited(wait, [&](const Wait& limited) -> std::optional<Stream> {
    if (!input_.GetBool(limited)) return std::nullopt;
    return input_.GetStream(limited);
  });
}

std::vector<FileInfo> Connection::ReadFiles(const Wait& wait) {
  return Limited(wait, [&](const Wait& limited) { return input_.GetFiles(limited); });
}

void Connection::ReadBytes(char* out, std::size_t size, const Wait& wait) {
  Limited(wait, [&](const Wait& limited) { input_.GetBytes(out, size, limited); });
}

}  // namespace endpoint
}  // namespace ignite_strategy
