#include "native/wire/connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "native/wire/handshake.h"
#include "native/wire/response.h"
#include "native/wire/socket.h"

namespace ignite_strategy {
namespace {

// Memory for a frame is taken in steps as its bytes arrive: a length is only a claim.
constexpr std::size_t kFirstStep = 4u << 20;

Code CodeOf(std::int32_t status) {
  switch (status) {
    case 2:    // invalid operation code
    case 100:  // functionality disabled
      return Code::kUnimplemented;
    case 10:  // invalid node state
    case 11:  // node in recovery mode
      return Code::kFailedPrecondition;
    case 1000:  // cache does not exist
      return Code::kNotFound;
    case 1001:  // cache exists
      return Code::kAlreadyExists;
    case 1002:  // cache configuration invalid
      return Code::kInvalidArgument;
    case 1010:  // too many cursors
    case 1020:  // too many transactions
      return Code::kResourceExhausted;
    case 1012:  // security violation
      return Code::kPermissionDenied;
    case 2000:  // authentication failed
      return Code::kUnauthenticated;
    default:
      return Code::kUnknown;
  }
}

// The message that is arriving, kept between calls: a wait may end in the middle of it.
struct Incoming {
  std::array<std::uint8_t, 4> head{};
  std::size_t head_have = 0;
  std::size_t size = 0;  // of the body, once the head is complete
  std::size_t have = 0;
  Frame body;

  bool empty() const { return head_have == 0; }
  std::string Progress() const {
    if (head_have < head.size()) return std::to_string(head_have) + " bytes of its length had arrived";
    return std::to_string(have) + " of its " + std::to_string(size) + " bytes had arrived";
  }
};

}  // namespace

struct Connection::State {
  Endpoint endpoint;
  Timeouts timeouts;
  Socket socket;
  Agreement agreement;
  bool broken = false;
  std::int64_t next_id = 1;
  std::vector<std::int64_t> outstanding;
  Clock::duration waited{0};  // for the response that comes next; a caller's own pauses do not count
  Incoming incoming;

  std::string where() const { return endpoint.ToString(); }

  [[noreturn]] void Break(Code code, const std::string& message) {
    broken = true;
    socket.Close();
    throw Error(code, where() + ": " + message);
  }

  std::size_t Read(void* data, std::size_t size, const char* doing) {
    try {
      return socket.TryRead(data, size, doing);
    } catch (const Error& error) {
      broken = true;
      throw Error(error.code(), error.message() + (incoming.empty() ? "" : "; " + incoming.Progress()));
    }
  }

  void Grow(const char* doing) {
    try {
      incoming.body.Resize(std::min(incoming.size, std::max(kFirstStep, 2 * incoming.have)), incoming.have);
    } catch (const std::bad_alloc&) {
      Break(Code::kResourceExhausted,
            "no memory for a message of " + std::to_string(incoming.size) + " bytes while " + doing);
    }
  }

  // Takes what has arrived; true once a whole message is there.
  bool Advance(std::size_t limit, const char* doing) {
    Incoming& in = incoming;
    while (in.head_have < in.head.size()) {
      const std::size_t got = Read(in.head.data() + in.head_have, in.head.size() - in.head_have, doing);
      if (got == 0) return false;
      in.head_have += got;
      if (in.head_have == in.head.size()) CheckHead(limit, doing);
    }
    while (in.have < in.size) {
      if (in.have == in.body.size()) Grow(doing);
      const std::size_t got = Read(in.body.data() + in.have, in.body.size() - in.have, doing);
      if (got == 0) return false;
      in.have += got;
    }
    return true;
  }

  void CheckHead(std::size_t limit, const char* doing) {
    std::int32_t size;
    std::memcpy(&size, incoming.head.data(), sizeof size);
    if (size <= 0 || static_cast<std::size_t>(size) > limit) {
      if (!agreement.done) Break(Code::kFailedPrecondition, NotIgnite(incoming.head, socket.encrypted()));
      Break(Code::kDataLoss, "a message claims to have " + std::to_string(size) + " bytes (limit " +
                                 std::to_string(limit) + ") while " + doing);
    }
    incoming.size = static_cast<std::size_t>(size);
    incoming.have = 0;
    incoming.body.Resize(std::min(incoming.size, incoming.body.capacity()), 0);
  }

  Frame TakeFrame() {
    Frame frame = std::move(incoming.body);
    incoming = Incoming{};
    return frame;
  }

  Frame AwaitFrame(std::size_t limit, const Wait& wait, const char* doing) {
    while (!Advance(limit, doing)) AwaitMore(wait, doing);
    waited = {};
    return TakeFrame();
  }

  void AwaitMore(const Wait& wait, const char* doing) {
    if (agreement.done && waited >= timeouts.request) {
      Break(Code::kDeadlineExceeded, "no response within " + std::to_string(timeouts.request.count()) +
                                         " ms while " + doing +
                                         (incoming.empty() ? "" : "; " + incoming.Progress()));
    }
    const auto start = Clock::now();
    socket.AwaitReadable(wait, doing);
    waited += Clock::now() - start;
  }

  std::optional<Response> Take(const char* doing) {
    while (Advance(kMaxFrameBytes, doing)) {
      waited = {};
      std::optional<Response> response;
      try {
        response = ParseResponse(agreement.version, TakeFrame());
      } catch (const Error& error) {
        Break(error.code(), "a response cannot be read while " + std::string(doing) + ": " + error.message());
      }
      if (!response) continue;
      const auto id = std::find(outstanding.begin(), outstanding.end(), response->request_id);
      if (id == outstanding.end()) {
        Break(Code::kDataLoss, "a response to request " + std::to_string(response->request_id) +
                                   ", which is not outstanding, while " + doing);
      }
      outstanding.erase(id);
      return response;
    }
    return std::nullopt;
  }

  void NeedUsable(const char* doing) const {
    if (broken) {
      throw Error(Code::kUnavailable,
                  where() + ": the connection is broken since an earlier error, while " + doing);
    }
  }

  Response Await(const Wait& wait, const char* doing) {
    NeedUsable(doing);
    if (outstanding.empty()) {
      throw Error(Code::kFailedPrecondition, where() + ": no request is outstanding, while " + doing);
    }
    while (true) {
      std::optional<Response> response = Take(doing);
      if (response) return std::move(*response);
      AwaitMore(wait, doing);
    }
  }

  std::int64_t Send(std::int16_t op, const Writer& payload, const void* tail, std::size_t tail_size,
                    const Wait& wait, const char* doing) {
    NeedUsable(doing);
    const std::int64_t id = next_id++;
    const std::size_t size = sizeof op + sizeof id + payload.size() + tail_size;
    if (size > static_cast<std::size_t>(kMaxFrameBytes)) {
      throw Error(Code::kInvalidArgument, where() + ": a request of " + std::to_string(size) +
                                              " bytes (limit " + std::to_string(kMaxFrameBytes) + ") while " +
                                              doing);
    }
    Writer head;
    head.Put(static_cast<std::int32_t>(size)).Put(op).Put(id);
    Transmit({head.bytes().data(), head.size()}, {payload.bytes().data(), payload.size()}, {tail, tail_size},
             wait, doing);
    outstanding.push_back(id);
    return id;
  }

  using Part = std::pair<const void*, std::size_t>;
  void Transmit(Part head, Part payload, Part tail, const Wait& wait, const char* doing) {
    iovec parts[3];
    int count = 0;
    for (const Part& part : {head, payload, tail}) {
      if (part.second > 0) parts[count++] = {const_cast<void*>(part.first), part.second};
    }
    broken = true;  // until all of it is out: half a request cannot be taken back
    socket.Write(parts, count, agreement.done ? wait.Within(timeouts.request) : wait, doing);
    broken = false;
  }

  // Connects and offers one version.
  HandshakeAnswer Attempt(const Version& version, const Wait& wait) {
    constexpr const char* kDoing = "doing Ignite's handshake";
    socket.Close();
    socket = Socket::Connect(endpoint.host, endpoint.port, wait);
    broken = false;
    incoming = Incoming{};
    const Security* security = endpoint.security.get();
    if (security != nullptr && security->tls().on) socket.StartTls(*security, endpoint.host, wait);
    const Writer request = HandshakeRequest(version, security);
    Transmit({request.bytes().data(), request.size()}, {}, {}, wait, kDoing);
    const Frame frame = AwaitFrame(kMaxHandshakeBytes, wait, kDoing);
    try {
      return ParseHandshake(version, Reader(frame.data(), frame.size()));
    } catch (const Error& error) {
      Break(Code::kFailedPrecondition,
            "this is not an Ignite client port: its answer is no handshake's (" + error.message() + ")");
    }
  }

  void Handshake(const Wait& wait) {
    Version version = kNewestVersion;
    while (true) {
      HandshakeAnswer answer;
      try {
        answer = Attempt(version, wait);
      } catch (const Error& error) {
        throw Error(error.code(),
                    error.message() + HandshakeHint(error.code(), socket.open(), socket.encrypted()));
      }
      if (answer.accepted) {
        agreement = answer.agreement;
        return;
      }
      version = NextVersion(where(), version, answer, endpoint.security.get());
    }
  }
};

std::string Endpoint::ToString() const { return FormatEndpoint(host, port); }

Connection::Connection(std::unique_ptr<State> state) : state_(std::move(state)) {}
Connection::~Connection() = default;

std::unique_ptr<Connection> Connection::Open(const Endpoint& endpoint, const Timeouts& timeouts,
                                             const Wait& wait) {
  auto state = std::make_unique<State>();
  state->endpoint = endpoint;
  state->timeouts = timeouts;
  state->Handshake(wait.Within(timeouts.connect));
  return std::unique_ptr<Connection>(new Connection(std::move(state)));
}

std::int64_t Connection::Send(std::int16_t op, const Writer& payload, const void* tail, std::size_t tail_size,
                              const Wait& wait) {
  return state_->Send(op, payload, tail, tail_size, wait, "sending a request");
}

std::int64_t Connection::Send(std::int16_t op, const Writer& payload, const Wait& wait) {
  return state_->Send(op, payload, nullptr, 0, wait, "sending a request");
}

Response Connection::Receive(const Wait& wait) { return state_->Await(wait, "waiting for a response"); }

std::optional<Response> Connection::TryReceive(Millis limit, const Wait& wait) {
  const Wait shorter = wait.Within(limit);
  try {
    return Receive(shorter);
  } catch (const Error& error) {
    const bool only_this_slice =
        error.code() == Code::kDeadlineExceeded && !state_->broken && Clock::now() < wait.deadline;
    if (!only_this_slice) throw;
    return std::nullopt;
  }
}

void Connection::Recycle(Frame frame) {
  if (state_->incoming.empty() && frame.capacity() >= state_->incoming.body.capacity())
    state_->incoming.body = std::move(frame);
}

Response Connection::Call(std::int16_t op, const Writer& payload, const std::string& doing,
                          const Wait& wait) {
  state_->NeedUsable(doing.c_str());
  if (!state_->outstanding.empty()) {
    throw Error(Code::kFailedPrecondition,
                state_->where() + ": an earlier request of this connection was not answered, while " + doing);
  }
  state_->Send(op, payload, nullptr, 0, wait, doing.c_str());
  Response response = state_->Await(wait, doing.c_str());
  if (response.status != 0) throw ServerError(response, doing);
  return response;
}

Error Connection::ServerError(const Response& response, const std::string& doing) const {
  // No status of its own: "... cache partition has been lostParts [cacheName=X, part=3]".
  const bool lost = response.message.find("lostParts") != std::string::npos;
  return Error(lost ? Code::kDataLoss : CodeOf(response.status),
               state_->where() + ": the server answered with status " + std::to_string(response.status) +
                   " while " + doing + ": " + response.message,
               response.status);
}

const Endpoint& Connection::endpoint() const { return state_->endpoint; }
const Version& Connection::version() const { return state_->agreement.version; }
const std::optional<Uuid>& Connection::node_id() const { return state_->agreement.node_id; }
bool Connection::Has(Feature feature) const {
  const auto bit = static_cast<std::size_t>(feature);
  const std::vector<std::uint8_t>& features = state_->agreement.features;
  return bit / 8 < features.size() && (features[bit / 8] >> (bit % 8) & 1) != 0;
}
const Timeouts& Connection::timeouts() const { return state_->timeouts; }
void Connection::set_timeouts(const Timeouts& timeouts) { state_->timeouts = timeouts; }
bool Connection::broken() const { return state_->broken; }
int Connection::outstanding() const { return static_cast<int>(state_->outstanding.size()); }
bool Connection::Idle() const {
  return !state_->broken && state_->outstanding.empty() && state_->incoming.empty() && state_->socket.Quiet();
}
const std::string& Connection::peer() const { return state_->socket.peer(); }

}  // namespace ignite_strategy
