// The first exchange on a connection: which protocol version and features both sides speak, and who answered.
// Pure.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_HANDSHAKE_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_HANDSHAKE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/wire/buffer.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

inline constexpr Version kNewestVersion{1, 7, 0};
// No server's answer is longer: a larger claim comes from something else than Ignite.
inline constexpr std::size_t kMaxHandshakeBytes = 64 << 10;

// What both sides agreed on.
struct Agreement {
  bool done = false;
  Version version;
  std::vector<std::uint8_t> features;
  std::optional<Uuid> node_id;
};

struct HandshakeAnswer {
  bool accepted = false;
  Agreement agreement;  // if accepted
  Version offered;      // else: the server's version, 0.0.0 when the version is not what it objects to
  std::string message;
  std::int32_t code = 0;
};

// The whole message, length included, with user and password if there are any.
Writer HandshakeRequest(const Version& version, const Security* security);
// The body of the answer. Throws Error(kDataLoss) if it is none.
HandshakeAnswer ParseHandshake(const Version& asked, Reader body);
// The version to try after a refusal; throws the refusal as an Error if there is none.
Version NextVersion(const std::string& where, const Version& asked, const HandshakeAnswer& refusal,
                    const Security* security);
// What to say about a peer whose answer begins with these bytes.
std::string NotIgnite(const std::array<std::uint8_t, 4>& head, bool encrypted);
// What to check when the handshake got no answer; empty if nothing is known.
std::string HandshakeHint(Code code, bool connected, bool encrypted);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_HANDSHAKE_H_
