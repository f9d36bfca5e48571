// A strict reader for the one JSON document that reaches native code: an object of names with partitions.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_JSON_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ignite_strategy {

// NAME="value" for messages, a long value cut.
std::string NameAndValue(const std::string& name, const std::string& value);

// A position in JSON text. Whatever is not as expected throws Error(kInvalidArgument) naming the source and
// offset.
class JsonReader {
 public:
  JsonReader(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  // The next character that is not white space; 0 at the end.
  char Peek();
  void Expect(char wanted);
  // Consumes `wanted` if it is next.
  bool Accept(char wanted);
  std::string String();
  std::int64_t Integer();
  void End();
  [[noreturn]] void Fail(const std::string& what) const;

 private:
  std::uint32_t HexUnit();
  void Escape(std::string* out);

  std::string_view text_;
  std::string source_;
  std::size_t at_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_JSON_H_
