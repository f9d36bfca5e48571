#include "native/wire/json.h"

#include "native/wire/error.h"

namespace ignite_strategy {
namespace {

void AppendUtf8(std::uint32_t point, std::string* out) {
  if (point < 0x80) {
    *out += static_cast<char>(point);
  } else if (point < 0x800) {
    *out += static_cast<char>(0xC0 | point >> 6);
    *out += static_cast<char>(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    *out += static_cast<char>(0xE0 | point >> 12);
    *out += static_cast<char>(0x80 | (point >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (point & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | point >> 18);
    *out += static_cast<char>(0x80 | (point >> 12 & 0x3F));
    *out += static_cast<char>(0x80 | (point >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (point & 0x3F));
  }
}

bool ValidUtf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto lead = static_cast<std::uint8_t>(text[at++]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xC2 && lead < 0xE0   ? 1
                     : lead >= 0xE0 && lead < 0xF0 ? 2
                     : lead >= 0xF0 && lead < 0xF5 ? 3
                                                   : 0;
    if (more == 0 || text.size() - at < static_cast<std::size_t>(more)) return false;
    std::uint32_t point = lead & (0x3F >> more);
    for (int i = 0; i < more; ++i) {
      const auto next = static_cast<std::uint8_t>(text[at++]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    const std::uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
    if (point < least || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
  }
  return true;
}

}  // namespace

std::string NameAndValue(const std::string& name, const std::string& value) {
  constexpr std::size_t kMaxShown = 60;
  return name + "=\"" + (value.size() > kMaxShown ? value.substr(0, kMaxShown) + "..." : value) + "\"";
}

void JsonReader::Fail(const std::string& what) const {
  throw Error(Code::kInvalidArgument, source_ + ": " + what + " at offset " + std::to_string(at_));
}

char JsonReader::Peek() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonReader::Expect(char wanted) {
  if (Peek() != wanted || at_ >= text_.size()) Fail(std::string("'") + wanted + "' expected");
  ++at_;
}

bool JsonReader::Accept(char wanted) {
  if (Peek() != wanted || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

std::uint32_t JsonReader::HexUnit() {
  std::uint32_t unit = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) Fail("four hexadecimal digits expected after \\u");
    unit = unit << 4 | static_cast<std::uint32_t>(digit);
    ++at_;
  }
  return unit;
}

void JsonReader::Escape(std::string* out) {
  if (at_ >= text_.size()) Fail("the string does not end");
  const char c = text_[at_++];
  switch (c) {
    case '"':
    case '\\':
    case '/':
      *out += c;
      return;
    case 'b':
      *out += '\b';
      return;
    case 'f':
      *out += '\f';
      return;
    case 'n':
      *out += '\n';
      return;
    case 'r':
      *out += '\r';
      return;
    case 't':
      *out += '\t';
      return;
    case 'u':
      break;
    default:
      Fail("unknown escape");
  }
  std::uint32_t point = HexUnit();
  if (point >= 0xD800 && point < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") Fail("a surrogate without its second half");
    at_ += 2;
    const std::uint32_t low = HexUnit();
    if (low < 0xDC00 || low >= 0xE000) Fail("a surrogate without its second half");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  } else if (point >= 0xDC00 && point < 0xE000) {
    Fail("a surrogate without its first half");
  }
  AppendUtf8(point, out);
}

std::string JsonReader::String() {
  Expect('"');
  std::string out;
  while (true) {
    if (at_ >= text_.size()) Fail("the string does not end");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) Fail("a control character in a string");
    ++at_;
    if (c == '"') break;
    if (c == '\\') {
      Escape(&out);
    } else {
      out += c;
    }
  }
  if (!ValidUtf8(out)) Fail("a string that is not UTF-8");
  return out;
}

std::int64_t JsonReader::Integer() {
  Peek();
  const bool negative = at_ < text_.size() && text_[at_] == '-';
  if (negative) ++at_;
  const std::size_t start = at_;
  std::int64_t value = 0;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    if (at_ - start == 18) Fail("a number that is too large");
    value = 10 * value + (text_[at_++] - '0');
  }
  if (at_ == start) Fail("an integer expected");
  if (text_[start] == '0' && at_ - start > 1) Fail("a number with a leading zero");
  if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
    Fail("an integer expected");
  return negative ? -value : value;
}

void JsonReader::End() {
  if (Peek() != '\0' || at_ < text_.size()) Fail("more text than expected");
}

}  // namespace ignite_strategy
