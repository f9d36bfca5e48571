#include "tests/fuzz/native/peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "native/wire/buffer.h"

namespace ignite_strategy {
namespace {

constexpr std::size_t kRequestHead = 4 + 2 + 8;  // length, operation, id
Peer* current = nullptr;

Bytes Framed(const Bytes& body) {
  Writer frame;
  frame.Put<std::int32_t>(static_cast<std::int32_t>(body.size())).PutBytes(body.data(), body.size());
  return frame.bytes();
}

}  // namespace

Peer::Peer(std::vector<Answer> answers, std::size_t damaged, std::function<void(Bytes&)> damage)
    : answers_(std::move(answers)),
      used_(answers_.size(), false),
      damaged_(damaged),
      damage_(std::move(damage)) {
  current = this;
}

Peer::~Peer() { current = nullptr; }

Peer* Peer::Current() { return current; }

Bytes Peer::Respond(const Bytes& request, bool handshake) {
  if (++sent_ > kMostAnswers) return {};
  std::int32_t op = kHandshakeAnswer;
  std::int64_t id = 0;
  if (!handshake) {
    if (request.size() < kRequestHead) return {};
    std::int16_t short_op = 0;
    std::memcpy(&short_op, request.data() + 4, sizeof short_op);
    std::memcpy(&id, request.data() + 6, sizeof id);
    op = short_op;
  }
  const Bytes asked(request.begin() + static_cast<std::ptrdiff_t>(std::min(request.size(), kRequestHead)),
                    request.end());
  // The better an answer fits, the more it counts.
  std::size_t found = answers_.size();
  int best = 0;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    if (answers_[i].op != op) continue;
    const int fits = 1 + (used_[i] ? 0 : 1) + (answers_[i].request == asked ? 2 : 0);
    if (fits < best || (fits == best && !used_[i])) continue;
    best = fits;
    found = i;
  }
  if (found == answers_.size()) {  // nothing of the kind was recorded
    Writer refused;
    refused.Put(id).Put<std::int16_t>(1).Put<std::int32_t>(1).PutTypedString("not recorded");
    return Framed(refused.bytes());
  }
  Bytes body = answers_[found].body;
  if (!handshake && body.size() >= sizeof id) std::memcpy(body.data(), &id, sizeof id);
  Bytes message = Framed(body);
  if (found == damaged_ && !used_[found] && damage_) damage_(message);
  used_[found] = true;
  return message;
}

}  // namespace ignite_strategy
