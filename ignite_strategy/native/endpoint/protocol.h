// The messages of IGFS's own endpoint (Ignite <= 2.8.1). Big-endian, strings in Java's modified UTF-8.
#ifndef IGNITE_STRATEGY_NATIVE_ENDPOINT_PROTOCOL_H_
#define IGNITE_STRATEGY_NATIVE_ENDPOINT_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "native/wire/error.h"

namespace ignite_strategy {
namespace endpoint {

enum class Command : std::int32_t {
  kHandshake = 0,
  kInfo = 3,
  kRename = 6,
  kDelete = 7,
  kMakeDirectories = 8,
  kListFiles = 10,
  kOpenRead = 13,
  kOpenAppend = 14,
  kOpenCreate = 15,
  kClose = 16,
  kReadBlock = 17,
  kWriteBlock = 18,
  kResponse = 19,
};

// What a response carries.
enum class ResultType : std::int32_t {
  kNothing = -1,  // of an error
  kBool = 0,
  kLong = 1,
  kFile = 2,
  kStream = 3,
  kFiles = 5,
  kBytes = 8,
  kStreamError = 9,
  kHandshake = 10,
};

// Why the server refused a request.
enum class Refusal : std::int32_t {
  kGeneric = 0,
  kIgfs = 1,
  kNotFound = 2,
  kAlreadyExists = 3,
  kNotEmpty = 4,
  kParentNotDirectory = 5,
  kOtherVersion = 6,
  kCorrupted = 7,
};

// An answer of the server that is an error. Any other Error means that there was no usable answer.
class ServerError : public Error {
 public:
  ServerError(Refusal refusal, std::string reason, const std::string& message);
  Refusal refusal() const { return refusal_; }
  // What the server said.
  const std::string& reason() const { return reason_; }
  // Somebody else has the file open for writing.
  bool IsLocked() const;
  // Nothing was done, because somebody else changed the same entries: the same request may succeed now.
  bool IsConcurrent() const;
  // The server does not say what failed, nor whether something was done: so it answers for a moment after it
  // has lost a node of its cluster.
  bool MayPass() const;

 private:
  Refusal refusal_;
  std::string reason_;
};

using Properties = std::map<std::string, std::string>;

struct FileInfo {
  std::string path;
  bool is_directory = false;
  std::uint64_t length = 0;
  std::int64_t mtime = 0;  // milliseconds since 1970
  Properties properties;
};

constexpr std::size_t kHeaderSize = 24;
// Java's DataOutput writes no longer string.
constexpr std::size_t kMaxStringBytes = 65535;

// Collects the payload of one request.
class Request {
 public:
  Request& PutBool(bool value);
  Request& PutInt(std::int32_t value);
  Request& PutLong(std::int64_t value);
  // Throws Error(kInvalidArgument) for a text that is too long for the protocol.
  Request& PutString(const std::optional<std::string>& text);
  // The common part of all requests about paths: as the default user, `to` being empty for all but a rename.
  Request& PutPaths(const std::string& path, const std::string& to, bool flag,
                    const Properties* properties = nullptr);

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  template <typename T>
  void Put(T value);
  void PutText(std::string_view text);

  std::vector<std::uint8_t> bytes_;
};

// The header of a request; `stream` and `length` are for requests about streams only.
void PutHeader(std::uint8_t* header, std::int64_t request, Command command, std::int64_t stream,
               std::int32_t length);

// One unit of two bytes becomes one to three, a character beyond them six, NUL two.
std::string ToModifiedUtf8(std::string_view utf8);
// Nothing if it is not well-formed. Halves of characters stay three bytes, which is no valid UTF-8.
// `units`: how many UTF-16 units it has.
std::optional<std::string> FromModifiedUtf8(std::string_view text, std::size_t* units = nullptr);

}  // namespace endpoint
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_ENDPOINT_PROTOCOL_H_
