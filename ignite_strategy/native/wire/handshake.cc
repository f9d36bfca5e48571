#include "native/wire/handshake.h"

#include <algorithm>
#include <cstdio>

namespace ignite_strategy {
namespace {

constexpr std::uint8_t kHandshake = 1;
constexpr std::uint8_t kThinClient = 2;
constexpr std::uint8_t kByteArray = 12;
constexpr std::uint8_t kNull = 101;
constexpr std::int32_t kAuthenticationFailed = 2000;
constexpr std::int32_t kRecoveryMode = 11;

constexpr Version kVersions[] = {{1, 7, 0}, {1, 6, 0}, {1, 5, 0}, {1, 4, 0}, {1, 3, 0}, {1, 2, 0}, {1, 1, 0}};

bool Same(const Version& a, const Version& b) {
  return a.major == b.major && a.minor == b.minor && a.patch == b.patch;
}

std::vector<std::uint8_t> Features() {
  std::vector<std::uint8_t> bits(2, 0);
  for (const Feature feature :
       {Feature::kNodeEndpoints, Feature::kQueryPartitions, Feature::kBinaryConfiguration}) {
    const auto bit = static_cast<std::size_t>(feature);
    bits[bit / 8] |= static_cast<std::uint8_t>(1u << (bit % 8));
  }
  return bits;
}

Version GetVersion(Reader* reader) {
  Version version;
  version.major = reader->Get<std::int16_t>();
  version.minor = reader->Get<std::int16_t>();
  version.patch = reader->Get<std::int16_t>();
  return version;
}

// A server repeats the user name that it refuses; it belongs in no log.
std::string Without(std::string text, const std::string& name) {
  for (std::size_t at = text.find(name); !name.empty() && at != std::string::npos; at = text.find(name, at)) {
    text.replace(at, name.size(), "***");
    at += 3;
  }
  return text;
}

}  // namespace

std::string Version::ToString() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

Writer HandshakeRequest(const Version& version, const Security* security) {
  Writer body;
  body.Put(kHandshake).Put(version.major).Put(version.minor).Put(version.patch).Put(kThinClient);
  if (version.AtLeast(1, 7)) {
    const std::vector<std::uint8_t> features = Features();
    body.Put(kByteArray)
        .Put(static_cast<std::int32_t>(features.size()))
        .PutBytes(features.data(), features.size());
  }
  if (security != nullptr && security->secrets().username) {
    body.PutTypedString(*security->secrets().username).PutTypedString(*security->secrets().password);
  }
  Writer message;
  message.Put(static_cast<std::int32_t>(body.size())).PutBytes(body.bytes().data(), body.size());
  return message;
}

HandshakeAnswer ParseHandshake(const Version& asked, Reader body) {
  HandshakeAnswer answer;
  const auto success = body.Get<std::uint8_t>();
  if (success > 1) throw Error(Code::kDataLoss, "the answer begins with " + std::to_string(success));
  answer.accepted = success == 1;
  if (!answer.accepted) {
    answer.offered = GetVersion(&body);
    answer.message = body.TypedString().value_or("no message");
    if (body.left() >= sizeof answer.code) answer.code = body.Get<std::int32_t>();
    return answer;
  }
  Agreement& agreement = answer.agreement;
  agreement.done = true;
  agreement.version = asked;
  if (asked.AtLeast(1, 7)) {
    const auto code = body.Get<std::uint8_t>();
    if (code != kByteArray && code != kNull) throw Error(Code::kDataLoss, "the features are no byte array");
    if (code == kByteArray) {
      const std::size_t size = body.Count(1);
      const std::uint8_t* bytes = body.Bytes(size);
      agreement.features.assign(bytes, bytes + size);
    }
  }
  if (asked.AtLeast(1, 4)) agreement.node_id = body.TypedUuid();
  return answer;
}

Version NextVersion(const std::string& where, const Version& asked, const HandshakeAnswer& refusal,
                    const Security* security) {
  const bool named = security != nullptr && security->secrets().username;
  const std::string said =
      "the server refused the handshake: " +
      (named ? Without(refusal.message, *security->secrets().username) : refusal.message);
  if (refusal.code == kAuthenticationFailed) {
    throw Error(Code::kUnauthenticated,
                where + ": " + said +
                    (named ? " (check the user name and the password)"
                           : " (give username= and password=, or set IGNITE_DATASET_USERNAME and "
                             "IGNITE_DATASET_PASSWORD; IGFS_... for igfs://, IGNITE_... for everything)"),
                refusal.code);
  }
  if (refusal.code == kRecoveryMode) {
    throw Error(Code::kFailedPrecondition, where + ": " + said + " (the node is in recovery mode)",
                refusal.code);
  }
  const Version& offered = refusal.offered;
  const bool about_the_version = offered.major != 0 && !Same(offered, asked);
  if (!about_the_version) throw Error(Code::kFailedPrecondition, where + ": " + said, refusal.code);
  // An offer that we know is taken; else the next older version that we know is tried.
  for (const Version& known : kVersions) {
    if (Same(known, offered) && !offered.AtLeast(asked.major, asked.minor)) return known;
  }
  if (offered.AtLeast(1, 1)) {
    for (const Version& known : kVersions) {
      if (!known.AtLeast(asked.major, asked.minor)) return known;
    }
  }
  throw Error(Code::kFailedPrecondition,
              where + ": the server speaks protocol " + offered.ToString() + " and refused " +
                  asked.ToString() +
                  "; this client needs 1.1.0 to 1.7.0 (Ignite 2.7 or newer): " + refusal.message,
              refusal.code);
}

std::string NotIgnite(const std::array<std::uint8_t, 4>& head, bool encrypted) {
  const std::string text(reinterpret_cast<const char*>(head.data()), head.size());
  std::string found;
  if (text == "HTTP") {
    found = "an HTTP server answered";
  } else if (text == "SSH-") {
    found = "an SSH server answered";
  } else if (!encrypted && (head[0] == 0x15 || head[0] == 0x16) && head[1] == 0x03) {
    return "the port speaks TLS, and TLS is off here: give tls=True or cafile=, or set IGNITE_DATASET_TLS=1 "
           "or "
           "IGNITE_DATASET_CAFILE (IGFS_... for igfs://, IGNITE_... for everything)";
  } else if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    found = "the answer begins with \"" + text + "\"";
  } else {
    char hex[32];
    std::snprintf(hex, sizeof hex, "%02x %02x %02x %02x", head[0], head[1], head[2], head[3]);
    found = std::string("the answer begins with the bytes ") + hex;
  }
  return "this is not an Ignite client port: " + found +
         " (Ignite's client connector listens on 10800 unless configured otherwise)";
}

std::string HandshakeHint(Code code, bool connected, bool encrypted) {
  if (!connected || encrypted) return "";
  if (code == Code::kUnavailable) {
    return " (a port of another service, or an Ignite client port with TLS on: then give tls=True or "
           "cafile=, or "
           "set IGNITE_DATASET_TLS=1 or IGNITE_DATASET_CAFILE)";
  }
  if (code == Code::kDeadlineExceeded) return " (a port of another service, or a node that hangs?)";
  return "";
}

}  // namespace ignite_strategy
