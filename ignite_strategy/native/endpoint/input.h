// What arrives from IGFS's endpoint, value by value. Every length is checked before it is used.
#ifndef IGNITE_STRATEGY_NATIVE_ENDPOINT_INPUT_H_
#define IGNITE_STRATEGY_NATIVE_ENDPOINT_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/endpoint/protocol.h"
#include "native/wire/socket.h"

namespace ignite_strategy {
namespace endpoint {

// A stream's number, and the length of the file when it was opened.
struct Stream {
  std::int64_t id = 0;
  std::uint64_t length = 0;
};

// What cannot be an answer of IGFS is Error(kDataLoss) with the endpoint in its text.
class Input {
 public:
  Input(Socket& socket, std::string where);

  template <typename T>
  T Get(const Wait& wait) {
    const std::uint8_t* bytes = Take(sizeof(T), wait);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value = value << 8 | bytes[i];
    return static_cast<T>(value);
  }
  bool GetBool(const Wait& wait) { return Get<std::uint8_t>(wait) != 0; }
  // A length or a count: not negative.
  std::size_t GetSize(std::int32_t most, const char* what, const Wait& wait);
  // `units`: how many UTF-16 units it has.
  std::string GetText(const Wait& wait, std::size_t* units = nullptr);
  // Nothing for null.
  std::optional<std::string> GetString(const Wait& wait);
  FileInfo GetFile(const Wait& wait);
  std::vector<FileInfo> GetFiles(const Wait& wait);
  Stream GetStream(const Wait& wait);
  void GetBytes(char* out, std::size_t size, const Wait& wait);
  void Skip(std::size_t size, const Wait& wait) { Take(size, wait); }

  // Takes what has arrived, without waiting; true if there is anything.
  bool Poll();
  bool empty() const { return begin_ == end_; }
  [[noreturn]] void Damaged(const std::string& what) const;

 private:
  const std::uint8_t* Take(std::size_t size, const Wait& wait);
  std::uint64_t GetLength(const Wait& wait);
  std::string GetLongString(const Wait& wait);

  Socket& socket_;
  const std::string where_;
  std::vector<std::uint8_t> buffer_;  // bytes that have arrived: [begin_, end_)
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace endpoint
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_ENDPOINT_INPUT_H_
