// A node that answers with what another one once answered, without a network: socket.cc takes the place of
// wire/socket.cc, so that everything above it runs as it does in the library.
#ifndef IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_PEER_H_
#define IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_PEER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/fuzz/native/damage.h"

namespace ignite_strategy {

constexpr std::int32_t kHandshakeAnswer = -1;

// What a node sent: the operation that it answers, the request if only that one gets this answer, and the
// message without its length.
struct Answer {
  std::int32_t op = 0;
  Bytes request;
  Bytes body;
};

// One conversation. Answers to an operation come in the order in which they were recorded, the last of them
// again and again; there are no more than kMostAnswers.
class Peer {
 public:
  // `damage` changes a whole message, its length included, the first time that the answer numbered `damaged`
  // is sent.
  Peer(std::vector<Answer> answers, std::size_t damaged, std::function<void(Bytes&)> damage);
  ~Peer();
  // The peer of every socket, if there is one.
  static Peer* Current();
  // What comes back for a request; nothing once the peer has had enough, and closes.
  Bytes Respond(const Bytes& request, bool handshake);

 private:
  static constexpr int kMostAnswers = 300;

  std::vector<Answer> answers_;
  std::vector<bool> used_;
  std::size_t damaged_;
  std::function<void(Bytes&)> damage_;
  int sent_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_PEER_H_
